"""Muon: steps of AdamW, but orthogonal ones for weight matrices (ours, not the paper's).

After K. Jordan, "Muon: an optimizer for hidden layers in neural networks" (2024); steps have the size that AdamW's
have, after Liu et al., "Muon is scalable for LLM training" (2025). torch has one too, which computes in bfloat16, an
illegal instruction on some CPUs that advertise it, and takes matrices alone.

Letters: A, B sides of a matrix · μ momentum · η learning rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
SMALLEST_SIDE = 32
"""A weight is a matrix for :func:`is_matrix` from this side on; less is a handful of vectors."""
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
_STEP = 0.2
"""Root mean square of AdamW's steps over the learning rate, as measured by Liu et al."""


def is_matrix(name: str, weight: nn.Parameter) -> bool:
    """Whether a weight maps many numbers to many: linear layers and convolutions, not norms or position encodings."""
    return "position" not in name and weight.ndim >= 2 and min(weight.flatten(1).shape) >= SMALLEST_SIDE


def orthogonalised(matrix: Tensor) -> Tensor:
    """About the nearest matrix with orthonormal rows or columns: (A, B) -> (A, B).

    Five Newton-Schulz iterations X ← (a + b X Xᵀ + c (X Xᵀ)²) X bring singular values to between 0.7 and 1.2, but for
    those that are next to nothing. Each factor is a polynomial of the one before's square, so all of them are made from
    X Xᵀ of the smaller side, and X is multiplied once in the end.
    """
    is_tall = matrix.shape[0] > matrix.shape[1]
    start = (matrix.T if is_tall else matrix) / (matrix.norm() + 1e-7)
    square = start @ start.T
    one = torch.eye(len(square), dtype=square.dtype, device=square.device)
    whole, (a, b, c) = one, _COEFFICIENTS
    for _ in range(_ITERATIONS):
        factor = a * one + b * square + c * square @ square
        whole, square = factor @ whole, factor @ square @ factor
    found: Tensor = whole @ start
    return found.T if is_tall else found


class Muon(torch.optim.AdamW):
    """AdamW, and for groups with ``is_matrix`` the steps η · 0.2 √max(A, B) · orthogonalised (Nesterov momentum)."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; gradients of matrices are used up by it."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"] if group.get("is_matrix") else ():
                if weight.grad is not None:
                    self._turn(weight, group)
                    weight.grad = None  # so that AdamW leaves it alone
        super().step()
        return loss

    def _turn(self, weight: nn.Parameter, group: dict[str, Any]) -> None:
        """The orthogonal step of one matrix; a convolution is the matrix (channels out, all else)."""
        assert weight.grad is not None
        state = self.state[weight]
        if not state:
            state["step"], state["exp_avg"] = torch.zeros(()), torch.zeros_like(weight)
        state["step"] += 1
        average = state["exp_avg"].lerp_(weight.grad, 1 - MOMENTUM)
        turned = orthogonalised(weight.grad.lerp(average, MOMENTUM).flatten(1))
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        weight.add_(turned.view_as(weight), alpha=-group["lr"] * _STEP * math.sqrt(max(turned.shape)))
