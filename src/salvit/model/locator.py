"""Multi-scale localisation net 𝓖: descriptor to place and uncertainty (paper Sec. 3.3).

Letters: Q query images · N keypoints · L channels of a descriptor · S cells of a side · V = d_v. Symbols: P grid
probabilities · g grid cell · o offset in [−1, 1] · Q̃ latent covariance (2 × d_v) · Ω precision · Σ covariance · l0 side
of the input. Cells are numbered row by row: g = g_y · S + g_x.

The paper's x = l0/S · (g + ½ + ½ o) counts from the image's edge; pixel centres here are integers, so ½ is taken off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.geometry import grid_to_input, input_to_grid

INVERSE_EPSILON = 1e-12
"""Added to det Ω before the inverse."""


@dataclass(frozen=True, slots=True)
class ScaleOutput:
    """What one scale says of every cell."""

    logits: Tensor
    """(Q, N, S²)."""
    offsets: Tensor
    """(Q, N, S², 2) in [−1, 1], x then y; (Q, N, 1, 2) where it was read at the true cell alone, as in training."""
    latents: Tensor
    """(Q, N, S², 2, V), or (Q, N, 1, 2, V) as above."""

    @property
    def size(self) -> int:
        """S, cells of a side."""
        return math.isqrt(self.logits.shape[-1])

    @property
    def probabilities(self) -> Tensor:
        """P = softmax over all cells: (Q, N, S²)."""
        return self.logits.softmax(-1)

    def at(self, cells: Tensor) -> tuple[Tensor, Tensor]:
        """Offsets (Q, N, 2) and latents (Q, N, 2, V) at one cell of each keypoint (Q, N)."""
        return at_cell(self.offsets, cells), at_cell(self.latents, cells)


@dataclass(frozen=True, slots=True)
class Located:
    """Places of N keypoints in Q images, in the input frame."""

    points_input: Tensor
    """(Q, N, 2)."""
    scores: Tensor
    """(Q, N) mean over scales of the winning cell's probability."""
    covariances: Tensor
    """(Q, N, 2, 2) in square input pixels."""
    presence: Tensor | None = None
    """(Q, N) probability that the keypoint is there to be seen, where the model has such a branch."""


class Locator(nn.Module):
    """One linear layer a scale, whose output splits into grid classifier 𝓖_c, offset 𝓖_o and covariance 𝓖_v branches.

    Choice: three linear branches on one descriptor are one linear layer; offsets pass a tanh, as in the later code.
    """

    def __init__(self, channels: int, scales: tuple[int, ...], latent: int) -> None:
        super().__init__()
        self.latent = latent
        self.scales = nn.ModuleList(nn.Linear(channels, size * size * (3 + 2 * latent)) for size in scales)
        for layer in self.scales:
            assert isinstance(layer, nn.Linear)
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, descriptors: Tensor) -> tuple[ScaleOutput, ...]:
        """Descriptors Ψ (Q, N, L) to the branches of every scale."""
        outputs = []
        for layer in self.scales:
            joint = layer(descriptors)  # (Q, N, S² · (1 + 2 + 2V))
            cells = joint.shape[-1] // (3 + 2 * self.latent)
            logits, offsets, latents = joint.split([cells, 2 * cells, 2 * self.latent * cells], dim=-1)
            outputs.append(
                ScaleOutput(
                    logits,
                    torch.tanh(offsets).unflatten(-1, (-1, 2)),
                    latents.unflatten(-1, (-1, 2, self.latent)),
                )
            )
        return tuple(outputs)

    def locate(self, descriptors: Tensor, input_size: int) -> Located:
        """:func:`decode` of :meth:`forward`, but offset and covariance are computed for the winning cells alone.

        Shapes: descriptors Ψ (Q, N, L).
        """
        found = []
        for layer in self.scales:
            assert isinstance(layer, nn.Linear)
            cells = layer.out_features // (3 + 2 * self.latent)
            logits = F.linear(descriptors, layer.weight[:cells], layer.bias[:cells])
            best, winners = logits.softmax(-1).max(-1)  # (Q, N)
            offsets = self._at_winners(layer, descriptors, winners, cells, cells, 2)
            latents = self._at_winners(layer, descriptors, winners, 3 * cells, cells, 2 * self.latent)
            size = math.isqrt(cells)
            points = decode_scale(winners, torch.tanh(offsets), input_size, size)
            spread = covariance(latents.unflatten(-1, (2, self.latent))) * (input_size / size) ** 2 / 4
            found.append((points, best, spread))
        points, scores, covariances = (torch.stack(parts).mean(0) for parts in zip(*found, strict=True))
        return Located(points, scores, covariances)

    @staticmethod
    def _at_winners(
        layer: nn.Linear, descriptors: Tensor, winners: Tensor, start: int, cells: int, width: int
    ) -> Tensor:
        """What a branch (rows from ``start`` on, ``width`` for each cell) gives at one cell: (Q, N, width)."""
        rows = slice(start, start + cells * width)
        weight = layer.weight[rows].unflatten(0, (cells, width))[winners]  # (Q, N, width, L)
        bias = layer.bias[rows].unflatten(0, (cells, width))[winners]
        values: Tensor = (weight @ descriptors[..., None])[..., 0] + bias
        return values


def grid_target(points_input: Tensor, input_size: int, size: int) -> tuple[Tensor, Tensor]:
    """The true cell ĝ and offset x̂ of a point (paper Eq. 9).

        ĝ = floor(x · S / l0), kept inside the grid;  x̂ = 2 (x · S / l0 − (ĝ + ½))   with x from the image's edge

    Shapes: points_input (..., 2) in pixels -> cell numbers (...) and offsets (..., 2), in [−1, 1) for points inside.
    """
    cells = input_to_grid(points_input, input_size / size)  # fractional, a cell's centre is its index
    nearest = torch.floor(cells + 0.5).clamp(0, size - 1)
    return (nearest[..., 1] * size + nearest[..., 0]).long(), 2 * (cells - nearest)


def precision(latents: Tensor) -> Tensor:
    """Ω = Q̃ Q̃ᵀ / d_v (paper Sec. 3.3). Shapes: (..., 2, V) -> (..., 2, 2)."""
    return latents @ latents.transpose(-1, -2) / latents.shape[-1]


def precision_determinant(latents: Tensor) -> Tensor:
    """Determinant of Ω by its minors, which rounding cannot make negative: Σ_{a<b} (Q̃_1a Q̃_2b − Q̃_1b Q̃_2a)² / d_v².

    Shapes: (..., 2, V) -> (...).
    """
    first, second = latents[..., 0, :], latents[..., 1, :]
    pairs = torch.tensor(list(combinations(range(latents.shape[-1]), 2)), device=latents.device)  # (V(V−1)/2, 2)
    a, b = pairs[:, 0], pairs[:, 1]
    minors = first[..., a] * second[..., b] - first[..., b] * second[..., a]
    return minors.square().sum(-1) / latents.shape[-1] ** 2


def covariance(latents: Tensor) -> Tensor:
    """Σ = Ω⁻¹ in closed form (paper Sec. 3.3), in offset units. Shapes: (..., 2, V) -> (..., 2, 2)."""
    omega, determinant = precision(latents), precision_determinant(latents) + INVERSE_EPSILON
    xx, xy, yy = omega[..., 0, 0], omega[..., 0, 1], omega[..., 1, 1]
    adjugate = torch.stack([torch.stack([yy, -xy], -1), torch.stack([-xy, xx], -1)], -2)
    return adjugate / determinant[..., None, None]


def decode_scale(cells: Tensor, offsets: Tensor, input_size: int, size: int) -> Tensor:
    """Place of a cell and its offset: x = l0/S · (g + ½ + ½ o) − ½ (paper Eq. 10, one scale).

    Shapes: cells (...) int, offsets (..., 2) -> (..., 2) in input pixels.
    """
    grid = torch.stack([cells % size, cells // size], dim=-1).to(offsets.dtype)
    return grid_to_input(grid + offsets / 2, input_size / size)


def at_cell(field: Tensor, cells: Tensor) -> Tensor:
    """The field's value at one cell of each keypoint: (Q, N, S², ...), (Q, N) -> (Q, N, ...).

    A field of one cell (Q, N, 1, ...) was read there already.
    """
    if field.shape[2] == 1:
        return field.squeeze(2)
    index = cells.reshape(*cells.shape, *([1] * (field.ndim - 2))).expand(*cells.shape, 1, *field.shape[3:])
    return field.gather(2, index).squeeze(2)


def decode(scales: tuple[ScaleOutput, ...], input_size: int) -> Located:
    """Multi-scale point and covariance (paper Eq. 10).

        x = 1/N_S Σ l0/S (g + ½ + ½ o),   Σ = 1/(4 N_S) Σ (l0/S)² Σ^(S)

    with the winning cell g of each scale. Choice: the score is the mean over scales of that cell's probability.
    """
    points, scores, covariances = [], [], []
    for scale in scales:
        best, cells = scale.probabilities.max(-1)  # (Q, N)
        offsets, latents = scale.at(cells)
        points.append(decode_scale(cells, offsets, input_size, scale.size))
        scores.append(best)
        covariances.append(covariance(latents) * (input_size / scale.size) ** 2 / 4)
    return Located(torch.stack(points).mean(0), torch.stack(scores).mean(0), torch.stack(covariances).mean(0))


def decode_agreed(scales: tuple[ScaleOutput, ...], input_size: int, fused: Tensor | None = None) -> Located:
    """As :func:`decode`, but the scales first agree on a place (ours, not the paper's).

        place = argmax of the fused map (:func:`fused_logits`)

    and every scale reads its cell g, offset and covariance there. Where the scales' own winners lie apart, the paper's
    mean of them is a point that no scale meant.
    """
    total = fused_logits(scales) if fused is None else fused
    return read_at(scales, total.flatten(-2).argmax(-1), total.shape[-1], input_size)


def fused_logits(scales: tuple[ScaleOutput, ...]) -> Tensor:
    """The one map that all scales give together, as logits (ours).

        Σ_S log P^(S), on the finest lattice that all grids divide

    Its softmax is the product of the scales' probabilities, normalised: a place is likely where every scale allows it.
    Where the scales agree on a place, in inference, in transduction and in the moments of
    :mod:`salvit.model.certainty`, this is the map that is meant; the paper fuses no maps, only their winners.
    Shapes: (Q, N, S²) each -> (Q, N, s, s) with s = lcm of the S.
    """
    side = math.lcm(*(scale.size for scale in scales))
    total, *others = (_on_lattice(scale.logits.log_softmax(-1), scale.size, side) for scale in scales)
    for other in others:
        total = total + other
    return total


def read_at(scales: tuple[ScaleOutput, ...], places: Tensor, side: int, input_size: int) -> Located:
    """What the scales say, in the mean, at one place of a lattice of ``side`` for each keypoint (Q, N)."""
    points, scores, covariances = [], [], []
    for scale in scales:
        step = side // scale.size
        cells = (places // side // step) * scale.size + places % side // step  # (Q, N)
        offsets, latents = scale.at(cells)
        points.append(decode_scale(cells, offsets, input_size, scale.size))
        scores.append(at_cell(scale.probabilities, cells))
        covariances.append(covariance(latents) * (input_size / scale.size) ** 2 / 4)
    return Located(torch.stack(points).mean(0), torch.stack(scores).mean(0), torch.stack(covariances).mean(0))


def _on_lattice(values: Tensor, size: int, side: int) -> Tensor:
    """Each cell's value at every place of a finer lattice inside it: (..., S²) -> (..., side, side)."""
    grid = values.unflatten(-1, (size, size))
    finer: Tensor = grid.repeat_interleave(side // size, dim=-1).repeat_interleave(side // size, dim=-2)
    return finer


def join_located(parts: Sequence[Located]) -> Located:
    """Places of several groups of queries, one after the other."""
    presence = [part.presence for part in parts if part.presence is not None]
    return Located(
        torch.cat([part.points_input for part in parts]),
        torch.cat([part.scores for part in parts]),
        torch.cat([part.covariances for part in parts]),
        torch.cat(presence) if presence else None,
    )
