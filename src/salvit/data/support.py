"""The pictures that a user marked, as every file format gives them (:mod:`salvit.formats` has a reader for each).

Paths in a support file are relative to it. A keypoint that cannot be used (NaN, outside its picture) counts as not
marked and is reported; a picture that cannot be read is left out and reported; the rest of the file goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from salvit.geometry import Window, is_inside
from salvit.types import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class MarkedImage:
    """One object that a user marked in one picture."""

    path: Path
    names: tuple[str, ...]
    points: FloatArray
    """(N, 2) in image pixels."""
    marked: BoolArray
    """(N,)."""
    box: Window | None = None
    image_hw: tuple[int, int] | None = None
    """Height and width of the picture, where the file states them."""
    scores: FloatArray | None = None
    """(N,) in [0, 1] where a detector marked it, None where a person did."""


@dataclass(frozen=True, slots=True)
class Support:
    """The marked pictures of a support file; a picture with several marked objects is there once for each."""

    images: tuple[MarkedImage, ...]
    skeleton: tuple[tuple[str, str], ...] = ()
    problems: list[str] = field(default_factory=list)
    """What was left out, and why: one sentence each."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Left/right pairs of names, where the file states them."""

    @property
    def names(self) -> tuple[str, ...]:
        """All keypoint names, each once, in the order in which they come."""
        return tuple(dict.fromkeys(name for image in self.images for name in image.names))


def read_support(path: Path | str) -> Support:
    """Read a support file of any format; at least one keypoint must be usable."""
    from salvit.formats import read  # the readers need the types above

    support = read(path)
    if not any(image.marked.any() for image in support.images):
        why = f" ({'; '.join(support.problems[:3])})" if support.problems else ""
        raise ValueError(f"{path}: no keypoint is marked in any picture{why}; mark at least one")
    return support


def drop_outside(image: MarkedImage, image_hw: tuple[int, int]) -> tuple[MarkedImage, list[str]]:
    """Take marks that lie outside the picture for not marked, and say which."""
    where = f"the picture of {image_hw[1]}×{image_hw[0]} pixels"
    return _keep_inside(image, is_inside(image.points, image_hw), where)


def drop_outside_crop(image: MarkedImage, window: Window) -> tuple[MarkedImage, list[str]]:
    """Take marks that lie outside the part of the picture that is cut out for not marked, and say which."""
    x1, y1, x2, y2 = window
    low, high = np.array([x1, y1]) - 0.5, np.array([x2, y2]) - 0.5  # a window counts from pixels' edges
    inside = np.asarray(((image.points >= low) & (image.points <= high)).all(-1))
    where = f"its object's box with the margin ({x1:g}, {y1:g} to {x2:g}, {y2:g})"
    return _keep_inside(image, inside, where)


def _keep_inside(image: MarkedImage, inside: BoolArray, where: str) -> tuple[MarkedImage, list[str]]:
    outside = image.marked & ~inside
    problems = [
        f"{image.path.name}: {image.names[n]} at ({image.points[n, 0]:g}, {image.points[n, 1]:g}) lies outside "
        f"{where}; taken as not marked"
        for n in np.flatnonzero(outside)
    ]
    return replace(image, marked=image.marked & ~outside), problems
