"""From marked points to one vector for each keypoint (paper Sec. 3.3, inductive inference).

Letters: K shots · N keypoints · D channels · H, W cells. Symbols: Φ representation of a marked keypoint · c prototype ·
ξ width of the Gaussian.
"""

from __future__ import annotations

import torch
from torch import Tensor

from salvit.geometry import input_to_grid

DROPPED = 4.6052
"""Cells whose exponent is above this (weight under 0.01) do not count."""
REFERENCE_SIZE = 384
"""The input side that ξ is stated for."""
SMALLEST_SIGMA = 14 / 32
"""ξ in cells is never below this, the authors' own ratio: so every point of the image has a cell near enough."""


def pooling_sigma(sigma: float, input_size: int, stride: int) -> float:
    """ξ in cells of the grid. Choice: 14 px of a 384 px input, scaled with the input."""
    return max(sigma * input_size / REFERENCE_SIZE / stride, SMALLEST_SIGMA)


def gaussian_weights(points_grid: Tensor, grid_hw: tuple[int, int], sigma: float) -> Tensor:
    """Weight of each cell for a point: exp(−‖p − x‖² / 2ξ²), weights under 0.01 dropped, then made to sum to 1.

    Choice: the sum to 1 and the cut are the authors' code; unlike there, points keep their fractions.
    Symbols: x is ``points_grid``, ξ is ``sigma``, both in cells. Shapes: (..., 2) -> (..., H, W); all 0 far outside.
    """
    cells_y = torch.arange(grid_hw[0], dtype=points_grid.dtype, device=points_grid.device)
    cells_x = torch.arange(grid_hw[1], dtype=points_grid.dtype, device=points_grid.device)
    across = (cells_x - points_grid[..., 0:1]).square()  # (..., W)
    down = (cells_y - points_grid[..., 1:2]).square()  # (..., H)
    exponent = (down[..., :, None] + across[..., None, :]) / (2 * sigma**2)  # (..., H, W)
    weights = torch.where(exponent <= DROPPED, torch.exp(-exponent), torch.zeros_like(exponent))
    return weights / weights.sum((-2, -1), keepdim=True).clamp_min(1e-9)


def gaussian_pooling(features: Tensor, points_input: Tensor, stride: int, sigma: float) -> Tensor:
    """Representation of each marked keypoint: Φ_kn = Σ_p w(p) 𝓔(I_k)(p) (paper Sec. 3.3).

    Shapes: features (K, D, H, W), points_input (K, N, 2) in input pixels, ``sigma`` in cells -> (K, N, D).
    """
    points_grid = input_to_grid(points_input, stride)
    weights = gaussian_weights(points_grid, (features.shape[-2], features.shape[-1]), sigma)  # (K, N, H, W)
    return weights.flatten(2) @ features.flatten(2).transpose(1, 2)


def prototypes(vectors: Tensor, mask: Tensor) -> Tensor:
    """Mean over the shots that have the keypoint: c_n = Σ_k mask_kn Φ_kn / Σ_k mask_kn (paper Sec. 3.3).

    A keypoint that no shot has gets the zero vector; it is absent, and never scored.
    Shapes: vectors (K, N, D), mask (K, N) bool -> (N, D).
    """
    kept = torch.where(mask[..., None], vectors, torch.zeros_like(vectors))
    return kept.sum(0) / mask.sum(0).clamp_min(1)[:, None].to(vectors.dtype)


def example_shares(mask: Tensor) -> Tensor:
    """What each shot counts in a mean over those that have the keypoint: mask (K, N) bool -> (K, N), float."""
    return mask.float() / mask.sum(0).clamp_min(1)


def leave_one_out(vectors: Tensor, mask: Tensor) -> Tensor:
    """For each shot the :func:`prototypes` of all others (ours).

    Shapes: vectors (K, N, D), mask (K, N) bool -> (K, N, D); zero where no other shot has the keypoint.
    """
    kept = torch.where(mask[..., None], vectors, torch.zeros_like(vectors))
    others = mask.sum(0) - mask.long()  # (K, N) shots beside this one
    return (kept.sum(0) - kept) / others.clamp_min(1)[..., None].to(vectors.dtype)
