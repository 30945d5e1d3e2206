"""Settings to a model, part by part, and how many parameters each part has."""

from __future__ import annotations

from pathlib import Path

from salvit.backbones import Backbone, build_backbone
from salvit.model.detector import SalViT
from salvit.model.dynamic import DynamicDescriptor, DynamicLocator
from salvit.model.encoder import Encoder
from salvit.model.finder import Finder
from salvit.model.locator import Locator
from salvit.model.modulation import DescriptorNet
from salvit.model.own_saliency import TaughtPrior
from salvit.model.settings import ModelSettings
from salvit.model.spatial import SpatialDescriptor, SpatialLocator

ATTENTIVE_BLOCK = 10
"""Choice: class-token attentiveness is taken from the last frozen block."""


def build_model(settings: ModelSettings, backbone_weights: str | Path | None = "pretrained") -> SalViT:
    """Build a model in inference mode; its own parts are untrained.

    Args:
        settings: What to build; see :func:`salvit.model.settings.preset`.
        backbone_weights: ``pretrained``, a weight file, or None for random ones.
    """
    backbone = build_trunk(settings, backbone_weights)
    side = settings.input_size // backbone.stride
    encoder = Encoder(
        backbone.channels, (side, side), backbone.stride, settings.encoder, settings.attention, settings.morphology
    )
    is_taught = settings.saliency == "learned" and settings.backbone.trained_blocks > 0 and encoder.uses_saliency
    prior = TaughtPrior(backbone.channels) if is_taught else None
    model = SalViT(settings, backbone, encoder, *build_head(settings, encoder), prior)
    model.finder = build_finder(model).eval() if settings.finder else None
    return model


def build_finder(model: SalViT) -> Finder:
    """A finder for a model's grid and the tokens of its glance, untrained."""
    return Finder(model.backbone.glance_channels, model.encoder.grid_hw)


def build_trunk(settings: ModelSettings, backbone_weights: str | Path | None = "pretrained") -> Backbone:
    """The backbone that the settings name, its trainable parts set to be trained."""
    backbone = build_backbone(
        settings.backbone.name,
        backbone_weights,
        attention_block=ATTENTIVE_BLOCK if settings.saliency == "attentiveness" else None,
        layer4_blocks=settings.backbone.layer4_blocks,
        trained_blocks=settings.backbone.trained_blocks,
    )
    if settings.input_size % backbone.size_multiple or settings.input_size < 2 * backbone.stride:
        raise ValueError(
            f"input_size must be a multiple of {backbone.size_multiple} and at least {2 * backbone.stride} for "
            f"{backbone.name}, got {settings.input_size}"
        )
    for part in backbone.trainable_parts():
        part.requires_grad_(True)
    return backbone


def build_head(
    settings: ModelSettings, encoder: Encoder
) -> tuple[DescriptorNet | SpatialDescriptor | DynamicDescriptor, Locator | SpatialLocator | DynamicLocator]:
    """Descriptor net and localisation net for an encoder's features."""
    head = settings.head
    if head.kind == "spatial":
        spatial = SpatialDescriptor(encoder.channels, encoder.grid_hw, head.channels)
        return spatial, SpatialLocator(head.channels, head.scales, head.latent, has_presence=head.presence)
    if head.kind == "dynamic":
        dynamic = DynamicDescriptor(
            encoder.channels,
            encoder.grid_hw,
            head.channels,
            head.scales,
            head.latent,
            compared=encoder.compared,
            raw_gain=head.raw_gain,
        )
        return dynamic, DynamicLocator(head.scales, head.latent, has_presence=head.presence)
    flat = DescriptorNet(
        encoder.channels, encoder.grid_hw, head.channels, head.descriptor_channels, head.descriptor_side
    )
    return flat, Locator(flat.channels, head.scales, head.latent)


def count_parameters(model: SalViT) -> dict[str, int]:
    """Parameters of each part; the parts add up to ``total``."""
    encoder = model.encoder
    counts = {"backbone": _count(model.backbone)}
    whole = _count(encoder)
    embedding = _count(getattr(encoder, "embedding", None))
    generators = sum(_count(block.morphology) for block in getattr(encoder, "blocks", ()))
    counts["SalViT blocks"] = whole - embedding - generators - _count(encoder.body)
    counts["saliency embedding"] = embedding
    counts["parameter generator"] = generators
    counts["descriptor net"] = _count(model.descriptor)
    counts["localisation net"] = _count(model.locator)
    if encoder.body is not None:
        counts["body frame"] = _count(encoder.body)
    if model.prior is not None:
        counts["taught prior"] = _count(model.prior)
    if model.finder is not None:
        counts["finder"] = _count(model.finder)
    counts["total"] = _count(model)
    return counts


def _count(part: object) -> int:
    from torch import nn

    return sum(parameter.numel() for parameter in part.parameters()) if isinstance(part, nn.Module) else 0
