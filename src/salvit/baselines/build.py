"""A method by name: SalViT, or one that it is compared with, on the same backbone."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from salvit.baselines.method import Method
from salvit.model.build import build_model, build_trunk
from salvit.model.detector import SalViT
from salvit.model.settings import ModelSettings

METHODS = {
    "protonet": "salvit.baselines.protonet.ProtoNet",
    "relationnet": "salvit.baselines.relationnet.RelationNet",
    "weight_generator": "salvit.baselines.weight_generator.WeightGenerator",
    "weight_generator_without_attention": "salvit.baselines.weight_generator.WeightGeneratorWithoutAttention",
    "probintr": "salvit.baselines.probintr.ProbIntr",
    "fskd": "salvit.baselines.fskd.FSKD",
    "maml": "salvit.baselines.maml.MAML",
    "tfa": "salvit.baselines.tfa.TFA",
}
"""Name in a recipe (``model.method``) → class; a new method is a file and a line here."""


def build_method(settings: ModelSettings, backbone_weights: str | Path | None = "pretrained") -> SalViT:
    """Build what ``settings.method`` names, in inference mode and untrained; an unknown name is an error.

    Args:
        settings: What to build. Of ``encoder`` a compared method takes ``feature_channels`` alone.
        backbone_weights: ``pretrained``, a weight file, or None for random ones.
    """
    if settings.method == "salvit":
        return build_model(settings, backbone_weights)
    kind = class_of(settings.method)
    return kind(settings, build_trunk(settings, backbone_weights)).eval()


def class_of(name: str) -> type[Method]:
    """The class of a compared method; an unknown name is an error that lists the known ones."""
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}; known: salvit, {', '.join(METHODS)}")
    module, _, kind = METHODS[name].rpartition(".")
    found: type[Method] = getattr(import_module(module), kind)
    assert issubclass(found, Method)
    return found
