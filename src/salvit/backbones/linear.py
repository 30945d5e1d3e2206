"""Linear layers and 1×1 convolutions by oneDNN, on a CPU.

PyTorch multiplies single-precision matrices with MKL, which on AMD's processors takes kernels of half the width that
these have; oneDNN, which PyTorch carries for its convolutions, takes the full one: 2.2 times as fast for the layers of
a ViT-S on an AMD EPYC with AVX-512 (one thread and two, 1 and 8 pictures). A 1×1 convolution of fewer than 16 pictures
goes to MKL too where PyTorch has one thread, forwards and backwards.

Letters: D channels in · E channels out.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

_has_product = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
"""The operator is PyTorch's own, made for compiled graphs and not documented: another version may be without it."""


class OneDnnLinear(nn.Linear):
    """A linear layer, (..., D) to (..., E), by oneDNN on a CPU in single precision."""

    def forward(self, values: Tensor) -> Tensor:
        """The same as :class:`torch.nn.Linear`, but for rounding."""
        is_plain = values.device.type == "cpu" and values.dtype == self.weight.dtype == torch.float32
        if not _has_product or not is_plain or torch.is_autocast_enabled("cpu"):
            return F.linear(values, self.weight, self.bias)
        if not torch.is_grad_enabled():
            return _product(values, self.weight, self.bias)
        result: Tensor = _Product.apply(values, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return result


class _Product(torch.autograd.Function):
    """A linear layer whose backward pass is two products of the same kind."""

    @staticmethod
    def forward(ctx: FunctionCtx, values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(values, weight)
        return _product(values, weight, bias)

    @staticmethod
    def backward(ctx: FunctionCtx, slope: Tensor) -> tuple[Tensor | None, ...]:
        values, weight = ctx.saved_tensors  # type: ignore[attr-defined]
        of_values, of_weight, of_bias = ctx.needs_input_grad  # type: ignore[attr-defined]
        rows, seen = slope.reshape(-1, slope.shape[-1]), values.reshape(-1, values.shape[-1])  # (R, E), (R, D)
        return (
            _product(slope, weight.T.contiguous(), None) if of_values else None,
            _product(rows.T.contiguous(), seen.T.contiguous(), None) if of_weight else None,
            rows.sum(0) if of_bias else None,
        )


def _product(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Linear layer: values (..., D), weight (E, D), bias (E,) -> (..., E)."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(values, weight, bias, "none", [], "")
    return product


def linear(values: Tensor, weight: Tensor) -> Tensor:
    """A linear layer with weights that were just made, by oneDNN on a CPU: (..., D), (E, D) -> (..., E)."""
    needs_slope = torch.is_grad_enabled() and (values.requires_grad or weight.requires_grad)
    is_plain = values.device.type == "cpu" and values.dtype == weight.dtype == torch.float32 and not needs_slope
    return _product(values.contiguous(), weight, None) if _has_product and is_plain else F.linear(values, weight)


def pointwise(values: Tensor, weight: Tensor) -> Tensor:
    """The same on maps: (B, D, H, W), (E, D) -> (B, E, H, W)."""
    return _pointwise(values, weight[:, :, None, None], None)


def outer_sum(columns: Tensor) -> Tensor:
    """Σ_r c_r c_rᵀ over the columns of a matrix, by oneDNN on a CPU: (D, R) -> (D, D)."""
    return linear(columns, columns)


def _pointwise(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A 1×1 convolution: PyTorch gives every convolution with gaps between its kernel's cells to oneDNN, on a CPU."""
    return F.conv2d(values, weight, bias, dilation=2 if values.device.type == "cpu" else 1)


class OneDnnPointwise(nn.Conv2d):
    """A 1×1 convolution, (B, D, H, W) to (B, E, H, W), by oneDNN on a CPU.

    PyTorch gives every convolution with gaps between its kernel's cells to oneDNN; a kernel of one cell has none, so
    the number of them changes nothing else.
    """

    def forward(self, values: Tensor) -> Tensor:
        """The same as :class:`torch.nn.Conv2d`, but for rounding."""
        return self.with_weights(values, self.weight, self.bias)

    def with_weights(self, values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The same with other weights (E, D, 1, 1) and another bias (E,)."""
        return _pointwise(values, weight, bias)


def multiply_by_onednn(network: nn.Module) -> None:
    """Turn a network's linear layers and 1×1 convolutions into those above; weights and their names stay."""
    for parent in list(network.modules()):
        for name, layer in list(parent.named_children()):
            turned: nn.Linear | nn.Conv2d
            has_bias = getattr(layer, "bias", None) is not None
            if type(layer) is nn.Linear:
                turned = OneDnnLinear(layer.in_features, layer.out_features, has_bias, device="meta")
            elif isinstance(layer, nn.Conv2d) and _is_pointwise(layer):
                turned = OneDnnPointwise(layer.in_channels, layer.out_channels, 1, bias=has_bias, device="meta")
            else:
                continue
            turned.weight, turned.bias = layer.weight, layer.bias
            turned.train(layer.training)
            setattr(parent, name, turned)


def _is_pointwise(layer: nn.Conv2d) -> bool:
    return layer.kernel_size == layer.stride == (1, 1) and layer.groups == 1 and layer.padding in ((0, 0), 0)
