"""Corrections: what the marked pictures themselves say of the weights that their marks made (ours, not the paper's).

The dynamic head makes the weights of a keypoint from its prototype alone. Searched with them, a marked picture shows
what else they answer to, and there the true place is known: so they are moved until the mark is likelier, and held back
by a ridge. The problem is convex, and two of Newton's steps solve it. ``head.correction`` is the ridge.

Letters: K examples · N keypoints · m channels of the map · R raw channels · S² cells of a scale of side S · C = Σ S².
Symbols: w weights of the logits · Δ their correction · f what the map has in a cell · p probability of a cell · f* what
it has in the cell of the mark · λ ridge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from salvit.model.answers import Asked
from salvit.model.dynamic import DynamicDescriptor, UnreadScale
from salvit.model.locator import grid_target
from salvit.model.prototypes import example_shares

CORRECTIONS = "salvit.corrections"
"""What a pack calls them."""
STEPS = 2
"""Of Newton; more change nothing on dev (docs/development.md)."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of K pictures, where a network's weights are."""

    points_input: Tensor
    """(K, N, 2)."""
    vectors: Tensor
    """(K, N, D) representations Φ."""
    mask: Tensor
    """(K, N)."""
    input_size: int


def learn_corrections(descriptor: DynamicDescriptor, looked: Tensor, marks: Marks, ridge: float) -> Tensor:
    """The correction of each keypoint and scale times the examples that it is from, and their number.

    So those of several packs add up. Filters do not count here.
    Shapes: looked (K, C + 2, m + R) -> (1, N, scales, m + 1).
    """
    shares, shots = example_shares(marks.mask), marks.mask.sum(0).to(looked)  # (K, N), (N,)
    scales, _ = descriptor.search(looked, descriptor.weights(marks.vectors, shares))
    columns = []
    for scale, size in zip(scales, descriptor.sizes, strict=True):
        assert isinstance(scale, UnreadScale)
        cells, _ = grid_target(marks.points_input, marks.input_size, size)  # (K, N)
        columns.append(correct(scale.seen, scale.logits, cells, shares, ridge))
    corrected = torch.stack(columns, dim=1) * shots[:, None, None]  # (N, scales, m)
    counts = shots[:, None, None].expand(-1, len(columns), 1)
    return torch.cat([corrected, counts], dim=-1)[None]


def correct(seen: Tensor, logits: Tensor, cells: Tensor, shares: Tensor, ridge: float) -> Tensor:
    """The weights' correction for one scale.

        Δ = argmin Σ_k share_k (−log p_k(mark)) + λ/2 ‖Δ‖²,   p_k = softmax(logits_k + f_k Δ)
        Newton: Δ ← Δ − (Σ share (E_p f fᵀ − E_p f E_p fᵀ) + λ I)⁻¹ (Σ share (E_p f − f*) + λ Δ)

    Shapes: seen (K, S², m), logits (K, N, S²), cells (K, N) of the marks, shares (K, N) -> (N, m).
    """
    channels = seen.shape[-1]
    marked = seen.gather(1, cells[..., None].expand(-1, -1, channels))  # (K, N, m)
    correction = seen.new_zeros(logits.shape[1], channels)
    eye = torch.eye(channels, dtype=seen.dtype)
    for _ in range(STEPS):
        chances = (logits + (seen @ correction.T).transpose(1, 2)).softmax(-1)  # (K, N, S²)
        means = chances @ seen  # (K, N, m)
        slope = (shares[..., None] * (means - marked)).sum(0) + ridge * correction
        bend = sum(
            (share[:, None, None] * chance[:, :, None] * cell).transpose(1, 2) @ cell - share[:, None, None] * outer
            for share, chance, cell, outer in zip(
                shares, chances, seen, means[..., :, None] * means[..., None, :], strict=True
            )
        )
        # On the CPU: not every device can solve, and a pack is learnt once.
        step = torch.linalg.solve((bend + ridge * eye.to(seen)).cpu(), slope[..., None].cpu())[..., 0]
        correction = correction - step.to(seen)
    return correction


def corrected(asked: Asked, corrections: Tensor) -> Asked:
    """What is asked for, the mean correction added to the logits' weights: corrections (1, N, scales, m + 1)."""
    assert asked.weights is not None
    reads = asked.weights.reads.clone()  # (1, N, scales, 3 + 2V, m)
    reads[..., 0, :] += corrections[..., :-1] / corrections[..., -1:].clamp_min(1)
    return replace(asked, weights=replace(asked.weights, reads=reads))
