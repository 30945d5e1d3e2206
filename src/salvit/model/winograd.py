"""3×3 convolutions with fewer multiplications, for inference (Winograd's minimal filtering, F(2×2, 3×3)).

A tile of 4×4 inputs gives 2×2 outputs with 16 products in place of 36: Y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A, where the
products of all channels and tiles are 16 matrix products. PyTorch has no such kernel for processors without AVX-512.

Letters: B images · C channels in · O channels out · H, W sides · T tiles of all images.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEAST_CHANNELS = 128
"""With fewer channels the transforms cost more than the products save."""
_INPUT = torch.tensor([[1.0, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])  # Bᵀ
_KERNEL = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])  # G
_OUTPUT = torch.tensor([[1.0, 1, 1, 0], [0, 1, -1, -1]])  # Aᵀ


def transform_kernels(weight: Tensor) -> Tensor:
    """G g Gᵀ of every kernel: (O, C, 3, 3) -> (16, C, O)."""
    kernel = _KERNEL.to(weight)
    return torch.einsum("ij,ocjk,lk->ilco", kernel, weight, kernel).flatten(0, 1).contiguous()


def convolve_tiles(images: Tensor, kernels: Tensor) -> Tensor:
    """A 3×3 convolution with padding 1, without bias: images (B, C, H, W) with even sides -> (B, O, H, W)."""
    batch, channels, height, width = images.shape
    down, across = height // 2, width // 2
    padded = F.pad(images.permute(0, 2, 3, 1), (0, 0, 1, 1, 1, 1))  # (B, H + 2, W + 2, C)
    tiles = padded.unfold(1, 4, 2).unfold(2, 4, 2)  # (B, H/2, W/2, C, 4, 4)
    flat = tiles.permute(4, 5, 0, 1, 2, 3).reshape(16, -1)
    into, out_of = _INPUT.to(images), _OUTPUT.to(images)
    spread = (torch.kron(into, into) @ flat).view(16, -1, channels)  # (16, T, C)
    products = torch.bmm(spread, kernels)  # (16, T, O)
    cells = torch.kron(out_of, out_of) @ products.flatten(1)  # (4, T·O)
    maps: Tensor = cells.view(2, 2, batch, down, across, -1).permute(2, 3, 0, 4, 1, 5)  # (B, H/2, 2, W/2, 2, O)
    return maps.reshape(batch, height, width, -1).permute(0, 3, 1, 2)


class Conv3x3(nn.Conv2d):
    """A 3×3 convolution with padding 1; in inference by tiles, where that is faster."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__(channels_in, channels_out, kernel_size=3, padding=1)
        self._transformed: tuple[tuple[int, int], Tensor] | None = None

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, O, H, W)."""
        is_small = min(self.in_channels, self.out_channels) < LEAST_CHANNELS
        is_odd = images.shape[-2] % 2 or images.shape[-1] % 2
        if torch.is_grad_enabled() or is_small or is_odd or images.device.type != "cpu":
            return super().forward(images)
        assert self.bias is not None
        return convolve_tiles(images, self._kernels()).add_(self.bias[:, None, None])

    def _kernels(self) -> Tensor:
        """The transformed kernels, made again only when the weights have changed."""
        stamp = self.weight.data_ptr(), self.weight._version
        if self._transformed is None or self._transformed[0] != stamp:
            self._transformed = stamp, transform_kernels(self.weight.detach())
        return self._transformed[1]
