"""Linear layers by oneDNN, for inference on a CPU.

PyTorch multiplies single-precision matrices with MKL, which on AMD's processors takes kernels of half the width that
these have; oneDNN, which PyTorch carries for its convolutions, takes the full one: 2.2 times as fast for the layers of
a ViT-S on an AMD EPYC with AVX-512 (one thread and two, 1 and 8 pictures).

Letters: D channels in · E channels out.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_has_product = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
"""The operator is PyTorch's own, made for compiled graphs and not documented: another version may be without it."""


class OneDnnLinear(nn.Linear):
    """A linear layer, (..., D) to (..., E), by oneDNN where nothing is differentiated on a CPU in single precision."""

    def forward(self, values: Tensor) -> Tensor:
        """The same as :class:`torch.nn.Linear`, but for rounding."""
        is_plain = values.device.type == "cpu" and values.dtype == self.weight.dtype == torch.float32
        if torch.is_grad_enabled() or not _has_product or not is_plain or torch.is_autocast_enabled("cpu"):
            return F.linear(values, self.weight, self.bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(values, self.weight, self.bias, "none", [], "")
        return product


def multiply_by_onednn(network: nn.Module) -> None:
    """Turn every linear layer of a network into a :class:`OneDnnLinear`; weights and their names stay."""
    for parent in list(network.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is nn.Linear:
                turned = OneDnnLinear(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
                turned.weight, turned.bias = layer.weight, layer.bias
                turned.train(layer.training)
                setattr(parent, name, turned)
