"""``protonet``: the cell whose feature is nearest to the prototype (Snell et al. 2017; paper supplement)."""

from __future__ import annotations

import torch
from torch import Tensor

from salvit.baselines.method import Method, scale_of_map
from salvit.model.locator import ScaleOutput


class ProtoNet(Method):
    """No parameters beside the features'."""

    def compare(self, prototypes: Tensor, features: Tensor, wanted: Tensor | None = None) -> tuple[ScaleOutput, ...]:
        """Scores are negative squared distances."""
        return scale_of_map(negative_distances(prototypes, features), wanted)


def negative_distances(prototypes: Tensor, features: Tensor) -> Tensor:
    """−‖c_n − F(p)‖² / √D. Choice: √D keeps the softmax of wide features from being a hard choice.

    Shapes: prototypes c (N, D), features F (Q, D, H, W) -> (Q, N, H, W).
    """
    products = torch.einsum("nd,qdhw->qnhw", prototypes, features)
    squares = prototypes.square().sum(1)[:, None, None] + features.square().sum(1)[:, None]  # (Q, N, H, W)
    scores: Tensor = (2 * products - squares) / prototypes.shape[1] ** 0.5
    return scores
