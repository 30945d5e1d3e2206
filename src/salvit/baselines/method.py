"""What the compared methods share: SalViT's backbone, pooling, prototypes and verbs, without its transformer.

A method says how prototypes are looked for in query features (:meth:`Method.compare`), and nothing else. Most give one
score for each cell of the feature map; :func:`scale_of_map` says that in the words of the localisation net, so that
losses, decoding and evaluation are SalViT's own.

Letters: Q query images · N keypoints · P wanted pairs of them · D channels of features · H, W cells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.backbones import Backbone
from salvit.baselines.match import covariance_of_map, peak_of_map
from salvit.model.answers import Asked, EpisodeOutput
from salvit.model.detector import SalViT
from salvit.model.encoder import Encoder, EncoderInput, EncoderOutput
from salvit.model.locator import Located, ScaleOutput
from salvit.model.saliency_mask import downscale
from salvit.model.settings import ModelSettings


class PlainEncoder(Encoder):
    """The raw tokens alone, brought to ``encoder.feature_channels``, and multiplied by saliency where that is wanted.

    Choice: on a frozen backbone this linear layer is all that adapts the features; on ResNet-50 layer 4 is trained, and
    the paper's methods have none.
    """

    def __init__(self, settings: ModelSettings, backbone: Backbone) -> None:
        side = settings.input_size // backbone.stride
        plain = replace(settings.encoder, join="raw")
        super().__init__(
            backbone.channels, (side, side), backbone.stride, plain, settings.attention, settings.morphology
        )
        self.uses_saliency = settings.reweight

    def forward(self, batch: EncoderInput) -> EncoderOutput:
        """Raw tokens to features F, or M↓ ⊙ F."""
        output = super().forward(batch)
        if not self.uses_saliency or batch.saliency is None:
            return output
        return EncoderOutput(output.features * downscale(batch.saliency, self.grid_hw)[:, None])


class Method(SalViT, ABC):
    """A compared method; a subclass makes its parts after ``super().__init__`` and overrides :meth:`compare`.

    None has a presence logit, which is ours: the score stands for presence.
    """

    def __init__(self, settings: ModelSettings, backbone: Backbone, encoder: PlainEncoder | None = None) -> None:
        nothing: Any = nn.Identity()
        settings = replace(settings, head=replace(settings.head, presence=False))
        super().__init__(settings, backbone, encoder or PlainEncoder(settings, backbone), nothing, nothing)
        self.name = f"{settings.method}:{backbone.name}"

    @abstractmethod
    def compare(self, prototypes: Tensor, features: Tensor, wanted: Tensor | None = None) -> tuple[ScaleOutput, ...]:
        """Prototypes c (N, D), features (Q, D, H, W) -> scales for (Q, N), or for (1, P) of ``wanted`` (Q, N)."""

    def search(self, asked: Asked, features: Tensor, looked: Tensor | None = None) -> tuple[ScaleOutput, ...]:
        """What :meth:`compare` says for the mean of the examples."""
        return self.compare(asked.prototypes, features)

    def find(self, asked: Asked, features: Tensor, looked: Tensor | None = None) -> Located:
        """What :meth:`search` says, decoded, and calibrated where the method was."""
        return self.conclude(self.search(asked, features), shots=asked.shots)

    def answer(
        self, asked: Asked, features: Tensor, wanted: Tensor | None, marked: tuple[Tensor, Tensor, Tensor]
    ) -> EpisodeOutput:
        """What :meth:`compare` says of the queries."""
        return EpisodeOutput(self.compare(asked.prototypes, features, wanted), None, features)


def check_head(settings: ModelSettings) -> None:
    """Refuse the dynamic head, whose localisation net has no weights: a method that adapts or extends it has no use."""
    if settings.head.kind == "dynamic":
        raise ValueError(
            f"{settings.method} needs a localisation net with weights, and head.kind = 'dynamic' (width = 'swift') has "
            "none: use width = 'light', or head.kind 'spatial' or 'flat'"
        )


def scale_of_map(scores: Tensor, wanted: Tensor | None = None) -> tuple[ScaleOutput]:
    """A score for each cell as the only scale of a localisation net.

    Choice: offsets are the top of a parabola through neighbouring scores, and the covariance is the second moment of
    the softmax, both as ``match`` has them; neither gets a gradient.
    Shapes: scores (Q, N, H, W) -> for (Q, N), or for (1, P) with ``wanted`` (Q, N).
    """
    if wanted is not None:
        scores = scores[wanted][None]
    fixed = scores.detach()
    probability = fixed.flatten(2).softmax(-1).view_as(fixed)
    spread = 4 * covariance_of_map(probability, peak_of_map(fixed))  # an offset of 1 is half a cell
    root = torch.linalg.cholesky(torch.linalg.inv(spread)) * 2**0.5  # Q̃ Q̃ᵀ / 2 = Ω
    latents = root[:, :, None].expand(-1, -1, fixed.shape[-2] * fixed.shape[-1], -1, -1)
    return (ScaleOutput(scores.flatten(2), _parabola_tops(fixed), latents),)


def _parabola_tops(maps: Tensor) -> Tensor:
    """Offset in [−1, 1] of the parabola's top at every cell, 0 at the border: (Q, N, H, W) -> (Q, N, H·W, 2)."""
    offsets = []
    for dim in (3, 2):  # x, then y
        before, after = maps.roll(1, dim), maps.roll(-1, dim)
        bend = (before - 2 * maps + after).clamp(max=-1e-12)
        inner = ((before - after) / bend).clamp(-1, 1).narrow(dim, 1, maps.shape[dim] - 2)
        offsets.append(F.pad(inner, (1, 1) if dim == 3 else (0, 0, 1, 1)))
    return torch.stack(offsets, dim=-1).flatten(2, 3)
