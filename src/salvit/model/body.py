"""Where a cell lies on the body (ours, not the paper's): its parts found by name, and each cell's place among them.

A back knee looks like a front knee; what tells them apart is where the head is. The marks of the training pictures have
names, so a map of each can be learnt outright, and every cell then knows how it lies to all of them. That stands beside
its features, at the marks as in the queries; names are asked for in training alone. Parts are the base keypoints, and
the auxiliary ones on the paths between them, where a data set has fixed paths.

Letters: B images · D channels of features · n parts · H, W cells · P = H·W · M keypoints.
Symbols: p map of a part · μ its mean place · c how sure it is.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.geometry import input_to_grid

_DILATIONS = (1, 2, 4)
_SPREAD = 0.7
"""Deviation of a part's aim, in cells."""


class BodyFrame(nn.Module):
    """Features to what tells of each cell's place on the body.

    The first parts are those of the data sets that are trained on, one set after the other; further ones have no name,
    and are learnt by what they are good for.

    Args:
        channels_in: D.
        grid_hw: Cells.
        parts: n.
        width: Channels inside.
        channels: Channels that it gives.
    """

    def __init__(
        self, channels_in: int, grid_hw: tuple[int, int], parts: int, width: int = 96, channels: int = 64
    ) -> None:
        super().__init__()
        self.parts, self.channels = parts, channels
        self.position = nn.Parameter(torch.zeros(1, width, *grid_hw))
        self.tokens = nn.Conv2d(channels_in, width, 1)
        self.mix = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=step, dilation=step), nn.GroupNorm(8, width), nn.ReLU())
            for step in _DILATIONS
        )
        self.maps = nn.Conv2d(width, parts, 1)
        self.tell = nn.Sequential(nn.Conv2d(width + 3 * parts, 2 * channels, 1), nn.ReLU())
        self.out = nn.Conv2d(2 * channels, channels, 1)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, D, H, W) to what is told of each cell (B, E, H, W), and logits of parts (B, n, H, W)."""
        seen = self._see(features)
        logits = self.maps(seen)
        told: Tensor = self.out(self.tell(torch.cat([seen, places_among(logits), torch.tanh(logits / 5)], dim=1)))
        return told, logits

    def find(self, features: Tensor) -> Tensor:
        """The logits of parts alone: (B, D, H, W) -> (B, n, H, W)."""
        logits: Tensor = self.maps(self._see(features))
        return logits

    def _see(self, features: Tensor) -> Tensor:
        seen = F.relu(self.tokens(features) + self.position)
        for layer in self.mix:
            seen = seen + layer(seen)
        return seen


def places_among(logits: Tensor) -> Tensor:
    """How each cell lies to each part, the surer the part the more: (B, n, H, W) -> (B, 2n, H, W).

        p = softmax(logits),   μ = Σ p x,   c = Σ p²^½,   out = c (x − μ)

    with x in −1 to 1 across the picture.
    """
    height, width = logits.shape[-2:]
    chances = logits.flatten(2).softmax(-1)  # (B, n, P)
    y, x = (torch.linspace(-1, 1, side, device=logits.device, dtype=logits.dtype) for side in (height, width))
    cells = torch.stack([x.expand(height, width), y[:, None].expand(height, width)]).flatten(1)  # (2, P)
    means = chances @ cells.T  # (B, n, 2)
    sure = chances.square().sum(-1).sqrt()  # (B, n)
    apart = (cells - means[..., None]) * sure[..., None, None]  # (B, n, 2, P)
    placed: Tensor = apart.flatten(1, 2).unflatten(2, (height, width))
    return placed


def body_loss(logits: Tensor, points_input: Tensor, shown: Tensor, stride: int, first: int = 0) -> Tensor:
    """Cross entropy of the named parts' maps with a Gaussian about each mark that is shown; 0 where none is.

    Shapes: logits (B, n, H, W), points_input (B, M, 2), shown (B, M): the M parts from ``first`` on.
    """
    height, width = logits.shape[-2:]
    end = first + points_input.shape[1]
    if end > logits.shape[1]:
        raise ValueError(f"model.encoder.body is {logits.shape[1]}, and what is trained on has {end} parts with a name")
    places = input_to_grid(points_input, stride)  # (B, M, 2)
    y, x = (torch.arange(side, device=logits.device, dtype=logits.dtype) for side in (height, width))
    across, down = (x - places[..., :1]).square(), (y - places[..., 1:]).square()
    aim = (-(down[..., :, None] + across[..., None, :]).flatten(-2) / (2 * _SPREAD**2)).softmax(-1)  # (B, M, P)
    losses = -(aim * logits[:, first:end].flatten(2).log_softmax(-1)).sum(-1)
    return (losses * shown).sum() / shown.sum().clamp_min(1)
