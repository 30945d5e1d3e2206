"""A head whose weights are made from the prototype (ours, not the paper's): the same scales, losses and decoding.

The other heads look at every picture once for every keypoint. Here a picture is looked at once; for each keypoint a
linear layer, whose weights a small network makes from the prototype, reads all scales from it. A pair of picture and
keypoint then costs next to nothing, so a training step can relate every picture of its episode to every other
(``train.all_ways``). ``head.kind = "dynamic"`` chooses it.

Letters: Q query images · N keypoints · S sets of prototypes, s of them for each picture · D channels of features · m
channels of the map · R raw channels that are compared · H, W cells · S² cells of a scale of side S · C = Σ S² cells of
all scales · V = d_v · K examples.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.backbones.linear import linear, multiply_by_onednn
from salvit.model.locator import Located, ScaleOutput, decode, grid_target
from salvit.model.resampling import at_cells, vectors_at_cells


@dataclass(frozen=True, slots=True)
class Weights:
    """What a picture is read with: S sets of them."""

    reads: Tensor
    """(S, N, scales, 3 + 2V, m): the logit's, then those of offset and covariance."""
    presence: Tensor
    """(S, N, 2m)."""
    directions: Tensor
    """(S, N, R) of length 1: what raw tokens are compared with; R = 0 where none are compared."""


@dataclass(frozen=True, slots=True)
class UnreadScale(ScaleOutput):
    """A scale of which only the logits were read: offsets and latents are read where they are asked for.

    They are eight of a cell's nine numbers, and inference looks at them in one cell of each keypoint.
    """

    seen: Tensor
    """(Q, S², m) the picture's map."""
    reads: Tensor
    """(N, 2 + 2V, m)."""
    bias: Tensor
    """(2 + 2V,)."""

    def at(self, cells: Tensor) -> tuple[Tensor, Tensor]:
        """As :meth:`ScaleOutput.at`."""
        there = self.seen.gather(1, cells[..., None].expand(-1, -1, self.seen.shape[-1]))  # (Q, N, m)
        offsets, latents = (torch.einsum("qnm,nbm->qnb", there, self.reads) + self.bias).split_with_sizes(
            [2, len(self.bias) - 2], dim=-1
        )
        return torch.tanh(offsets), latents.unflatten(-1, (2, -1))


class DynamicDescriptor(nn.Module):
    """𝓜 and 𝓓 at once: the picture's map, resampled to each scale, times weights made from the prototype.

    Of the features the last ``compared`` channels are raw tokens (``encoder.keeps_raw``): their cosine similarity to
    the prototype's, times a learnt gain for each scale, is added to the logits. What was learnt on some animals then
    stands beside what needs no learning, and holds where they are unlike.
    """

    def __init__(
        self,
        channels_in: int,
        grid_hw: tuple[int, int],
        channels: int,
        scales: tuple[int, ...],
        latent: int,
        *,
        compared: int = 0,
        raw_gain: float = 1.0,
    ) -> None:
        super().__init__()
        self.sizes, self.outputs, self.compared = scales, 3 + 2 * latent, compared
        channels_in -= compared
        self.position = nn.Parameter(torch.zeros(channels, *grid_hw))
        self.project = nn.Conv2d(channels_in, channels, kernel_size=1)
        self.mix = nn.Conv2d(channels, channels, kernel_size=3, padding=1)
        reads = len(scales) * self.outputs * channels + 2 * channels
        self.generate = nn.Sequential(nn.Linear(channels_in, 2 * channels), nn.ReLU(), nn.Linear(2 * channels, reads))
        self.bias = nn.Parameter(torch.zeros(len(scales), self.outputs))
        self.gain = nn.Parameter(torch.full((len(scales),), raw_gain)) if compared else None
        self.channels = channels
        multiply_by_onednn(self)

    def look(self, features: Tensor) -> Tensor:
        """All that is made of a picture alone: (Q, D, H, W) -> (Q, C + 2, m + R).

        The map at the cells of every scale, and raw tokens there at length 1. In the last two rows is what tells of
        presence: the mean and the greatest value of each channel of the map.
        """
        maps = self._maps(features)
        rows = [torch.cat([vectors_at_cells(maps, size), self._tokens(features, size)], dim=2) for size in self.sizes]
        pooled = _pooled(maps).unflatten(1, (2, -1))  # (Q, 2, m)
        return torch.cat([*rows, F.pad(pooled, (0, self.compared))], dim=1)

    def weights(self, prototypes: Tensor, shares: Tensor | None = None) -> Weights:
        """Prototypes (S, N, D) to as many sets of weights.

        With ``shares`` (K, N) vectors of K examples (K, N, D) to one set: each example makes weights of its own, and a
        picture is read with their mean. As logits are linear in the weights, that is the mean of the logarithms of the
        maps that each example alone would give, at the cost of one map:

            log P = Σ_k share_k log P_k + const

        Choice: raw tokens are compared as they are, so that only the gain is learnt from it.
        """
        own, raw = prototypes.split([prototypes.shape[-1] - self.compared, self.compared], dim=-1)
        made, directions = self.generate(own) / self.channels**0.5, F.normalize(raw.detach(), dim=-1)
        if shares is not None:
            made, directions = ((part * shares[..., None]).sum(0, keepdim=True) for part in (made, directions))
        reads, presence = made.split([made.shape[-1] - 2 * self.channels, 2 * self.channels], dim=-1)
        reads = reads.unflatten(-1, (len(self.sizes), self.outputs, self.channels))
        return Weights(reads, presence, directions)

    def read(self, looked: Tensor, weights: Weights, wanted: Tensor | None = None) -> Tensor:
        """What was seen and one set of weights to cells (Q, N, C + 1, 3 + 2V), or (1, P, …) of wanted pairs.

        The last cell's first number is the logit of presence.
        """
        *rows, pooled = looked.split([*(size * size for size in self.sizes), 2], dim=1)
        cells = []
        for number, seen in enumerate(rows):  # (Q, S², m + R)
            logits = self._logits(seen, weights, number)
            branches = torch.einsum("qcm,nbm->qncb", seen[..., : self.channels], weights.reads[0, :, number, 1:])
            cells.append(torch.cat([logits[..., None], branches], dim=-1) + self.bias[number])
        presence = self._presence(pooled, weights)
        described = torch.cat([*cells, F.pad(presence[..., None, None], (0, self.outputs - 1))], dim=2)
        return described if wanted is None else described[wanted][None]

    def search(
        self, looked: Tensor, weights: Weights, added: tuple[Tensor, ...] = ()
    ) -> tuple[tuple[ScaleOutput, ...], Tensor]:
        """What :meth:`read` and the locator give, offsets and latents unread; and logits of presence (Q, N).

        ``added`` (Q, N, S²) of each scale counts in the logits too.
        """
        *rows, pooled = looked.split([*(size * size for size in self.sizes), 2], dim=1)
        empty, scales = weights.reads.new_empty(0), []
        for number, kept in enumerate(rows):
            seen = kept.to(weights.reads)  # may be kept in half precision
            logits = self._logits(seen, weights, number) + self.bias[number, 0]
            logits = logits + added[number] if added else logits
            branches = weights.reads[0, :, number, 1:]
            scales.append(
                UnreadScale(logits, empty, empty, seen[..., : self.channels], branches, self.bias[number, 1:])
            )
        return tuple(scales), self._presence(pooled.to(weights.reads), weights)

    def _logits(self, seen: Tensor, weights: Weights, number: int) -> Tensor:
        """Logits of one scale, without their bias: (Q, S², m + R) -> (Q, N, S²)."""
        directions = weights.directions[0]
        compares = directions if self.gain is None else self.gain[number] * directions  # (N, R)
        reads = torch.cat([weights.reads[0, :, number, 0], compares], dim=1)
        return linear(seen, reads).transpose(1, 2)

    def _presence(self, pooled: Tensor, weights: Weights) -> Tensor:
        """Logits of presence: (Q, 2, m + R) -> (Q, N)."""
        return pooled[..., : self.channels].flatten(1) @ weights.presence[0].T

    def at_places(
        self,
        features: Tensor,
        prototypes: Tensor,
        picks: Tensor,
        wanted: Tensor,
        points_input: Tensor,
        input_size: int,
    ) -> tuple[tuple[ScaleOutput, ...], Tensor]:
        """What :meth:`read` and the locator give for losses, each set of prototypes as of one example; and presence.

        Offsets and covariances, eight of a cell's nine numbers, are read at the cells of ``points_input`` (P, 2) alone:
        losses look nowhere else. Shapes: features (Q, D, H, W), prototypes (S, N, D), picks (Q, s): which sets a
        picture is asked with, wanted (Q, s, N); logits (1, P, S²), offsets (1, P, 1, 2), latents (1, P, 1, 2, V),
        presence (1, P).
        """
        maps = self._maps(features)
        of_picture, of_set, of_keypoint = wanted.nonzero(as_tuple=True)  # (P,) each, pictures one after the other
        used, of_used = (picks[of_picture, of_set] * prototypes.shape[1] + of_keypoint).unique(return_inverse=True)
        weights = self.weights(prototypes.flatten(0, 1)[None, used])  # of the U prototypes that are asked for at all
        places = _Places.of(of_picture, of_used, len(features))
        outputs = []
        for number, size in enumerate(self.sizes):
            seen = at_cells(maps, size)  # (Q, m, S²)
            logits = places.read(weights.reads[0, :, number, 0], seen) + self.bias[number, 0]  # (P, S²)
            if self.gain is not None:
                tokens = self._tokens(features, size).transpose(1, 2)
                logits = logits + self.gain[number] * places.read(weights.directions[0], tokens)
            cells, _ = grid_target(points_input, input_size, size)  # (P,)
            there = seen.transpose(1, 2).flatten(0, 1).index_select(0, of_picture * size**2 + cells)  # (P, m)
            reads = weights.reads[0, :, number, 1:].index_select(0, of_used)  # (P, 2 + 2V, m)
            branches = (reads @ there[..., None])[..., 0] + self.bias[number, 1:]  # (P, 2 + 2V)
            outputs.append(_scale_output(logits[None], branches[None, :, None]))
        presence = places.read(weights.presence[0], _pooled(maps)[..., None])[..., 0]  # (P,)
        return tuple(outputs), presence[None]

    def _maps(self, features: Tensor) -> Tensor:
        """What is read from: (Q, D, H, W) -> (Q, m, H, W)."""
        maps = F.relu(self.project(features[:, : features.shape[1] - self.compared]) + self.position)
        return maps + F.relu(self.mix(maps))

    def _tokens(self, features: Tensor, size: int) -> Tensor:
        """Raw tokens at the cells of a scale, at length 1: (Q, D, H, W) -> (Q, S², R)."""
        raw = features[:, features.shape[1] - self.compared :].detach()
        return (
            F.normalize(vectors_at_cells(raw, size), dim=-1) if self.compared else raw.new_zeros(len(raw), size**2, 0)
        )


class DynamicLocator(nn.Module):
    """𝓖 on such cells: nothing is left but to take them apart."""

    def __init__(self, scales: tuple[int, ...], latent: int, *, has_presence: bool = False) -> None:
        super().__init__()
        self.sizes, self.latent, self.has_presence = scales, latent, has_presence

    def forward(self, described: Tensor) -> tuple[ScaleOutput, ...]:
        """Cells (Q, N, C + 1, 3 + 2V) to the branches of every scale."""
        parts = described[..., :-1, :].split([size * size for size in self.sizes], dim=-2)
        outputs = []
        for part in parts:
            outputs.append(_scale_output(part[..., 0], part[..., 1:]))
        return tuple(outputs)

    def presence(self, described: Tensor) -> Tensor | None:
        """The logit that the keypoint is there to be seen (Q, N); None: it was not asked for."""
        return described[..., -1, 0] if self.has_presence else None

    def locate(self, described: Tensor, input_size: int) -> Located:
        """:func:`decode` of :meth:`forward`."""
        return decode(self(described), input_size)


@dataclass(frozen=True, slots=True)
class _Places:
    """Pairs of picture and prototype, sorted by picture: a picture's own become rows of one matrix product."""

    of_picture: Tensor
    """(P,)."""
    of_row: Tensor
    """(P,) the place of a pair among those of its picture."""
    picks: Tensor
    """(Q, most) which prototype; the first where a picture has fewer pairs than the most of any."""

    @classmethod
    def of(cls, of_picture: Tensor, of_used: Tensor, pictures: int) -> _Places:
        """Pairs (P,) of Q pictures and U prototypes."""
        counts = of_picture.bincount(minlength=pictures)
        of_row = torch.arange(len(of_picture), device=counts.device) - (counts.cumsum(0) - counts)[of_picture]
        picks = of_used.new_zeros(pictures, int(counts.max()))
        picks[of_picture, of_row] = of_used
        return cls(of_picture, of_row, picks)

    def read(self, weights: Tensor, columns: Tensor) -> Tensor:
        """What each pair's weights read of its picture: (U, c), (Q, c, C) -> (P, C)."""
        return (weights[self.picks] @ columns)[self.of_picture, self.of_row]


def _pooled(maps: Tensor) -> Tensor:
    """The mean and the greatest value of each channel: (Q, m, H, W) -> (Q, 2m)."""
    return torch.cat([maps.mean((-2, -1)), maps.amax((-2, -1))], dim=-1)


def _scale_output(logits: Tensor, others: Tensor) -> ScaleOutput:
    """Logits (Q, N, S²), and offsets and latents in one tensor (Q, N, S², 2 + 2V)."""
    offsets, latents = others.split([2, others.shape[-1] - 2], dim=-1)
    return ScaleOutput(logits, torch.tanh(offsets), latents.unflatten(-1, (2, -1)))
