"""EfficientNet-Lite0 and DINOv2 ViT-S/14 side by side: two views of a picture on one grid (ours)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.backbones.base import Backbone, Tokens
from salvit.backbones.dinov2 import DinoV2
from salvit.backbones.lite0 import Lite0


class Joined(Backbone):
    """Tokens of both, Lite0's first.

    DINOv2 sees the picture at 14/16 of its side, so that its grid of stride 14 is Lite0's of stride 16.
    """

    name = "joined"
    size_multiple = Lite0.size_multiple
    default_size = 320

    def __init__(self, lite0: Lite0, dinov2: DinoV2) -> None:
        super().__init__()
        self.lite0, self.dinov2 = lite0, dinov2
        self.stride, self.channels = lite0.stride, lite0.channels + dinov2.channels

    def forward(self, images: Tensor) -> Tokens:
        """RGB images (B, 3, H, W) in [0, 1] to tokens of both."""
        seen = self._see(images)
        return Tokens(self.lite0(images).levels + seen.levels, seen.attentiveness)

    @property
    def glance_channels(self) -> int:
        """Those of Lite0."""
        return self.lite0.channels

    def glance(self, images: Tensor) -> Tokens:
        """Lite0's tokens alone, a fourth of the cost."""
        tokens: Tokens = self.lite0(images)
        return tokens

    def trainable_parts(self) -> list[nn.Module]:
        """Those of Lite0."""
        return self.lite0.trainable_parts()

    def begin(self, images: Tensor) -> Tensor:
        """What Lite0's trained blocks start from, then DINOv2's tokens: (B, C' + 384, H, W)."""
        if not self.trainable_parts():
            return images
        return torch.cat([self.lite0.begin(images), self._see(images).joined()], dim=1)

    def finish(self, begun: Tensor) -> Tokens:
        """Lite0's trained blocks on what :meth:`begin` gave."""
        if not self.trainable_parts():
            tokens: Tokens = self(begun)
            return tokens
        before, seen = begun.split((begun.shape[1] - self.dinov2.channels, self.dinov2.channels), dim=1)
        return Tokens((*self.lite0.finish(before).levels, seen))

    def _see(self, images: Tensor) -> Tokens:
        """DINOv2's tokens, on Lite0's grid."""
        self.check_size(images)
        height, width = (side // self.stride * self.dinov2.stride for side in images.shape[-2:])
        smaller = F.interpolate(images, size=(height, width), mode="bilinear", antialias=True, align_corners=False)
        tokens: Tokens = self.dinov2(smaller)
        return tokens
