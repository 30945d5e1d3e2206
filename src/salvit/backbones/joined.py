"""EfficientNet-Lite0 and DINOv2 ViT-S/14 side by side: two views of a picture on one grid (ours)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

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
        self.check_size(images)
        height, width = (side // self.stride * self.dinov2.stride for side in images.shape[-2:])
        smaller = F.interpolate(images, size=(height, width), mode="bilinear", antialias=True, align_corners=False)
        seen = self.dinov2(smaller)
        return Tokens(self.lite0(images).levels + seen.levels, seen.attentiveness)
