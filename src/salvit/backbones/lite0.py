"""EfficientNet-Lite0: small, fast, and its ImageNet weights come with pip."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from salvit.backbones.base import Backbone, Tokens
from salvit.backbones.linear import OneDnnPointwise, multiply_by_onednn

_LAST_BLOCK_AT_STRIDE = {8: 4, 16: 10, 32: 15}
_CHANNELS_AT_STRIDE = {8: 40, 16: 112, 32: 320}
_TRAINABLE = (0, 5, 8)
"""How many of the sixteen blocks may be trained: none, those at stride 32, and the last three at stride 16 too."""


class Lite0(Backbone):
    """EfficientNet-Lite0 up to its last block; one level of tokens for each of ``strides``.

    Args:
        strides: Of the tokens, ascending.
        trained_blocks: How many of the last blocks training may change; with some, tokens are at strides 16 and 32.
    """

    name = "lite0"
    size_multiple = 32
    default_size = 320

    def __init__(self, strides: tuple[int, ...] = (16, 32), trained_blocks: int = 0) -> None:
        super().__init__()
        from efficientnet_lite_pytorch import EfficientNet

        if not strides or list(strides) != sorted(set(strides) & set(_CHANNELS_AT_STRIDE)):
            raise ValueError(f"lite0 has tokens at strides 8, 16 and 32 (ascending), got {strides}")
        if trained_blocks not in _TRAINABLE or (trained_blocks and strides != (16, 32)):
            raise ValueError(
                f"lite0 can train its last 5 or 8 blocks, with tokens at strides 16 and 32; got {trained_blocks} and "
                f"{strides}"
            )
        network = EfficientNet.from_name("efficientnet-lite0")
        self.stem, self.stem_norm, self.activation = network._conv_stem, network._bn0, network._swish
        self.blocks = network._blocks[: _LAST_BLOCK_AT_STRIDE[strides[-1]] + 1]
        multiply_by_onednn(self.blocks)
        self.stride = strides[0]
        self.channels = sum(_CHANNELS_AT_STRIDE[stride] for stride in strides)
        self._taps = tuple(_LAST_BLOCK_AT_STRIDE[stride] for stride in strides)
        self._first_trained = len(self.blocks) - trained_blocks

    def forward(self, images: Tensor) -> Tokens:
        """RGB images (B, 3, H, W) in [0, 1] to tokens."""
        return self._run(self._stem(images), 0)

    def begin(self, images: Tensor) -> Tensor:
        """Up to the first trained block; where none is, the images themselves."""
        if not self.trainable_parts():
            return images
        features = self._stem(images)
        for block in self.blocks[: self._first_trained]:
            features = run_block(block, features)
        return features

    def finish(self, begun: Tensor) -> Tokens:
        """The trained blocks on what :meth:`begin` gave."""
        return self._run(begun, self._first_trained) if self.trainable_parts() else self(begun)

    def trainable_parts(self) -> list[nn.Module]:
        """The last blocks, as many as were asked for."""
        return list(self.blocks[self._first_trained :])

    def _stem(self, images: Tensor) -> Tensor:
        self.check_size(images)
        features: Tensor = self.activation(self.stem_norm(self.stem((images * 255.0 - 127.0) / 128.0)))
        return features

    def _run(self, features: Tensor, first: int) -> Tokens:
        """The blocks from ``first`` on; what stands before it may be a level itself."""
        levels = [features] if first - 1 in self._taps else []
        for index, block in enumerate(self.blocks[first:], start=first):
            features = run_block(block, features)
            if index in self._taps:
                levels.append(features)
        return Tokens(tuple(levels))

    def key_of_file(self, key: str) -> str | None:
        """The parameter that a key of the published file belongs to; None for the classifier, which is not used."""
        if key.startswith("_blocks."):
            index = int(key.split(".")[1])
            return key[1:] if index < len(self.blocks) else None
        if key.startswith("_conv_stem."):
            return "stem." + key.removeprefix("_conv_stem.")
        if key.startswith("_bn0."):
            return "stem_norm." + key.removeprefix("_bn0.")
        return None if key.split(".")[0] in ("_conv_head", "_bn1", "_fc") else key


def run_block(block: Any, values: Tensor) -> Tensor:
    """What an inverted bottleneck of `efficientnet_lite_pytorch` gives, in half as many passes over its memory."""
    features = values
    if hasattr(block, "_expand_conv"):
        features = F.relu6(_normed(block._expand_conv, block._bn0, features))
    features = F.relu6(_normed(block._depthwise_conv, block._bn1, features))
    features = _normed(block._project_conv, block._bn2, features)
    return features + values if block.id_skip and features.shape == values.shape else features


def _normed(layer: nn.Conv2d, norm: nn.BatchNorm2d, values: Tensor) -> Tensor:
    """A convolution and its batch norm, as one convolution where the norm's statistics are fixed."""
    if norm.training or norm.running_var is None or norm.running_mean is None:
        normed: Tensor = norm(layer(values))
        return normed
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()  # (E,)
    weight, bias = layer.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale
    if isinstance(layer, OneDnnPointwise):
        return layer.with_weights(values, weight, bias)
    kernel, stride = layer.kernel_size[0], layer.stride[0]
    if stride == 1:
        return F.conv2d(values, weight, bias, padding=kernel // 2, groups=layer.groups)
    around = kernel - stride  # of an even side, as TensorFlow pads it
    padded = F.pad(values, (around // 2, around - around // 2) * 2)
    return F.conv2d(padded, weight, bias, stride=stride, groups=layer.groups)
