"""A third cheap teacher: how unlike the four borders of the picture a pixel's colour is.

The backgroundness cue of Zhang et al. (Minimum Barrier Salient Object Detection at 80 FPS, ICCV 2015), with a mild
centre prior. It errs in other places than ``rbd`` (it knows no regions) and than ``spectral_residual`` (it knows no
edges), which is what makes it a useful teacher beside them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter
from skimage.color import rgb2lab

from salvit.saliency.provider import Map, Picture, check_picture, resize_map, shrink_picture, stretch

Array = npt.NDArray[np.float64]


class BoundaryContrast:
    """A teacher of ``learned``; not offered by name."""

    name = "boundary_contrast"

    def __init__(self, longest: int = 160) -> None:
        self.longest = longest

    @property
    def settings(self) -> str:
        """Working size."""
        return f"longest={self.longest}"

    def __call__(self, picture: Picture, source: Path | None = None) -> Map:
        """The map of one picture."""
        small = shrink_picture(check_picture(picture), self.longest)
        smooth = gaussian_filter(rgb2lab(small), (1.5, 1.5, 0))
        contrast = border_contrast(smooth) * centre_prior(small.shape[:2])
        return resize_map(stretch(contrast), picture.shape[:2])


def border_contrast(lab: Array) -> Array:
    """Mahalanobis distance of each colour to the borders: Σ over the four of u_k − max_k u_k, (H, W, 3) -> (H, W).

    ``u_k`` is the distance to the mean colour of border k in units of that border's spread, divided by its greatest
    value. The most distant border is left out: the object may touch it.
    """
    height, width = lab.shape[:2]
    depth_y, depth_x = max(1, height // 10), max(1, width // 10)
    borders = [lab[:depth_y], lab[-depth_y:], lab[:, :depth_x], lab[:, -depth_x:]]
    distances = np.stack([_unlikeness(lab, border.reshape(-1, 3)) for border in borders])  # (4, H, W)
    return np.asarray(distances.sum(0) - distances.max(0))


def _unlikeness(lab: Array, border: Array) -> Array:
    mean = border.mean(0)
    # 4 Lab units of spread are assumed everywhere, so that a flat border does not make all else infinitely far.
    covariance = (border - mean).T @ (border - mean) / len(border) + 16.0 * np.eye(3)
    away = lab - mean
    distance = np.sqrt(np.maximum(((away @ np.linalg.inv(covariance)) * away).sum(-1), 0.0))
    return np.asarray(distance / max(float(distance.max()), 1e-9))


def centre_prior(hw: tuple[int, int]) -> Array:
    """A Gaussian hill on the middle of the picture; the spread is 0.4 of each side. (H, W)."""
    rows = (np.arange(hw[0]) + 0.5) / hw[0] - 0.5
    columns = (np.arange(hw[1]) + 0.5) / hw[1] - 0.5
    return np.asarray(np.exp(-(rows[:, None] ** 2 + columns[None] ** 2) / (2 * 0.4**2)))
