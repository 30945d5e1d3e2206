"""How distinctive each cell is: learnt beside the features, and carried with them as one more channel.

So pooling, packs and caches of features carry it too: a prototype's last number is how distinctive its keypoint is.

Letters: B images · D channels of features · H, W cells. Symbol: ω distinctiveness.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from salvit.backbones import Backbone
from salvit.baselines.method import PlainEncoder
from salvit.model.encoder import EncoderInput, EncoderOutput
from salvit.model.settings import ModelSettings

SMALLEST = 1e-3
"""ω is never below this; that of a keypoint which no shot has would be 0."""


class DistinctEncoder(PlainEncoder):
    """Features (D channels) and ω (the last channel).

    Choice: a 3×3 convolution to a quarter of the channels, four 1×1 ones, one number; with D = 2048 these are the
    10.49 M parameters by which the paper's ProbIntr is larger than its ProtoNet.
    """

    def __init__(self, settings: ModelSettings, backbone: Backbone) -> None:
        super().__init__(settings, backbone)
        hidden = max(1, self.channels // 4)
        layers: list[nn.Module] = [nn.Conv2d(self.channels, hidden, kernel_size=3, padding=1), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Conv2d(hidden, hidden, kernel_size=1), nn.ReLU()]
        self.distinctiveness = nn.Sequential(*layers, nn.Conv2d(hidden, 1, kernel_size=1))
        self.channels += 1

    def forward(self, batch: EncoderInput) -> EncoderOutput:
        """Raw tokens to (B, D + 1, H, W)."""
        features = super().forward(batch).features
        return EncoderOutput(torch.cat([features, positive(self.distinctiveness(features))], dim=1))


def positive(values: Tensor) -> Tensor:
    """f(x) = (x + √(x² + 4)) / 2, above 0, with f(0) = 1 and f(−x) = 1 / f(x) (FSKD)."""
    return (values + torch.sqrt(values.square() + 4)) / 2


def split_distinctiveness(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Features and ω: (n, D + 1, ...) -> (n, D, ...), (n, ...)."""
    return vectors[:, :-1], vectors[:, -1].clamp_min(SMALLEST)
