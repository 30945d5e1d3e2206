"""What a model is asked and what it says, on tensors.

Letters: K shots · Q queries · N keypoints · D channels · H, W cells · T blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from salvit.model.dynamic import Weights
from salvit.model.locator import ScaleOutput


@dataclass(frozen=True, slots=True)
class EpisodeOutput:
    """What the network says of one episode: all that the losses need."""

    scales: tuple[ScaleOutput, ...]
    """Branches of every scale, for (queries, keypoints); for (1, P) where only P pairs of them were wanted."""
    exponents: Tensor | None
    """(K + Q, T) learnt exponents of support and query images, for the regulariser."""
    query_features: Tensor
    """(Q, D, H, W), for the alignment of features."""
    presence: Tensor | None = field(default=None, kw_only=True)
    """Logits that a keypoint is there to be seen, for the pairs of ``scales``, where the model has such a branch."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What pictures are searched for: N keypoints, as K examples teach them."""

    prototypes: Tensor
    """(N, D) the mean c of the examples."""
    shots: Tensor
    """(N,) how many examples have each keypoint."""
    weights: Weights | None
    """Of the dynamic head: the mean of those that each example makes."""
    filters: Tensor | None = field(default=None, kw_only=True)
    """(N, D), where ``head.filter_gain`` asks for them."""
