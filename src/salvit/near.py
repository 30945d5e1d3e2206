"""A near look (ours): a detector that finds objects is shown each picture again, near the one that it found.

A box that the user gives is near enough: then nothing is looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from salvit.data.crops import near_window
from salvit.data.images import MAX_PIXELS, read_and_fit
from salvit.geometry import Window, affine_of_fit
from salvit.types import Detector, FittedImage, FloatArray

FindObjects = Callable[[Sequence[FittedImage]], list[Window]]
"""Pictures to the box of the object in each, in its own pixels."""


def finder_of(detector: Detector) -> FindObjects | None:
    """How a detector finds objects; None: it does not, and looks at pictures as they are."""
    from salvit.model.detector import SalViT

    if not isinstance(detector, SalViT) or detector.finder is None:
        return None
    model, finder = detector, detector.finder

    def find(images: Sequence[FittedImage]) -> list[Window]:
        boxes = finder.find(model.glance(model.tensors(images)[0]), model.input_size)
        return [affine_of_fit(image.fit).inverse().bounds(box) for image, box in zip(images, boxes, strict=True)]

    return find


def near_windows(
    find: FindObjects, images: Sequence[FittedImage], held: Sequence[FloatArray | None] | None = None
) -> list[Window]:
    """The window of a near look at each picture; ``held`` (M, 2) each: points of it that must stay."""
    windows = []
    for image, box, points in zip(images, find(images), held or [None] * len(images), strict=True):
        windows.append(near_window(box, image.fit.window, None if points is None else points + 0.5))
    return windows


def show_near(
    find: FindObjects,
    images: Sequence[FittedImage],
    held: Sequence[FloatArray | None] | None = None,
    *,
    max_pixels: int = MAX_PIXELS,
) -> list[FittedImage]:
    """Pictures, read again near their objects, without saliency; ``held`` (M, 2) each: points of them that must stay.

    A picture whose near window is all of it is not read again.
    """
    shown = []
    for image, window in zip(images, near_windows(find, images, held), strict=True):
        if window == image.fit.window:
            shown.append(image)
            continue
        shown.append(read_and_fit(Path(image.source), image.fit.size, window, max_pixels=max_pixels, margin=0.0))
    return shown
