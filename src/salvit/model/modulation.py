"""Modulator 𝓜 and descriptor net 𝓓: where does the query look like the prototype, as one vector (paper Sec. 3.3).

Letters: Q query images · N keypoints · D channels of features · m channels after the 1×1 · H, W cells.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def modulate(features: Tensor, prototypes: Tensor) -> Tensor:
    """Attentive features: F_att_n(p) = 𝓔(I)(p) ⊙ c_n (paper Sec. 3.3).

    Shapes: features (Q, D, H, W), prototypes (N, D) -> (Q, N, D, H, W). The network itself uses
    :func:`modulate_and_project`, which never forms this.
    """
    return features[:, None] * prototypes[:, :, None, None]


def modulate_and_project(features: Tensor, prototypes: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """:func:`modulate` and a 1×1 convolution at once: W (c_n ⊙ F) = (W Diag(c_n)) F.

    So all queries and keypoints are one matrix product, and N·D·H·W numbers a query are never stored. In memory the
    channels come last, which suits the convolutions that follow.
    Shapes: features (Q, D, H, W), prototypes (N, D), weight (m, D), bias (m,) -> (Q, N, m, H, W).
    """
    weights = (weight[None] * prototypes[:, None, :]).flatten(0, 1)  # (N·m, D)
    cells = features.flatten(2).transpose(1, 2).flatten(0, 1)  # (Q·H·W, D)
    projected = torch.addmm(bias.repeat(len(prototypes)), cells, weights.T)  # (Q·H·W, N·m)
    maps: Tensor = projected.view(len(features), *features.shape[2:], len(prototypes), -1)  # (Q, H, W, N, m)
    return maps.permute(0, 3, 1, 2, 4).contiguous().permute(0, 1, 4, 2, 3)


def attended_maps(project: nn.Conv2d, features: Tensor, prototypes: Tensor, wanted: Tensor | None) -> Tensor:
    """Every query as every prototype sees it, after the first 1×1 convolution and a ReLU.

    Shapes: features (Q, D, H, W), prototypes (N, D) -> (Q, N, m, H, W); with ``wanted`` (Q, N), which pairs of query
    and keypoint are to be looked at, only these, row by row: (1, P, m, H, W).
    """
    assert project.bias is not None
    kept = None if wanted is None else wanted.any(0)
    if kept is not None and not kept.all():
        prototypes, wanted = prototypes[kept], wanted[:, kept]  # type: ignore[index]
    maps = modulate_and_project(features, prototypes, project.weight.flatten(1), project.bias)  # (Q, N, m, H, W)
    if wanted is None or wanted.all():
        return F.relu_(maps) if wanted is None else F.relu_(maps).flatten(0, 1)[None]
    cells = maps.permute(0, 1, 3, 4, 2)[wanted]  # (P, H, W, m)
    return F.relu_(cells).permute(0, 3, 1, 2)[None]


class DescriptorNet(nn.Module):
    """𝓓: a 1×1 convolution, then 3×3 ones of stride 2 until the map is small; flattened, it is the descriptor Ψ.

    Choice: a ReLU after every layer, no batch norm, as in the predecessor's code; the map ends at ``side`` or less.
    """

    def __init__(self, channels_in: int, grid_hw: tuple[int, int], channels: int, channels_out: int, side: int) -> None:
        super().__init__()
        steps, sides = 0, grid_hw
        while max(sides) > side or steps == 0:
            steps, sides = steps + 1, ((sides[0] + 1) // 2, (sides[1] + 1) // 2)
        self.project = nn.Conv2d(channels_in, channels, kernel_size=1)
        widths = [channels] * steps + [channels_out]
        self.reduce = nn.ModuleList(
            nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1) for before, after in pairwise(widths)
        )
        self.channels = channels_out * sides[0] * sides[1]
        for layer in (self.project, *self.reduce):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, features: Tensor, prototypes: Tensor, wanted: Tensor | None = None) -> Tensor:
        """Features (Q, D, H, W) and prototypes (N, D) to descriptors Ψ (Q, N, L), or (1, P, L) of wanted pairs."""
        maps = attended_maps(self.project, features, prototypes, wanted)
        hidden = maps.flatten(0, 1)  # (Q·N, m, H, W)
        for layer in self.reduce:
            hidden = F.relu_(layer(hidden))
        return hidden.reshape(*maps.shape[:2], -1)
