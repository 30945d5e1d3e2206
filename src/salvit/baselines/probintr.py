"""``probintr``: descriptors that say how far they can be trusted (Novotny et al. 2018), learnt on labels and on warps.

Trained jointly, as the paper does: labelled query keypoints give the usual loss, and a warped copy of a support
picture, in which every cell's place is known, gives the matching loss.

Letters: Q query images · N keypoints · D channels of features · H, W cells · S side of the input. Symbol: ω confidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.backbones import Backbone
from salvit.baselines.distinctiveness import DistinctEncoder, split_distinctiveness
from salvit.baselines.method import Method, scale_of_map
from salvit.geometry import grid_to_input, input_to_grid
from salvit.model.answers import EpisodeOutput
from salvit.model.encoder import EncoderInput
from salvit.model.locator import ScaleOutput
from salvit.model.losses import masked_mean
from salvit.model.settings import ModelSettings

SHARPNESS = 10.0
"""What cosines are multiplied by at first; learnt."""
MATCHING_WEIGHT = 0.5
"""Of the matching loss. Choice: as much as the labelled loss has."""
LARGEST_TURN, LARGEST_SCALE = math.radians(30), 1.25
"""Limits of a warp. Choice."""


@dataclass(frozen=True, slots=True)
class MatchedEpisode(EpisodeOutput):
    """With the self-supervised part."""

    matching: Tensor | None
    """(): the matching loss; None outside of training."""


class ProbIntr(Method):
    """The score of a cell is its cosine with the prototype, times the confidence of both."""

    def __init__(self, settings: ModelSettings, backbone: Backbone) -> None:
        super().__init__(settings, backbone, DistinctEncoder(settings, backbone))
        self.sharpness = nn.Parameter(torch.tensor(SHARPNESS))

    def compare(self, prototypes: Tensor, features: Tensor, wanted: Tensor | None = None) -> tuple[ScaleOutput, ...]:
        """Scores are what :func:`introspective_scores` says."""
        return scale_of_map(introspective_scores(prototypes, features, self.sharpness), wanted)

    def forward(
        self,
        support: EncoderInput,
        points_input: Tensor,
        mask: Tensor,
        query: EncoderInput,
        wanted: Tensor | None = None,
    ) -> MatchedEpisode:
        """One episode; in training also the first support against a warped copy of itself."""
        output = super().forward(support, points_input, mask, query, wanted)
        matching = None
        if self.training and support.images is not None:
            seed = int(points_input.abs().sum().item() * 64) % 2**31  # so that a resumed run draws the same warps
            matching = self._match_warped(support, draw_warp(seed))
        return MatchedEpisode(output.scales, output.exponents, output.query_features, matching)

    def own_losses(self, output: EpisodeOutput, points_input: Tensor, valid: Tensor) -> dict[str, Tensor]:
        """The matching loss."""
        assert isinstance(output, MatchedEpisode)
        return {} if output.matching is None else {"matching": MATCHING_WEIGHT * output.matching}

    def _match_warped(self, batch: EncoderInput, warp: Tensor) -> Tensor:
        """−log p(v | u) over the cells u of the first picture whose place v in its warped copy is inside."""
        assert batch.images is not None
        saliency = None if batch.saliency is None else warp_pictures(batch.saliency[:1, None], warp)[:, 0]
        plain = EncoderInput(batch.raw[:1], batch.images[:1], None if batch.saliency is None else batch.saliency[:1])
        seen = self.encoder(plain).features
        warped = self.encoder(self.prepare(warp_pictures(batch.images[:1], warp), saliency)).features
        scores = introspective_scores(seen[0].flatten(1).T, warped, self.sharpness)[0].flatten(1)  # (H·W, H·W)
        cells, inside = warped_cells(warp, self.encoder.grid_hw[0], self.input_size)
        losses = F.cross_entropy(scores, cells.to(scores.device), reduction="none")
        return masked_mean(losses, inside.to(scores.device))


def introspective_scores(prototypes: Tensor, features: Tensor, sharpness: Tensor) -> Tensor:
    """γ ω_n ω(p) cos(c_n, F(p)): an unsure descriptor spreads its probability over the picture.

    Shapes: prototypes with ω (N, D + 1), features with ω (Q, D + 1, H, W), γ () -> (Q, N, H, W).
    """
    (kept, marked), (cells, seen) = split_distinctiveness(prototypes), split_distinctiveness(features)
    cosines = torch.einsum("nd,qdhw->qnhw", F.normalize(kept, dim=1), F.normalize(cells, dim=1))
    scores: Tensor = sharpness * marked[:, None, None] * seen[:, None] * cosines
    return scores


def draw_warp(seed: int) -> Tensor:
    """A turn, a scale and perhaps a flip about the middle, that take a place to where it came from: (2, 2)."""
    turn, scale, flip = torch.rand(3, generator=torch.Generator().manual_seed(seed)).tolist()
    angle, size = LARGEST_TURN * (2 * turn - 1), LARGEST_SCALE ** (2 * scale - 1)
    rotation = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    warp: Tensor = size * rotation @ torch.diag(torch.tensor([-1.0 if flip < 0.5 else 1.0, 1.0]))
    return warp


def warp_pictures(pictures: Tensor, warp: Tensor) -> Tensor:
    """Pictures (B, C, S, S) whose place x, from the middle, shows what was at ``warp`` x; black from outside."""
    theta = torch.cat([warp, torch.zeros(2, 1)], dim=1).to(pictures).expand(len(pictures), 2, 3)
    grid = F.affine_grid(theta, list(pictures.shape), align_corners=False)
    return F.grid_sample(pictures, grid, align_corners=False)


def warped_cells(warp: Tensor, side: int, input_size: int) -> tuple[Tensor, Tensor]:
    """Where the middle of each cell goes: the cell's number (H·W,) there and whether it is inside (H·W,)."""
    steps = torch.arange(side, dtype=torch.float32)
    y, x = torch.meshgrid(steps, steps, indexing="ij")
    stride, middle = input_size / side, (input_size - 1) / 2
    from_middle = grid_to_input(torch.stack([x, y], dim=-1).flatten(0, 1), stride) - middle
    cells = input_to_grid(from_middle @ torch.linalg.inv(warp).T + middle, stride).round()
    inside = ((cells >= 0) & (cells < side)).all(-1)
    kept = cells.clamp(0, side - 1).long()
    return kept[:, 1] * side + kept[:, 0], inside
