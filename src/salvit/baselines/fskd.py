"""``fskd``: few-shot keypoint detection with uncertainty (Lu and Koniusz, CVPR 2022), SalViT's predecessor.

A grid locator with covariance on the same scales, precision weighted by semantic distinctiveness, and in training a
covariance of three keypoints together. Its auxiliary keypoints are the recipe's: ``train.auxiliary`` = ``random``
(FSKD-R) or ``default`` (FSKD-D).

Letters: Q query images · N keypoints · P wanted pairs of them · T triplets · D channels of features · L channels of a
descriptor · H, W cells · S cells of a side. Symbols: ω distinctiveness · Ω precision · Q̃ its latent factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.backbones import Backbone
from salvit.baselines.distinctiveness import DistinctEncoder, split_distinctiveness
from salvit.baselines.method import Method, check_head
from salvit.model.answers import Asked, EpisodeOutput
from salvit.model.locator import Locator, ScaleOutput, at_cell, grid_target
from salvit.model.losses import masked_mean
from salvit.model.modulation import modulate
from salvit.model.settings import HeadSettings, ModelSettings
from salvit.model.spatial import SpatialDescriptor, SpatialLocator

JOINT_WEIGHT = 0.5
"""Of the loss of triplets."""
LEAST_PRECISION = 1e-3
"""Added to the diagonal of a joint Ω, so that it always has an inverse."""


@dataclass(frozen=True, slots=True)
class DescribedEpisode(EpisodeOutput):
    """What the loss of triplets needs as well."""

    descriptors: Tensor
    """(Q, N, L), or (1, P, L) of wanted pairs; of maps their mean."""
    query_of: Tensor
    """(P,) the query that each wanted pair belongs to."""


class StridedDescriptor(nn.Module):
    """Modulate, then 3×3 convolutions of stride 2 until the map is small, flattened.

    Choice: twice ``head.channels`` between the layers and ``head.descriptor_channels`` after the last (512 and 1024 at
    the paper's width).
    """

    def __init__(self, channels_in: int, side: int, head: HeadSettings) -> None:
        super().__init__()
        steps = 0
        while side > head.descriptor_side or steps == 0:
            steps, side = steps + 1, (side + 1) // 2
        widths = [channels_in] + [2 * head.channels] * (steps - 1) + [head.descriptor_channels]
        self.layers = nn.ModuleList(
            nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1) for before, after in pairwise(widths)
        )
        self.channels = head.descriptor_channels * side**2

    def forward(self, features: Tensor, prototypes: Tensor, wanted: Tensor | None = None) -> Tensor:
        """Features (Q, D, H, W) and prototypes (N, D) to descriptors (Q, N, L), or (1, P, L) of wanted pairs."""
        if wanted is None:
            hidden, shape = modulate(features, prototypes).flatten(0, 1), (len(features), len(prototypes))
        else:
            query, keypoint = wanted.nonzero().T
            hidden, shape = features[query] * prototypes[keypoint, :, None, None], (1, len(query))
        for layer in self.layers:
            hidden = F.relu(layer(hidden))
        return hidden.reshape(*shape, -1)


class FSKD(Method):
    """Modulate, describe, locate on three grids.

    Offsets pass a tanh, as in SalViT's locator, which this is. Choice: with ``head.kind = "spatial"`` the maps are
    described and located as SalViT's are then, so that at a small budget two methods are compared and not two heads.
    """

    def __init__(self, settings: ModelSettings, backbone: Backbone) -> None:
        check_head(settings)
        super().__init__(settings, backbone, DistinctEncoder(settings, backbone))
        head, channels, grid_hw = self.settings.head, self.encoder.channels - 1, self.encoder.grid_hw
        if head.kind == "spatial":
            self.descriptor = SpatialDescriptor(channels, grid_hw, head.channels)
            self.locator = SpatialLocator(head.channels, head.scales, head.latent)
        else:
            strided: Any = StridedDescriptor(channels, grid_hw[0], head)
            self.descriptor, self.locator = strided, Locator(strided.channels, head.scales, head.latent)
            self._widest = channels
        self.triplets = nn.Linear(3 * self.descriptor.channels, len(head.scales) * 6 * 3 * head.latent)

    def compare(self, prototypes: Tensor, features: Tensor, wanted: Tensor | None = None) -> tuple[ScaleOutput, ...]:
        """The branches of every scale."""
        return self._locate(self._describe(prototypes, features, wanted), prototypes, features, wanted)

    def answer(
        self, asked: Asked, features: Tensor, wanted: Tensor | None, marked: tuple[Tensor, Tensor, Tensor]
    ) -> DescribedEpisode:
        """What :meth:`compare` says of the queries, and the descriptors, for the loss of triplets."""
        descriptors = self._describe(asked.prototypes, features, wanted)
        scales = self._locate(descriptors, asked.prototypes, features, wanted)
        query_of = torch.zeros(0) if wanted is None else wanted.nonzero()[:, 0]
        vectors = descriptors if descriptors.ndim == 3 else descriptors.mean((-2, -1))
        return DescribedEpisode(scales, None, features, vectors, query_of)

    def own_losses(self, output: EpisodeOutput, points_input: Tensor, valid: Tensor) -> dict[str, Tensor]:
        """The loss of triplets. Choice: keypoints that follow each other in the list of one query are a triplet."""
        assert isinstance(output, DescribedEpisode)
        number = torch.arange(max(0, len(output.query_of) - 2), device=valid.device)
        triplets = number[:, None] + torch.arange(3, device=valid.device)  # (T, 3)
        triplets = triplets[output.query_of[triplets[:, 0]] == output.query_of[triplets[:, 2]]]
        counts = valid[0][triplets].all(1)  # (T,)
        latents = self.triplets(output.descriptors[0][triplets].flatten(1))  # (T, scales · 6 · 3V)
        losses = []
        for scale, latent in zip(output.scales, latents.chunk(len(output.scales), dim=1), strict=True):
            cells, targets = grid_target(points_input, self.input_size, scale.size)
            errors = (at_cell(scale.offsets, cells) - targets)[0][triplets].flatten(1)  # (T, 6)
            losses.append(joint_loss(errors, latent.unflatten(1, (6, -1)), counts))
        return {"joint": JOINT_WEIGHT * torch.stack(losses).mean()}

    def _describe(self, prototypes: Tensor, features: Tensor, wanted: Tensor | None) -> Tensor:
        """What the descriptor net gives, which does not look at ω."""
        described: Tensor = self.descriptor(features[:, :-1], prototypes[:, :-1], wanted)
        return described

    def _locate(
        self, descriptors: Tensor, prototypes: Tensor, features: Tensor, wanted: Tensor | None
    ) -> tuple[ScaleOutput, ...]:
        """Branches of every scale, the latent covariance weighted by ω."""
        marked, seen = split_distinctiveness(prototypes)[1], split_distinctiveness(features)[1]  # (N,), (Q, H, W)
        return weight_by_distinctiveness(self.locator(descriptors), marked, seen, wanted)


def weight_by_distinctiveness(
    scales: Sequence[ScaleOutput], marked: Tensor, seen: Tensor, wanted: Tensor | None = None
) -> tuple[ScaleOutput, ...]:
    """Ω ← ω_n ω(p) Ω: errors at what is hard to tell from the rest cost less, and its ellipses are larger (FSKD).

    Choice: of every keypoint (the authors' released run does it for auxiliary ones alone); ω(p) of a grid's cell is
    interpolated bilinearly. Shapes: ω_n (N,), ω(p) (Q, H, W), ``wanted`` (Q, N).
    """
    weighted = []
    for scale in scales:
        cells = F.interpolate(seen[:, None], size=(scale.size,) * 2, mode="bilinear", align_corners=False).flatten(1)
        weights = marked[:, None] * cells[:, None]  # (Q, N, S²)
        weights = weights if wanted is None else weights[wanted][None]
        weighted.append(replace(scale, latents=scale.latents * weights.sqrt()[..., None, None]))
    return tuple(weighted)


def joint_loss(errors: Tensor, latents: Tensor, counts: Tensor) -> Tensor:
    """½ E[eᵀ Ω e − log det Ω] with Ω = Q̃ Q̃ᵀ / columns + ε I of three keypoints' offsets (FSKD); ε LEAST_PRECISION.

    Shapes: errors e (T, 6), latents Q̃ (T, 6, 3V), counts (T,) bool -> ().
    """
    omega = latents @ latents.transpose(1, 2) / latents.shape[-1] + LEAST_PRECISION * torch.eye(6).to(latents)
    distance = torch.einsum("ti,tij,tj->t", errors, omega, errors)
    return masked_mean((distance - torch.linalg.slogdet(omega)[1]) / 2, counts)
