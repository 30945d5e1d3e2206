"""Backbones: image batch → raw tokens on a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from salvit.backbones.base import Backbone, Tokens

__all__ = ["Backbone", "BackboneName", "Tokens", "build_backbone"]

BackboneName = Literal["lite0", "dinov2-s14", "dino-s16", "resnet50", "joined"]


def build_backbone(
    name: str,
    weights: str | Path | None = "pretrained",
    *,
    attention_block: int | None = None,
    whole: bool = False,
    layer4_blocks: int = 3,
    trained_blocks: int = 0,
) -> Backbone:
    """Build a frozen backbone in eval mode.

    Args:
        name: ``lite0``, ``dinov2-s14``, ``dino-s16``, ``resnet50`` or ``joined`` (the first two side by side).
        weights: ``pretrained`` (must be present: see ``salvit weights``), a file, or None for random ones. A file that
            names a variant of its network makes that one.
        attention_block: For transformers: the block whose class-token attention is given beside the tokens.
        whole: Run every block, not only those that give the best features.
        layer4_blocks: For ``resnet50``: how many blocks of layer 4 run, 2 or 3.
        trained_blocks: For ``lite0``, also in ``joined``: how many of its last blocks may be trained, 0, 5 or 8.
    """
    from salvit.backbones.dino_s16 import DinoS16
    from salvit.backbones.dinov2 import DinoV2
    from salvit.backbones.files import load_weights, read_variant, read_weights
    from salvit.backbones.joined import Joined
    from salvit.backbones.lite0 import Lite0
    from salvit.backbones.resnet50 import DEFAULT_VARIANT, ResNet50
    from salvit.backbones.weights import require_weights

    if name == "joined":
        if weights not in (None, "pretrained"):
            raise ValueError("joined takes the pretrained weights of its two parts (`salvit weights`), not a file")
        lite0 = build_backbone("lite0", weights, trained_blocks=trained_blocks)
        dinov2 = build_backbone("dinov2-s14", weights)
        assert isinstance(lite0, Lite0) and isinstance(dinov2, DinoV2)
        return Joined(lite0, dinov2).requires_grad_(False).eval()
    path = None
    if weights is not None:
        path = require_weights(name) if weights == "pretrained" else Path(weights)
    backbone: Backbone
    match name:
        case "lite0":
            backbone = Lite0(trained_blocks=trained_blocks)
        case "dinov2-s14":
            backbone = DinoV2(num_blocks=12 if whole else 10, attention_block=attention_block)
        case "dino-s16":
            backbone = DinoS16(attention_block=attention_block)
        case "resnet50":
            variant = None if path is None else read_variant(path)
            backbone = ResNet50(layer4_blocks, variant or DEFAULT_VARIANT)
        case _:
            raise ValueError(f"unknown backbone {name!r}; known: lite0, dinov2-s14, dino-s16, resnet50, joined")
    if path is not None:
        load_weights(backbone, read_weights(path), str(path))
    return backbone.requires_grad_(False).eval()
