"""Filters: what answers to a marked keypoint, and to nothing else in the marked pictures (ours, not the paper's).

A prototype is compared with every place alike: it knows where the keypoint is, and nothing of where it is not. A filter
is the ridge regression from the features of all cells of the marked pictures to the map of the mark, so a front knee
also learns from the back knee beside it. It has a closed form, and needs no training. ``head.filter_gain`` says how
much its answer counts beside what was learnt.

Letters: K examples · N keypoints · D channels, the last of them raw tokens · H, W cells · Q query images.
Symbols: Φ representation of a marked keypoint · μ, C mean and covariance of all cells' features · λ ridge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from salvit.backbones.linear import outer_sum, pointwise
from salvit.model.corrections import CORRECTIONS
from salvit.model.parts import PARTS

MOMENTS = "salvit.moments"
"""What a pack calls the sums that filters are made from."""
SUMS = (MOMENTS, CORRECTIONS, PARTS)
"""What adds up where packs are joined."""
RIDGE = 1.0
"""λ, in units of the channels' variance; as the gain, chosen on dev (docs/development.md)."""


def token_moments(features: Tensor) -> Tensor:
    """Σ [f; 1] [f; 1]ᵀ over all cells of some pictures: (K, D, H, W) -> (1, D + 1, D + 1). Those of parts add up."""
    columns = F.pad(features.transpose(0, 1).flatten(1), (0, 0, 0, 1), value=1.0)  # (D + 1, K·H·W)
    return outer_sum(columns)[None]


def join_extra(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """What several packs of one detector have beside their vectors, as one pack: sums added up, else row by row."""
    joined = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return {name: rows.sum(0, keepdim=True) if name in SUMS else rows for name, rows in joined.items()}


def ridge_filters(vectors: Tensor, mask: Tensor, moments: Tensor, compared: int = 0) -> Tensor:
    """The filter of each keypoint, but for its scale, which :func:`filter_maps` takes out.

        w_n ∝ (C + λ diag v)⁻¹ Σ_k mask_kn (Φ_kn − μ)

    v is the mean variance of the channels, that of learnt ones and of the last ``compared``, raw ones, each by itself.
    Shapes: vectors (K, N, D), mask (K, N), moments (1, D + 1, D + 1) -> (N, D); zero where no example has the keypoint.
    """
    total = moments[0]
    mean = total[-1, :-1] / total[-1, -1]
    covariance = total[:-1, :-1] / total[-1, -1] - torch.outer(mean, mean)
    parts = covariance.diagonal().split([len(mean) - compared, compared])
    ridge = torch.cat([part.mean().clamp_min(1e-9).expand_as(part) for part in parts if len(part)])
    marked = ((vectors - mean) * mask[..., None]).sum(0)  # (N, D)
    # On the CPU: not every device can solve, and a pack is asked for once.
    solved: Tensor = torch.linalg.solve((covariance + RIDGE * ridge.diag()).cpu(), marked.T.cpu()).T
    return solved.to(vectors)


def filter_maps(filters: Tensor, features: Tensor) -> Tensor:
    """What each filter answers, at mean 0 and deviation 1 over a picture: (N, D), (Q, D, H, W) -> (Q, N, H, W)."""
    answers = pointwise(features.to(filters), filters)  # kept features may be of half precision
    deviation, mean = torch.std_mean(answers, dim=(-2, -1), keepdim=True)
    standard: Tensor = (answers - mean) / deviation.clamp_min(1e-9)
    return standard


def with_filters(described: Tensor, answers: tuple[Tensor, ...], wanted: Tensor | None = None) -> Tensor:
    """What the dynamic head says of cells, the answers added to its logits.

    Shapes: described (Q, N, Σ S² + 1, 3 + 2V) or (1, P, …) of wanted pairs (Q, N), answers (Q, N, S²) of each scale.
    """
    if not answers:
        return described
    added = torch.cat(answers, dim=2)  # (Q, N, Σ S²)
    added = added if wanted is None else added[wanted][None]
    return described + F.pad(added[..., None], (0, described.shape[-1] - 1, 0, 1))
