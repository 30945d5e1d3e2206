"""How large a model is, part by part, beside what the paper states, and why the two differ."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from salvit.model.build import build_model, count_parameters
from salvit.model.settings import ABLATIONS, PRESETS, HeadWidth, ModelSettings, ablation, preset, with_width

PAPER_MILLIONS = {
    "salvit-resnet50": {"backbone": 23.0, "total": 56.9},
    "salvit-dino-s16": {"backbone": 21.0, "total": 50.9},
}
"""What the paper states: parameters of SalViT (default) and SalViT (DINO), Table 2 and Sec. 4.1."""
PROTONET_MILLIONS = 19.0
"""ProtoNet in the same table: the trunk of ResNet-50 with two blocks of layer 4, alone."""

_WHY = {
    "salvit-resnet50": "The paper does not state all widths. With 512 channels in the saliency embedding, d_e = 512, "
    "d_vit = 384, a feed-forward ratio of 2 and 1×1 → 256 → 256 → 1024 in the descriptor net the total fits 56.9 M to "
    "0.1 %; other choices fit as well (d_e = 256, d_vit = 768).",
    "salvit-dino-s16": "The same widths on DINO give 2.0 M more than the paper's 50.9 M. Eleven of the twelve blocks "
    "would give 51.1 M; all twelve run here, because the paper counts 21 M for the backbone, which is all of them.",
    "salvit-dinov2": "Not a model of the paper. The first 10 of 12 blocks run: deeper ones match keypoints less well.",
    "salvit-lite0": "Not a model of the paper: EfficientNet-Lite0, whose weights come with pip.",
    "salvit-joined": "Not a model of the paper: the tokens of EfficientNet-Lite0 and DINOv2 ViT-S/14 on one grid.",
}
_NARROW = (
    "Narrow, for training on a CPU: the paper's saliency embedding is four times as wide, its head two to three times."
)


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model in figures."""

    name: str
    settings: ModelSettings
    parameters: dict[str, int]
    """By part; ``total`` is the last."""
    trained: int
    """How many of them training changes."""
    paper: dict[str, float]
    """Millions that the paper states, by part."""
    notes: tuple[str, ...]
    """Why the two differ."""


def describe_model(name: str, width: HeadWidth = "paper") -> ModelDescription:
    """Describe a preset or a row of the ablation table; nothing is loaded, and no weight is made."""
    if name in PRESETS:
        settings, paper = preset(name, width), PAPER_MILLIONS.get(name, {})
        notes: tuple[str, ...] = (_WHY[name],)
    elif name in ABLATIONS:
        settings, paper = ablation(name), {}
        notes = ("A row of the paper's ablation table.",)
        settings = with_width(settings, width)
    else:
        raise ValueError(
            f"unknown model {name!r}; known: {', '.join(PRESETS)}; of the ablation table: {', '.join(ABLATIONS)}"
        )
    with torch.device("meta"):
        model = build_model(settings, None)
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    if width == "narrow":
        notes, paper = (*notes, _NARROW), {}
    return ModelDescription(name, settings, count_parameters(model), trained, paper, notes)


def protonet_trunk_parameters() -> int:
    """Parameters of ResNet-50 with two blocks of layer 4: all that ProtoNet has."""
    settings = preset("salvit-resnet50")
    cut = replace(settings, backbone=replace(settings.backbone, layer4_blocks=2))
    with torch.device("meta"):
        return count_parameters(build_model(cut, None))["backbone"]
