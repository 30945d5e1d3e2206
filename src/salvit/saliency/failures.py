"""Spoils saliency maps on purpose, to see what a detector does when its prior fails (the paper's failure figure).

Each function takes a map (H, W) in [0, 1] and gives one of the same shape and range.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from salvit.saliency.provider import Map

FailureKind = Literal["threshold", "reversed", "emptied", "shifted"]
THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SHIFTS = (0.1, 0.2, 0.3, 0.4, 0.5)


def threshold_map(saliency: Map, threshold: float) -> Map:
    """1 where the map is at least the threshold, else 0: at 0 all is foreground, above the map's maximum nothing is."""
    if not 0.0 <= threshold <= 1.0:
        raise ValueError(f"threshold must be 0 to 1, got {threshold}")
    return (saliency >= threshold).astype(np.float32)


def reverse_map(saliency: Map) -> Map:
    """Foreground becomes background: 1 − s."""
    return np.asarray(1.0 - saliency, dtype=np.float32)


def empty_map(saliency: Map) -> Map:
    """The object was not found at all: zeros."""
    return np.zeros_like(saliency, dtype=np.float32)


def shift_map(saliency: Map, shift_xy: tuple[float, float]) -> Map:
    """The object was found elsewhere: moved right and down by these shares of the sides; what comes in is 0."""
    height, width = saliency.shape
    dx, dy = round(shift_xy[0] * width), round(shift_xy[1] * height)
    moved = np.zeros_like(saliency, dtype=np.float32)
    if abs(dx) >= width or abs(dy) >= height:
        return moved
    moved[max(0, dy) : height + min(0, dy), max(0, dx) : width + min(0, dx)] = saliency[
        max(0, -dy) : height - max(0, dy), max(0, -dx) : width - max(0, dx)
    ]
    return moved


def spoil_map(saliency: Map, kind: FailureKind, strength: float) -> Map:
    """One failure by name. ``strength`` is the threshold, or the shift along both sides; the others do not use it."""
    match kind:
        case "threshold":
            return threshold_map(saliency, strength)
        case "reversed":
            return reverse_map(saliency)
        case "emptied":
            return empty_map(saliency)
        case "shifted":
            return shift_map(saliency, (strength, strength))
    raise ValueError(f"unknown failure {kind!r}; known: threshold, reversed, emptied, shifted")


def failure_sweep() -> Iterator[tuple[FailureKind, float]]:
    """Every kind and strength of the failure figure, in its order."""
    for threshold in THRESHOLDS:
        yield "threshold", threshold
    yield "reversed", 0.0
    yield "emptied", 0.0
    for shift in SHIFTS:
        yield "shifted", shift
