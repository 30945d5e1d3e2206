"""Which parts of the body the marks are, and where those parts lie in a query (ours, not the paper's).

A body frame (body.py) finds the parts that it was taught. In a marked picture its maps say which part a mark may be; in
a query they say where that part is. The two make one more map of a keypoint, beside the one that its mark's features
make. What one marked picture leaves open, left or right, front or back, several settle, as their evidence multiplies.
``head.parts`` asks for it.

Letters: K examples · Q queries · N keypoints · n parts · H, W cells.
Symbols: P_j map of part j, a chance for each cell · x place of a mark · w share of a part in a keypoint.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from salvit.geometry import input_to_grid

PARTS = "salvit.parts"
"""What a pack calls the evidence."""
SPREAD = 20.0
"""A mark that is no part has a map that lies evenly on one in so many cells; as the floor, chosen on dev
(docs/development.md)."""
FLOOR = 0.05
"""What every cell keeps, in chances of an even map: no part is ever out of the question."""
_LEAST = 1e-9


def part_evidence(logits: Tensor, points_input: Tensor, mask: Tensor, stride: int) -> Tensor:
    """What marked pictures say of each keypoint's part, and in the last column how many of them say so.

        e_nj = Σ_k mask_kn log(H W P_j(x_kn))

    P_j at a mark is read between the cells' centres. Those of several packs add up.
    Shapes: logits (K, n, H, W), points_input (K, N, 2), mask (K, N) -> (1, N, n + 1).
    """
    height, width = logits.shape[-2:]
    chances = logits.flatten(2).softmax(-1).unflatten(-1, (height, width))
    cells = input_to_grid(points_input, stride)  # (K, N, 2)
    ends = torch.tensor([width - 1, height - 1], device=cells.device, dtype=cells.dtype).clamp_min(1)
    at = (2 * cells / ends - 1).to(chances)[:, None]  # (K, 1, N, 2), in −1 to 1
    there = F.grid_sample(chances, at, align_corners=True, padding_mode="border")[:, :, 0]  # (K, n, N)
    said = (height * width * there).clamp_min(_LEAST).log().transpose(1, 2) * mask[..., None]
    return torch.cat([said.sum(0), mask.sum(0)[:, None].to(said)], dim=-1)[None]


def part_shares(evidence: Tensor, shots: Tensor) -> Tensor:
    """The chances that a keypoint is each part, and in the last column that it is none.

        w_nj ∝ exp(K_n ē_nj),   w_n,none ∝ 20^K_n

    ē is the mean of the evidence: a picture that is learnt both ways is one picture. K_n is ``shots``.
    Shapes: evidence (1, N, n + 1), shots (N,) -> (N, n + 1); a keypoint that no example has is none.
    """
    counts = evidence[0, :, -1:]
    means = evidence[0, :, :-1] / counts.clamp_min(1)
    logarithms = F.pad(means, (0, 1), value=torch.tensor(SPREAD).log().item()) * shots[:, None].to(means)
    nothing = F.pad(torch.zeros_like(means), (0, 1), value=1.0)
    return torch.where(shots[:, None].to(means) > 0, logarithms.softmax(-1), nothing)


def told_maps(shares: Tensor, logits: Tensor) -> Tensor:
    """Where the parts are that the keypoints are told to be, as logits (Q, N, H, W).

        log(Σ_j w_nj H W P_j + w_n,none + 0.05)

    Shapes: shares (N, n + 1), logits (Q, n, H, W).
    """
    cells = logits.shape[-2] * logits.shape[-1]
    chances = cells * logits.flatten(2).softmax(-1)  # (Q, n, H·W)
    told = shares[:, :-1].to(chances) @ chances + shares[:, -1:].to(chances) + FLOOR
    maps: Tensor = told.log().unflatten(-1, logits.shape[-2:])
    return maps
