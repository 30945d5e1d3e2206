"""The compared methods in figures: what each is, and its parameters on ResNet-50 beside the paper's."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace

import torch

from salvit.baselines.build import METHODS, build_method, class_of
from salvit.model.settings import preset
from salvit.tables.paper import COST

PAPER_NAMES = {
    "protonet": "ProtoNet",
    "relationnet": "RelationNet",
    "weight_generator": "WG",
    "weight_generator_without_attention": "WG without attention",
    "probintr": "ProbIntr",
    "fskd": "FSKD-D",
    "salvit": "SalViT (default)",
}
"""Method → its row in the paper's main table; MAML and TFA have none there."""


@dataclass(frozen=True, slots=True)
class MethodDescription:
    """A method in figures."""

    name: str
    what: str
    """A sentence."""
    parameters: int
    """At the paper's width on ResNet-50 with two blocks of layer 4; detectors of base keypoints do not count."""
    paper: float | None
    """Millions that the paper states."""


def describe_methods() -> tuple[MethodDescription, ...]:
    """All compared methods that are trained; nothing is loaded, and no weight is made."""
    return tuple(describe_method(name) for name in METHODS)


def describe_method(name: str) -> MethodDescription:
    """One compared method; an unknown name is an error that lists the known ones."""
    settings = preset("salvit-resnet50")
    settings = replace(settings, method=name, backbone=replace(settings.backbone, layer4_blocks=2))
    with torch.device("meta"):
        model = build_method(settings, None)
    counted = sum(weight.numel() for part, weight in model.named_parameters() if not part.startswith("base_"))
    stated = COST[PAPER_NAMES[name]][0] if name in PAPER_NAMES else None
    return MethodDescription(name, _sentence(name), counted, stated)


def _sentence(name: str) -> str:
    """The first line of the method's file, without its name."""
    first = (inspect.getdoc(inspect.getmodule(class_of(name))) or "").partition("\n")[0]
    return first.partition("``: ")[2] or first
