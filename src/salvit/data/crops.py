"""Which part of an image a detector is shown."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from salvit.geometry import Window, clip_window, grow_window, whole_window
from salvit.types import FloatArray, Record

Crop = Literal["gt-random", "gt-tight", "saliency", "none", "gt-or-none", "gt-mixed", "gt-near"]
CROPS: tuple[str, ...] = get_args(Crop)
MAX_EXTENSION = 0.8
"""A random crop goes at most this share of the way from the box to the image's edge, on each side."""
NEAR_EXTENSION = 0.25
"""A near crop goes at most this share of the box's longer side beyond the box, on each side."""
FOUND_EXTENSION = 0.4
"""The same of a crop that stands for a near look, whose box was found and not given: twice its margin at the most."""
NEAR_SHARE = 0.8
"""So many of the crops that stand for near looks are near; the others are ``gt-random``, as a finder may be wrong."""
SALIENT = 0.5
"""A pixel of at least this saliency belongs to the object's window."""
SALIENT_MARGIN = 0.1
"""The window of the salient pixels is widened on each side by this share of its longer side."""
NEAR_MARGIN = 0.2
"""A near look goes beyond the object's box by this share of its longer side, on each side."""
ZOOM_MARGIN = 0.25
"""The window goes beyond the hull of the points by this share of its longer side, on each side."""
ZOOM_LEAST = 0.25
"""The nearest look: the window's longer side is at least this share of the first one's."""


def draw_window(inner: Window, outer: Window, crop: Crop, rng: np.random.Generator) -> Window:
    """A window that holds the inner one and lies inside the outer one.

    ``gt-random`` extends each side of the inner window by U(0, 0.8) of the free margin there, as the authors do in
    training and in the test; ``gt-tight`` and ``saliency`` give the inner window, ``none`` the outer one;
    ``gt-or-none`` draws between ``gt-random`` and ``none``, for a model that works with and without a box;
    ``gt-mixed`` between ``gt-random`` and a near crop, which extends each side by U(0, 0.25) of the longer side;
    ``gt-near`` takes four near crops, extended by U(0, 0.4), for one of ``gt-random``: what a model sees that
    looks near what its finder finds.
    """
    if crop in ("gt-mixed", "gt-near"):
        near, extension = (0.5, NEAR_EXTENSION) if crop == "gt-mixed" else (NEAR_SHARE, FOUND_EXTENSION)
        if rng.random() < near:
            return _draw_near(inner, outer, extension, rng)
        crop = "gt-random"
    if crop == "gt-or-none":
        crop = "gt-random" if rng.random() < 0.5 else "none"
    if crop == "none":
        return outer
    if crop in ("gt-tight", "saliency"):
        return inner
    if crop != "gt-random":
        raise ValueError(f"unknown crop {crop!r}; expected one of {', '.join(CROPS)}")
    left, top, right, bottom = MAX_EXTENSION * rng.random(4)
    x1, y1, x2, y2 = inner
    return (
        x1 - left * max(0.0, x1 - outer[0]),
        y1 - top * max(0.0, y1 - outer[1]),
        x2 + right * max(0.0, outer[2] - x2),
        y2 + bottom * max(0.0, outer[3] - y2),
    )


def _draw_near(inner: Window, outer: Window, extension: float, rng: np.random.Generator) -> Window:
    """The inner window and a little more on each side, inside the outer one."""
    x1, y1, x2, y2 = inner
    left, top, right, bottom = extension * max(x2 - x1, y2 - y1) * rng.random(4)
    return (
        min(x1, max(x1 - left, outer[0])),
        min(y1, max(y1 - top, outer[1])),
        max(x2, min(x2 + right, outer[2])),
        max(y2, min(y2 + bottom, outer[3])),
    )


def inner_window(
    record: Record, image_hw: tuple[int, int], crop: Crop, saliency: npt.NDArray[np.float32] | None = None
) -> Window:
    """The window that a crop must keep: the record's box cut to the image, or the salient part, or the whole image."""
    if crop == "saliency":
        if saliency is None:
            raise ValueError("the crop `saliency` needs a saliency map; choose a saliency provider or another crop")
        return saliency_window(saliency, image_hw)
    if record.box is None:
        return whole_window(image_hw)
    return clip_window(record.box, image_hw)


def saliency_window(saliency: npt.NDArray[np.float32], image_hw: tuple[int, int]) -> Window:
    """The window of the salient pixels plus 10 %, in image pixels; the whole image where nothing is salient.

    The map (h, w) may be smaller than the image; it covers all of it.
    """
    rows, columns = np.nonzero((saliency >= SALIENT).any(1))[0], np.nonzero((saliency >= SALIENT).any(0))[0]
    if len(rows) == 0:
        return whole_window(image_hw)
    scale_y, scale_x = image_hw[0] / saliency.shape[0], image_hw[1] / saliency.shape[1]
    window = (columns[0] * scale_x, rows[0] * scale_y, (columns[-1] + 1) * scale_x, (rows[-1] + 1) * scale_y)
    return clip_window(grow_window(window, SALIENT_MARGIN), image_hw)


def near_window(box: Window, outer: Window, held: FloatArray | None = None, *, margin: float = NEAR_MARGIN) -> Window:
    """The window of a near look: the object's box and a margin, inside the window of the first look.

    It is widened to hold the pixels of ``held`` (M, 2), edge coordinates, where there are any. Where next to nothing of
    it is left, it is the first window itself.
    """
    x1, y1, x2, y2 = grow_window(box, margin)
    if held is not None and len(held):
        (left, top), (right, bottom) = held.min(0) - 0.5, held.max(0) + 0.5
        x1, y1, x2, y2 = min(x1, left), min(y1, top), max(x2, right), max(y2, bottom)
    x1, y1, x2, y2 = max(x1, outer[0]), max(y1, outer[1]), min(x2, outer[2]), min(y2, outer[3])
    return (float(x1), float(y1), float(x2), float(y2)) if min(x2 - x1, y2 - y1) >= 1 else outer


def zoom_window(points: FloatArray, outer: Window) -> Window:
    """The window of a second look: around points (N, 2), inside the window of the first look.

    Points beyond the first window are brought to its edge; without any point it is the first window itself.
    """
    if len(points) == 0:
        return outer
    low, high = np.array(outer[:2]), np.array(outer[2:])
    inside = np.clip(points, low, high)
    near, far = inside.min(0), inside.max(0)
    longer = float((far - near).max())
    least = ZOOM_LEAST * float((high - low).max())
    middle, half = (near + far) / 2, np.maximum((far - near) / 2 + ZOOM_MARGIN * longer, least / 2)
    x1, y1 = np.maximum(middle - half, low)
    x2, y2 = np.minimum(middle + half, high)
    return (float(x1), float(y1), float(x2), float(y2))
