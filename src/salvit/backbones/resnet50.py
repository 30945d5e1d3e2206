"""ResNet-50, the paper's default backbone, run on transformers' own layers: 12×12×2048 at 384 px."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn

from salvit.backbones.base import Backbone, Tokens

DEFAULT_VARIANT = "v1.5"
STD = (0.229, 0.224, 0.225)
_MEAN = {
    "v1": (123.68 / 255, 116.779 / 255, 103.939 / 255),
    "v1.5": (0.485, 0.456, 0.406),
}
"""The colour that the network's zero padding stands for, in RGB."""


class ResNet50(Backbone):
    """ResNet-50 up to layer 4, frozen up to layer 3.

    Args:
        layer4_blocks: How many of layer 4's three blocks run: 3 (the paper's 23 M parameters) or 2 (its predecessor).
        variant: How a layer halves the grid. ``v1.5``: in the 3×3 convolution of its first block (torchvision, the
            hub); ``v1``: in the 1×1 convolutions before it (the network's authors, Keras). It also says which mean
            colour is taken from the pictures.
    """

    name = "resnet50"
    stride = 32
    size_multiple = 32
    channels = 2048
    default_size = 384
    mean: Tensor
    std: Tensor

    def __init__(self, layer4_blocks: int = 3, variant: str = DEFAULT_VARIANT) -> None:
        super().__init__()
        from transformers import ResNetConfig, ResNetModel

        if layer4_blocks not in (2, 3):
            raise ValueError(f"layer4_blocks must be 2 or 3, got {layer4_blocks}")
        if variant not in _MEAN:
            raise ValueError(f"unknown variant {variant!r} of resnet50; known: {', '.join(_MEAN)}")
        network: Any = ResNetModel(ResNetConfig())  # type: ignore[no-untyped-call]
        self.embedder: nn.Module = network.embedder
        self.stages = nn.ModuleList(stage.layers for stage in network.encoder.stages)
        self.stages[3] = network.encoder.stages[3].layers[:layer4_blocks]
        self._skip = 2 if variant == "v1" else 1
        if variant == "v1":
            for stage in self.stages[1:]:
                _halve_before(stage[0])  # type: ignore[index]
        self.register_buffer("mean", torch.tensor(_MEAN[variant]).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(STD).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tokens:
        """RGB images (B, 3, H, W) in [0, 1] to tokens."""
        return self.finish(self.begin(images))

    def begin(self, images: Tensor) -> Tensor:
        """Up to layer 3: (B, 1024, 2H, 2W), of which ``v1`` goes on with every second cell, (B, 1024, H, W)."""
        self.check_size(images)
        features: Tensor = self.embedder((images - self.mean) / self.std)
        for stage in self.stages[:3]:
            features = stage(features)[..., :: self._skip, :: self._skip]
        return features

    def finish(self, begun: Tensor) -> Tokens:
        """Layer 4 on what :meth:`begin` gave."""
        return Tokens((self.stages[3](begun),))

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


def _halve_before(block: Any) -> None:
    """Take the stride out of a layer's first block: cells are thinned out before it.

    A 1×1 convolution of stride 2 looks at every second cell alone, so a cache of what stands before need not hold the
    others.
    """
    for part in (block.shortcut, block.layer[1]):
        part.convolution.stride = (1, 1)


def _torchvision_block(key: str) -> str:
    """``layer1.0.conv2.weight`` → ``stages.0.0.layer.1.convolution.weight``, and so on."""
    layer, block, part, rest = key.split(".", 3)
    place = f"stages.{int(layer.removeprefix('layer')) - 1}.{block}"
    if part == "downsample":
        number, rest = rest.split(".", 1)
        return f"{place}.shortcut.{'convolution' if number == '0' else 'normalization'}.{rest}"
    kind = "convolution" if part.startswith("conv") else "normalization"
    return f"{place}.layer.{int(part[-1]) - 1}.{kind}.{rest}"
