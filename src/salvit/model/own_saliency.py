"""Saliency from a model's own pass through its backbone, at the size of its input.

Letters: B images · H, W cells · S side of the input.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from salvit.backbones import Tokens
from salvit.geometry import MEAN_COLOUR
from salvit.saliency.attentiveness import attentiveness_map
from salvit.saliency.learned import CELL, saliency_of_pass


def learned_saliency(tokens: Tokens, images: Tensor) -> Tensor:
    """The map of the provider ``learned`` from a pass of Lite0, at the input size: (B, S, S).

    Choice: bilinear. Padding does not count: a cell is padding where its middle pixel has exactly the padding's colour.
    """
    return _raised(saliency_of_pass(tokens, _is_inside(images, CELL)), images)


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
