"""The provider ``attentiveness``: what the class token of a frozen transformer attends to, and its main contrast.

Where that transformer is the backbone, the map comes from the same pass (:func:`attentiveness_map`).

The paper takes "class token attentiveness from frozen layers" and says no more. Choices, made on dev
(docs/saliency.md): the last frozen block (10), the mean over heads, a 3 × 3 mean against single hot patches, and, as a
second half, the first principal component of the patch tokens, whose sign the attention decides.

Letters: B images · D channels · H, W cells · P = H·W patches.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from salvit.backbones import Backbone, Tokens, build_backbone
from salvit.geometry import Fit, fit_square, whole_window
from salvit.saliency.provider import Map, Picture, check_picture, fit_picture, unfit_map

ATTENTION_BLOCK = 10
ATTENTION_UNIT = 3.0
"""Attention of this many times its mean weighs as much as the whole range of the contrast."""


class Attentiveness:
    """The provider ``attentiveness``."""

    name = "attentiveness"

    def __init__(self, backbone: Backbone | None = None) -> None:
        self.backbone = build_backbone("dinov2-s14", attention_block=ATTENTION_BLOCK) if backbone is None else backbone

    @property
    def settings(self) -> str:
        """Backbone, input size and block."""
        return f"{self.backbone.name} size={self.backbone.default_size} block={ATTENTION_BLOCK}"

    @torch.inference_mode()
    def __call__(self, picture: Picture, source: Path | None = None) -> Map:
        """The map of one picture."""
        hw = check_picture(picture).shape[:2]
        fit = fit_square(whole_window(hw), self.backbone.default_size)
        square = torch.from_numpy(fit_picture(picture, fit)).permute(2, 0, 1)[None] / 255.0
        saliency = attentiveness_map(self.backbone(square), cells_inside(fit, self.backbone.stride)[None])[0]
        return unfit_map(saliency.numpy(), fit, hw)


def cells_inside(fit: Fit, stride: int) -> Tensor:
    """Which cells of the token grid lie in the picture, not in its padding, by their centre: (H, W) bool."""
    centres = (torch.arange(fit.size // stride) + 0.5) * stride
    (x, y), (height, width) = fit.pad_xy, fit.inner_hw
    rows = (centres >= y) & (centres < y + height)
    columns = (centres >= x) & (centres < x + width)
    inside = rows[:, None] & columns[None]
    return inside if inside.any() else torch.ones_like(inside)


def attentiveness_map(tokens: Tokens, inside: Tensor | None = None) -> Tensor:
    """Saliency in [0, 1] on the token grid from a pass that the backbone made anyway.

    Args:
        tokens: With ``attentiveness`` (build the backbone with ``attention_block=10``).
        inside: (B, H, W) bool, False in padding; None: all are inside.

    Returns:
        (B, H, W).
    """
    if tokens.attentiveness is None:
        raise ValueError("these tokens carry no class-token attention; build the backbone with attention_block=10")
    attention = tokens.attentiveness
    inside = torch.ones_like(attention, dtype=torch.bool) if inside is None else inside
    hill = attention_hill(attention, inside)
    contrast = stretch_inside(principal_contrast(tokens.levels[0], hill, inside), inside, 0.0)
    return stretch_inside(hill + contrast, inside, 0.02)


def attention_hill(attention: Tensor, inside: Tensor) -> Tensor:
    """Attention, smoothed over 3 × 3 cells, in units of three times its mean: (B, H, W) -> (B, H, W), not bounded."""
    smooth = F.avg_pool2d(F.pad(attention[:, None], (1, 1, 1, 1), mode="replicate"), 3, stride=1)[:, 0]
    weights = inside.to(smooth.dtype)
    mean = (smooth * weights).sum((1, 2)) / weights.sum((1, 2)).clamp_min(1.0)
    return smooth / (ATTENTION_UNIT * mean.clamp_min(1e-12))[:, None, None]


def principal_contrast(tokens: Tensor, guide: Tensor, inside: Tensor, num_steps: int = 16) -> Tensor:
    """Projection of the unit-length tokens on their first principal component, by power iteration.

        v ← Xᵀ X v / ‖Xᵀ X v‖,   result = X v,   X the tokens less their mean

    The first v is Xᵀ g, so that the result's sign follows the guide ``g`` (the attention).
    Shapes: tokens (B, D, H, W), guide and inside (B, H, W) -> (B, H, W).
    """
    weights = inside.flatten(1).to(tokens.dtype)[..., None]  # (B, P, 1)
    rows = F.normalize(tokens.flatten(2).transpose(1, 2), dim=-1)  # (B, P, D)
    rows = rows - (rows * weights).sum(1, keepdim=True) / weights.sum(1, keepdim=True).clamp_min(1.0)
    inner = rows * weights
    component = inner.transpose(1, 2) @ guide.flatten(1)[..., None]  # (B, D, 1)
    for _ in range(num_steps):
        component = F.normalize(inner.transpose(1, 2) @ (inner @ component), dim=1)
    return (rows @ component).view(guide.shape)


def stretch_inside(values: Tensor, inside: Tensor, tail: float) -> Tensor:
    """Scale each map so that the quantiles ``tail`` and 1 − ``tail`` of its inside become 0 and 1.

    Shapes: values and inside (B, H, W) -> (B, H, W), clipped to [0, 1]; a flat map becomes 0.
    """
    stretched = []
    for plain, mask in zip(values, inside, strict=True):
        low, high = torch.quantile(plain[mask], plain.new_tensor([tail, 1.0 - tail]))
        stretched.append(((plain - low) / (high - low).clamp_min(1e-6)).clamp(0.0, 1.0))
    return torch.stack(stretched)
