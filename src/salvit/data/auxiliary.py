"""Auxiliary keypoints: points on the straight lines between keypoints, which training detects besides the real ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from salvit.geometry import is_inside
from salvit.types import BoolArray, FloatArray

NODES = (0.25, 0.5, 0.75)
"""Where on a path, from its first to its second end."""
NUM_RANDOM_PATHS = 6
LEAST_SALIENCY = 31
"""Of 255: an auxiliary point of less saliency lies beside the object and is dropped."""
Path = tuple[int, int]
"""Indices of the two ends among an episode's keypoints."""


def default_paths(names: tuple[str, ...], paths: tuple[tuple[str, str], ...]) -> tuple[Path, ...]:
    """The shipped paths whose two ends are among an episode's keypoints."""
    place = {name: index for index, name in enumerate(names)}
    return tuple((place[first], place[last]) for first, last in paths if first in place and last in place)


def random_paths(known: BoolArray, rng: np.random.Generator) -> tuple[Path, ...]:
    """Six different pairs (or all, if there are fewer) among the keypoints that some support has.

    Args:
        known: (N,).
        rng: Draws.
    """
    ends = np.flatnonzero(known)
    first, last = np.triu_indices(len(ends), 1)
    chosen = rng.permutation(len(first))[:NUM_RANDOM_PATHS]
    return tuple((int(ends[first[index]]), int(ends[last[index]])) for index in chosen)


def interpolate(
    points: FloatArray,
    visible: BoolArray,
    paths: tuple[Path, ...],
    size: int,
    saliency: npt.NDArray[np.uint8] | None = None,
) -> tuple[FloatArray, BoolArray]:
    """Points at t = 0.25, 0.5 and 0.75 of each path (paper Sec. 3, after FSKD).

        u(t) = (1 − t) u₁ + t u₂

    Symbols: u₁, u₂ are the ends of a path, t runs over :data:`NODES`.
    Shapes: points (..., N, 2), visible (..., N), saliency (..., S, S) → (..., 3P, 2) and (..., 3P) for P paths.
    A point is visible if both ends are, it lies in the image, and its saliency (of 255) is at least 31, where a map is
    given.
    """
    first, last = np.array(paths, dtype=int).reshape(-1, 2).T
    nodes = np.array(NODES)[:, None]
    start, end = points[..., first, None, :], points[..., last, None, :]
    between = ((1 - nodes) * start + nodes * end).reshape(*points.shape[:-2], -1, 2)  # (..., 3P, 2)
    is_there = np.repeat(visible[..., first] & visible[..., last], len(NODES), -1)
    is_there &= is_inside(between, (size, size))
    if saliency is not None:
        is_there &= _saliency_at(saliency, between) >= LEAST_SALIENCY
    return between, is_there


def auxiliary_names(names: tuple[str, ...], paths: tuple[Path, ...]) -> tuple[str, ...]:
    """Names as ``nose~left_ear@0.25``, in the order of :func:`interpolate`."""
    return tuple(f"{names[first]}~{names[last]}@{node:g}" for first, last in paths for node in NODES)


def _saliency_at(saliency: npt.NDArray[np.uint8], points: FloatArray) -> npt.NDArray[np.uint8]:
    """Saliency (..., M) of the pixels nearest to points (..., M, 2)."""
    limit = np.array([saliency.shape[-1], saliency.shape[-2]]) - 1
    x, y = np.moveaxis(np.rint(points).clip(0, limit).astype(int), -1, 0)
    if saliency.ndim == 2:
        return np.asarray(saliency[y, x])
    return np.asarray(saliency[np.arange(len(saliency))[:, None], y, x])
