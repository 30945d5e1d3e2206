"""Saliency from a model's own pass through its backbone, at the size of its input.

Letters: B images · C channels · H, W cells · S side of the input.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.backbones import Tokens
from salvit.geometry import MEAN_COLOUR
from salvit.model.encoder import EncoderInput
from salvit.model.saliency_mask import downscale
from salvit.saliency.attentiveness import attentiveness_map
from salvit.saliency.learned import CELL, UPSCALE, saliency_of_pass


def learned_saliency(tokens: Tokens, images: Tensor) -> Tensor:
    """The map of the provider ``learned`` from a pass of Lite0, at the input size: (B, S, S).

    Choice: bilinear. Padding does not count: a cell is padding where its middle pixel has exactly the padding's colour.
    """
    return _raised(saliency_of_pass(tokens, _is_inside(images, CELL)), images)


class TaughtPrior(nn.Module):
    """Raw tokens of a trained backbone to the map that its provider would give, taught beside the model (ours).

    A provider that reads the tokens of the published weights cannot read those of trained ones; without this a second
    pass of the published backbone would be needed for each picture. It learns the map as the model gets it, spread and
    blurred, and does not change the tokens that it reads.
    """

    def __init__(self, channels: int, width: int = 64) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.tokens, self.context = nn.Conv2d(channels, width, 1), nn.Conv2d(channels, width, 1)
        self.mix = nn.Conv2d(width, width, 3, padding=1)
        self.out = nn.Conv2d(width, UPSCALE**2, 3, padding=1)

    def forward(self, raw: Tensor, images: Tensor) -> Tensor:
        """Tokens (B, C, H, W) and their images (B, 3, S, S) to saliency (B, S, S); padding has none."""
        low = self._logits(raw).sigmoid()  # (B, 4H, 4W)
        return _raised(low * _is_inside(images, images.shape[-1] // low.shape[-1]), images)

    def loss(self, raw: Tensor, saliency: Tensor) -> Tensor:
        """Cross entropy with the provider's map: tokens (B, C, H, W), saliency (B, S, S) in [0, 1]."""
        logits = self._logits(raw.detach())
        return F.binary_cross_entropy_with_logits(logits, downscale(saliency, (logits.shape[1], logits.shape[2])))

    def _logits(self, raw: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, 4H, 4W)."""
        normed = self.norm(raw)
        mixed = F.relu(self.tokens(normed) + self.context(normed.mean((2, 3), keepdim=True)))
        return F.pixel_shuffle(self.out(mixed + F.relu(self.mix(mixed))), UPSCALE).squeeze(1)


def with_own_saliency(prior: TaughtPrior | None, batch: EncoderInput) -> EncoderInput:
    """The batch with the map that a model makes itself, as its users get it; as it is where it makes none."""
    if prior is None or batch.images is None:
        return batch
    return replace(batch, saliency=prior(batch.raw, batch.images))


def _raised(low: Tensor, images: Tensor) -> Tensor:
    """Maps of cells (B, H, W) at the size of the images: (B, S, S)."""
    raised: Tensor = F.interpolate(low[:, None], size=images.shape[-2:], mode="bilinear", align_corners=False)[:, 0]
    return raised


def _is_inside(images: Tensor, stride: int) -> Tensor:
    """Where the middle pixel of a cell has not exactly the padding's colour: (B, 3, S, S) -> (B, S/s, S/s) bool."""
    padding = torch.tensor(MEAN_COLOUR, device=images.device).view(1, 3, 1, 1) / 255.0
    middles = images[:, :, stride // 2 :: stride, stride // 2 :: stride]  # (B, 3, H, W)
    inside: Tensor = ((middles - padding).abs() > 1e-4).any(1)
    return inside


def attentive_saliency(tokens: Tokens, images: Tensor, stride: int) -> Tensor:
    """Class-token attention as saliency (the provider ``attentiveness``), at the input size: (B, S, S).

    Choice: bilinear. Padding does not count: a cell is padding where its middle pixel has exactly the padding's colour.
    """
    inside = _is_inside(images, stride)  # (B, H, W)
    low = attentiveness_map(tokens, inside) * inside
    return _raised(low, images)
