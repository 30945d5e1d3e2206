"""ResNet-50, the paper's default backbone, run on transformers' own layers: 12×12×2048 at 384 px."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn

from salvit.backbones.base import Backbone, Tokens

_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)


class ResNet50(Backbone):
    """ResNet-50 up to layer 4, frozen up to layer 3.

    Args:
        layer4_blocks: How many of layer 4's three blocks run: 3 (the paper's 23 M parameters) or 2 (its predecessor).
    """

    name = "resnet50"
    stride = 32
    size_multiple = 32
    channels = 2048
    default_size = 384
    mean: Tensor
    std: Tensor

    def __init__(self, layer4_blocks: int = 3) -> None:
        super().__init__()
        from transformers import ResNetConfig, ResNetModel

        if layer4_blocks not in (2, 3):
            raise ValueError(f"layer4_blocks must be 2 or 3, got {layer4_blocks}")
        network: Any = ResNetModel(ResNetConfig())  # type: ignore[no-untyped-call]
        self.embedder: nn.Module = network.embedder
        self.stages = nn.ModuleList(stage.layers for stage in network.encoder.stages)
        self.stages[3] = network.encoder.stages[3].layers[:layer4_blocks]
        self.register_buffer("mean", torch.tensor(_MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(_STD).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tokens:
        """RGB images (B, 3, H, W) in [0, 1] to tokens."""
        self.check_size(images)
        features = self.embedder((images - self.mean) / self.std)
        for stage in self.stages:
            features = stage(features)
        return Tokens((features,))

    def trainable_parts(self) -> list[nn.Module]:
        """Layer 4; everything before it stays frozen."""
        return [self.stages[3]]

    def key_of_file(self, key: str) -> str | None:
        """The parameter of a key in the Hugging Face or the torchvision layout; None for what is not run."""
        key = key.removeprefix("resnet.")
        if key.startswith(("classifier.", "fc.")):
            return None
        if key.startswith("encoder.stages."):
            key = re.sub(r"^encoder\.stages\.(\d)\.layers\.", r"stages.\1.", key)
        elif key.startswith("layer"):
            key = _torchvision_block(key)
        elif key.startswith(("conv1.", "bn1.")):
            part = "convolution" if key.startswith("conv1.") else "normalization"
            key = f"embedder.embedder.{part}.{key.split('.', 1)[1]}"
        is_cut = key.startswith("stages.3.") and int(key.split(".")[2]) >= len(self.stages[3])  # type: ignore[arg-type]
        return None if is_cut else key


def _torchvision_block(key: str) -> str:
    """``layer1.0.conv2.weight`` → ``stages.0.0.layer.1.convolution.weight``, and so on."""
    layer, block, part, rest = key.split(".", 3)
    place = f"stages.{int(layer.removeprefix('layer')) - 1}.{block}"
    if part == "downsample":
        number, rest = rest.split(".", 1)
        return f"{place}.shortcut.{'convolution' if number == '0' else 'normalization'}.{rest}"
    kind = "convolution" if part.startswith("conv") else "normalization"
    return f"{place}.layer.{int(part[-1]) - 1}.{kind}.{rest}"
