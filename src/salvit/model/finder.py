"""Where the object is (ours): its box, from the tokens of a first look, so that a second one can be near.

A picture of a small object leaves few cells to each keypoint. What is looked for here is no class of objects but the
one that the picture is of: the finder learns from the boxes of training pictures, beside the model.

Letters: B images · C channels · H, W cells · P = H·W · l0 side of the input.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.geometry import Window

_DILATIONS = (1, 2, 4, 1)
_SPREAD = 0.12
"""Deviation of the aim about the box's middle, as a share of its sides."""
_LEAST_SPREAD = 0.6
"""The least such deviation, in cells."""
_FIRST_REACH = 4.0
"""About how far, in cells, the sides of a box lie from a cell before anything is learnt."""


class Finder(nn.Module):
    """Tokens to the box of the object: where its middle is, and from there how far its sides are.

    Tokens are a fixed input to it: it learns beside the model and does not change what it reads.

    Args:
        channels: Of the tokens that it reads; the first so many where it is given more.
        grid_hw: Cells of the tokens.
        width: Channels inside.
    """

    def __init__(self, channels: int, grid_hw: tuple[int, int], width: int = 96) -> None:
        super().__init__()
        self.channels, self.grid_hw = channels, grid_hw
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.tokens, self.context = nn.Conv2d(channels, width, 1), nn.Conv2d(channels, width, 1)
        self.position = nn.Parameter(torch.zeros(1, width, *grid_hw))
        self.mix = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=step, dilation=step), nn.GroupNorm(8, width), nn.ReLU())
            for step in _DILATIONS
        )
        self.out = nn.Conv2d(width, 5, 1)

    def forward(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (B, C, H, W) to logits of the object's middle (B, P) and the box that each cell would give (B, P, 4).

        Boxes are xyxy in cells, edge coordinates. Tokens are brought to a root mean square of 1 first, so that it does
        not matter which others they were scaled with.
        """
        tokens = raw[:, : self.channels].detach()
        tokens = self.norm(tokens * tokens.square().mean(1, keepdim=True).clamp(min=1e-12).rsqrt())
        mixed = F.relu(self.tokens(tokens) + self.context(tokens.mean((2, 3), keepdim=True)) + self.position)
        for layer in self.mix:
            mixed = mixed + layer(mixed)
        out = self.out(mixed).flatten(2).transpose(1, 2)  # (B, P, 5)
        middles = _middles(self.grid_hw, raw)
        reach = _FIRST_REACH * F.softplus(out[..., 1:])
        return out[..., 0], torch.cat([middles - reach[..., :2], middles + reach[..., 2:]], dim=-1)

    def loss(self, raw: Tensor, boxes: Tensor, input_size: int) -> Tensor:
        """Cross entropy of the middle, and what the boxes about it lack: tokens (B, C, H, W), boxes (B, 4) in pixels.

        A box costs 1 − its generalised IoU with the true one, and the distances of its sides as shares of the longer
        side; cells count by their weight in the aim, a Gaussian about the true middle.
        """
        logits, found = self(raw)
        true = (boxes * (self.grid_hw[0] / input_size)).to(found)[:, None]  # (B, 1, 4)
        sides = (true[..., 2:] - true[..., :2]).clamp(min=1e-3)
        offset = (_middles(self.grid_hw, found) - (true[..., :2] + true[..., 2:]) / 2) / (_SPREAD * sides).clamp(
            min=_LEAST_SPREAD
        )
        aim = (-offset.square().sum(-1) / 2).softmax(-1)  # (B, P)
        lacks = 1 - generalised_iou(found, true) + (found - true).abs().sum(-1) / sides.max(-1).values
        loss: Tensor = (aim * (lacks - logits.log_softmax(-1))).sum(-1).mean()
        return loss

    @torch.no_grad()
    def find(self, raw: Tensor, input_size: int) -> list[Window]:
        """The box of the object in each picture, in pixels of the input, inside it: tokens (B, C, H, W)."""
        logits, boxes = self(raw)
        best = logits.argmax(-1)[:, None, None].expand(-1, 1, 4)
        found = (boxes.gather(1, best)[:, 0] * (input_size / self.grid_hw[0])).clamp(0, input_size)
        return [(row[0], row[1], row[2], row[3]) for row in found.double().tolist()]


def iou(boxes: Tensor, others: Tensor) -> Tensor:
    """What both cover over what either covers: xyxy (..., 4) -> (...) in 0 to 1."""
    both, either = _covered(boxes, others)
    return both / either


def generalised_iou(boxes: Tensor, others: Tensor) -> Tensor:
    """IoU less the share of the hull that neither covers: xyxy (..., 4) -> (...) in −1 to 1."""
    both, either = _covered(boxes, others)
    hull = torch.maximum(boxes[..., 2:], others[..., 2:]) - torch.minimum(boxes[..., :2], others[..., :2])
    whole = hull.prod(-1).clamp(min=1e-9)
    return both / either - (whole - either) / whole


def _covered(boxes: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Areas that both cover, and that either covers."""
    inner = torch.minimum(boxes[..., 2:], others[..., 2:]) - torch.maximum(boxes[..., :2], others[..., :2])
    both = inner.clamp(min=0).prod(-1)
    own, other = ((one[..., 2:] - one[..., :2]).prod(-1) for one in (boxes, others))
    return both, (own + other - both).clamp(min=1e-9)


def _middles(grid_hw: tuple[int, int], like: Tensor) -> Tensor:
    """Middles of all cells, x and y in cells: (P, 2)."""
    y, x = (torch.arange(side, device=like.device, dtype=like.dtype) + 0.5 for side in grid_hw)
    return torch.stack([x.expand(grid_hw), y[:, None].expand(grid_hw)], dim=-1).flatten(0, 1)
