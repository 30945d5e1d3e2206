"""A place that most of the map gathers round, where the winning cell stands alone (ours, not the paper's).

A point counts as found when it is near enough, so the best guess is not the likeliest cell but the place near which
most of the probability lies. How near is near depends on the object's size, which the maps of all keypoints tell.

Letters: Q query images · N keypoints · s side of the fused map's lattice. Symbols: P fused probabilities · w width of
the window · l0 side of the input.
"""

from __future__ import annotations

import torch
from torch import Tensor

from salvit.model.certainty import lattice_line, map_moments, object_extent
from salvit.model.locator import Located, ScaleOutput, fused_logits, read_at

WINDOW = 0.3
"""w over the object's extent; as the next, chosen on dev (docs/development.md)."""
NARROWED = 0.7
"""The window of the last steps over w."""
STEPS = 3
"""Of the mean shift."""
LEAST = 1e-12
"""Smaller factors count nothing: products of them are too small for a float's usual form, and slow."""


def decode_gathered(
    scales: tuple[ScaleOutput, ...], input_size: int, known: Tensor | None = None, fused: Tensor | None = None
) -> Located:
    """As :func:`~salvit.model.locator.decode_agreed`, at the place that most of the map gathers round.

        P ∝ Π_S P^(S) ^ (1 / N_S),   place = argmax (P ∗ Gauss_w),   w = 0.3 · extent of the object

    then, as a mean shift, the point is a few times the mean of P under a narrower window about it. Score and
    covariance are what the scales say at the place. Choice: w is at least one cell of the lattice.
    Shapes: logits (Q, N, S²) each, known (N,): keypoints that tell the object's extent, None: all, fused
    (Q, N, s, s), where :func:`fused_logits` was asked before -> points (Q, N, 2).
    """
    total = fused_logits(scales) if fused is None else fused
    side = total.shape[-1]
    probability = _counted((total.flatten(-2) / len(scales)).softmax(-1)).view_as(total)
    width = _window(probability, input_size, known)
    places = _gather(probability, width, input_size).flatten(-2).argmax(-1)  # (Q, N)
    line = lattice_line(side, input_size, probability)
    points = torch.stack([line[places % side], line[places // side]], dim=-1)
    for _ in range(STEPS):
        points = _mean_near(probability, points, NARROWED * width, line)
    found = read_at(scales, places, side, input_size)
    return Located(points, found.scores, found.covariances)


def _window(probability: Tensor, input_size: int, known: Tensor | None) -> Tensor:
    """The window of each picture, at least one cell: (Q, N, s, s) -> (Q,)."""
    middle = probability.new_full((*probability.shape[:2], 2), (input_size - 1) / 2)
    means, moments = map_moments(probability, middle, input_size)
    return (WINDOW * object_extent(means, moments, middle, known)).clamp_min(input_size / probability.shape[-1])


def _gather(probability: Tensor, width: Tensor, input_size: int) -> Tensor:
    """P ∗ Gauss_w on the lattice: (Q, N, s, s), (Q,) -> (Q, N, s, s)."""
    line = lattice_line(probability.shape[-1], input_size, probability)
    kernel = _gauss(line[:, None] - line, width[:, None, None])  # (Q, s, s), symmetric
    for _ in range(2):  # along rows, then, turned over, along columns: one product for all keypoints of a picture
        probability = (probability.flatten(1, 2) @ kernel).view_as(probability).transpose(-2, -1)
    return probability


def _mean_near(probability: Tensor, points: Tensor, width: Tensor, line: Tensor) -> Tensor:
    """Mean of P under a Gaussian window about each point: (Q, N, s, s), (Q, N, 2), (Q,), (s,) -> (Q, N, 2)."""
    across, down = (_gauss(line - points[..., axis, None], width[:, None, None]) for axis in (0, 1))  # (Q, N, s)
    columns = (down[..., :, None] * probability).sum(-2) * across
    rows = (probability * across[..., None, :]).sum(-1) * down
    return torch.stack([(columns @ line) / columns.sum(-1), (rows @ line) / rows.sum(-1)], dim=-1)


def _gauss(distance: Tensor, width: Tensor) -> Tensor:
    return _counted(torch.exp(-distance.square() / (2 * width.square())))


def _counted(factors: Tensor) -> Tensor:
    """Factors that count, others 0."""
    return factors.where(factors > LEAST, 0.0)
