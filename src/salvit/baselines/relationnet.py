"""``relationnet``: a small network scores each pair of prototype and cell (Sung et al. 2018; paper supplement).

Letters: Q query images · N keypoints · D channels of features · h hidden channels · H, W cells.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.backbones import Backbone
from salvit.baselines.method import Method, scale_of_map
from salvit.model.locator import ScaleOutput
from salvit.model.settings import ModelSettings

HIDDEN = 512
"""Choice: the width that gives the paper's 21.1 M parameters."""


class RelationNet(Method):
    """Prototype and cell side by side, two 1×1 convolutions, a score.

    Choice: no sigmoid at the end, because the scores of all cells go through one softmax; no batch norm, because the
    authors' has a momentum of 1, so that a prediction would depend on the episode before it.
    """

    def __init__(self, settings: ModelSettings, backbone: Backbone) -> None:
        super().__init__(settings, backbone)
        self.relate = nn.Conv2d(2 * self.encoder.channels, HIDDEN, kernel_size=1)
        self.score = nn.Conv2d(HIDDEN, 1, kernel_size=1)
        self._widest = HIDDEN

    def compare(self, prototypes: Tensor, features: Tensor, wanted: Tensor | None = None) -> tuple[ScaleOutput, ...]:
        """Scores are what the relation module says; query by query, for the keypoints that are wanted in it."""
        assert self.relate.bias is not None
        weight, parts = self.relate.weight.flatten(1), []
        for q, seen in enumerate(features):
            kept = prototypes if wanted is None else prototypes[wanted[q]]
            hidden = F.relu_(relate(kept, seen, weight, self.relate.bias))  # (N, H·W, h)
            parts.append(F.linear(hidden, self.score.weight.flatten(1), self.score.bias)[..., 0])  # (N, H·W)
        scores = torch.stack(parts) if wanted is None else torch.cat(parts)[None]
        return scale_of_map(scores.unflatten(-1, features.shape[-2:]))


def relate(prototypes: Tensor, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """W [c_n, F(p)] + b = W₁ c_n + W₂ F(p) + b: the pairs (2D channels a cell) are never formed.

    Shapes: prototypes c (N, D), features F of one query (D, H, W), weight (h, 2D), bias (h,) -> (N, H·W, h).
    """
    of_prototype, of_cell = weight.chunk(2, dim=1)  # (h, D) each
    marked = prototypes @ of_prototype.T + bias  # (N, h)
    seen = features.flatten(1).T @ of_cell.T  # (H·W, h)
    return seen + marked[:, None]
