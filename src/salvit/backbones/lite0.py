"""EfficientNet-Lite0: small, fast, and its ImageNet weights come with pip."""

from __future__ import annotations

from torch import Tensor

from salvit.backbones.base import Backbone, Tokens

_LAST_BLOCK_AT_STRIDE = {8: 4, 16: 10, 32: 15}
_CHANNELS_AT_STRIDE = {8: 40, 16: 112, 32: 320}


class Lite0(Backbone):
    """EfficientNet-Lite0 up to its last block; one level of tokens for each of ``strides``."""

    name = "lite0"
    size_multiple = 32
    default_size = 320

    def __init__(self, strides: tuple[int, ...] = (16, 32)) -> None:
        super().__init__()
        from efficientnet_lite_pytorch import EfficientNet

        if not strides or list(strides) != sorted(set(strides) & set(_CHANNELS_AT_STRIDE)):
            raise ValueError(f"lite0 has tokens at strides 8, 16 and 32 (ascending), got {strides}")
        network = EfficientNet.from_name("efficientnet-lite0")
        self.stem, self.stem_norm, self.activation = network._conv_stem, network._bn0, network._swish
        self.blocks = network._blocks[: _LAST_BLOCK_AT_STRIDE[strides[-1]] + 1]
        self.stride = strides[0]
        self.channels = sum(_CHANNELS_AT_STRIDE[stride] for stride in strides)
        self._taps = tuple(_LAST_BLOCK_AT_STRIDE[stride] for stride in strides)

    def forward(self, images: Tensor) -> Tokens:
        """RGB images (B, 3, H, W) in [0, 1] to tokens."""
        self.check_size(images)
        features = self.activation(self.stem_norm(self.stem((images * 255.0 - 127.0) / 128.0)))
        levels = []
        for index, block in enumerate(self.blocks):
            features = block(features)
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
