"""Makes a saliency map smooth for the morphology learner, and brings it to the token grid.

The paper names only "distance transform and Gaussian blur" (a commented passage of Sec. 3.2.1); the recipe is that of
the authors' public code (distance-transform type 5), in own words.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt, gaussian_filter

from salvit.saliency.provider import Map

FOREGROUND = 0.4
BLUR = 5.0


def preprocess_map(saliency: Map, *, foreground: float = FOREGROUND, blur: float = BLUR) -> Map:
    """Distance transform, then blur: (H, W) -> (H, W), both in [0, 1]."""
    return blur_map(spread_by_distance(saliency, foreground), blur)


def spread_by_distance(saliency: Map, foreground: float = FOREGROUND) -> Map:
    """Let saliency fall off with the distance to the border of the object.

        d = ½ + ½ (in / max in − out / max out)         boundary at ½, deep inside 1, far outside 0
        d = (d − min d) / (max d − min d) · (max s − min s) + min s      stretched to the map's own range
        result = ½ d + ½ in / max in

    Symbols: ``s`` is the map, ``in`` the distance of a foreground pixel (s ≥ foreground) to the background, ``out``
    that of a background pixel to the foreground. Shapes: (H, W) -> (H, W), values in [0, 1].
    Choice: where all or nothing is foreground there is no border; the map is then given back as it is.
    """
    is_foreground = saliency >= foreground
    if is_foreground.all() or not is_foreground.any():
        return np.asarray(saliency, dtype=np.float32)
    inside = distance_transform_edt(is_foreground)
    outside = distance_transform_edt(~is_foreground)
    depth = inside / inside.max()
    signed = 0.5 + 0.5 * (depth - outside / outside.max())
    low, high = float(saliency.min()), float(saliency.max())
    ranged = (signed - signed.min()) / (signed.max() - signed.min()) * (high - low) + low
    return np.asarray(np.clip(0.5 * ranged + 0.5 * depth, 0.0, 1.0), dtype=np.float32)


def blur_map(saliency: Map, sigma: float = BLUR) -> Map:
    """Gaussian blur in pixels, kernel radius 3σ; outside the picture saliency is 0. Shapes: (H, W) -> (H, W)."""
    if sigma <= 0:
        return saliency
    blurred = gaussian_filter(saliency, sigma, mode="constant", truncate=3.0)
    return np.asarray(np.clip(blurred, 0.0, 1.0), dtype=np.float32)


def pool_map(saliency: Map, grid_hw: tuple[int, int]) -> Map:
    """Mean saliency of each cell of a grid, M↓: (H, W) -> grid_hw. The sides must be multiples of the grid's."""
    (height, width), (rows, columns) = saliency.shape, grid_hw
    if rows < 1 or columns < 1 or height % rows or width % columns:
        raise ValueError(f"cannot pool a map of {height}×{width} to a grid of {rows}×{columns}; expected whole cells")
    cells: npt.NDArray[np.float32] = saliency.reshape(rows, height // rows, columns, width // columns)
    return np.asarray(cells.mean((1, 3)), dtype=np.float32)
