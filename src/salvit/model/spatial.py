"""A head that keeps the map spatial (ours, not the paper's): the same modulator, scales, losses and decoding.

The paper's descriptor net flattens the attended map to one vector, from which linear layers must learn every place of
every scale anew. Here the map stays a map: a small hourglass of convolutions looks at it as a whole, and each scale
reads its cells from it, so that what is learnt at one place helps at others. ``head.kind = "spatial"`` chooses it.

Letters: Q query images · N keypoints · D channels of features · m channels of a map · H, W cells · S cells of a side.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.model.locator import Located, ScaleOutput, decode
from salvit.model.modulation import attended_maps
from salvit.model.resampling import at_cells


class SpatialDescriptor(nn.Module):
    """𝓓 as an hourglass: a 1×1 convolution, two halvings and back, joined with what it saw on the way down.

    At its narrowest the whole map passes two linear layers at once, as the paper's descriptor does: where the object's
    other parts are says much about where this one is. ``position`` tells each cell where it is.
    """

    def __init__(self, channels_in: int, grid_hw: tuple[int, int], channels: int) -> None:
        super().__init__()
        wide = channels * 3 // 2
        small_hw = tuple((side + 3) // 4 for side in grid_hw)
        flat = wide * small_hw[0] * small_hw[1]
        self.channels = channels
        self.project = nn.Conv2d(channels_in, channels, kernel_size=1)
        self.to_half = _conv(channels, wide, stride=2)
        self.to_quarter = _conv(wide, wide, stride=2)
        self.position = nn.Parameter(torch.zeros(channels, *grid_hw))
        self.at_quarter = _conv(wide, wide)
        self.at_once = nn.Sequential(
            nn.Flatten(), nn.Linear(flat, 4 * channels), nn.ReLU(), nn.Linear(4 * channels, flat)
        )
        self.at_half = _conv(wide, wide)
        self.narrow = nn.Conv2d(wide, channels, kernel_size=1)
        self.at_full = nn.Conv2d(channels, channels, kernel_size=1)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                assert layer.bias is not None
                nn.init.zeros_(layer.bias)

    def forward(self, features: Tensor, prototypes: Tensor, wanted: Tensor | None = None) -> Tensor:
        """Features (Q, D, H, W) and prototypes (N, D) to maps (Q, N, m, H, W), or (1, P, m, H, W) of wanted pairs."""
        maps = attended_maps(self.project, features, prototypes, wanted)
        full = maps.flatten(0, 1) + self.position  # (Q·N, m, H, W)
        half = F.relu_(self.to_half(full))
        quarter = F.relu_(self.to_quarter(half))
        quarter = quarter + F.relu_(self.at_quarter(quarter)) + self.at_once(quarter).view_as(quarter)
        half = F.relu_(self.at_half(half + _raise(quarter, half)))
        full = F.relu_(self.at_full(full + _raise(self.narrow(half), full)))
        found: Tensor = full.unflatten(0, maps.shape[:2])
        return found


class SpatialLocator(nn.Module):
    """𝓖 on maps: a 1×1 convolution gives the three branches of every scale, which are then resampled to S × S cells.

    The convolution is linear, so this is the same as resampling the map first, and much cheaper.
    """

    def __init__(self, channels: int, scales: tuple[int, ...], latent: int, *, has_presence: bool = False) -> None:
        super().__init__()
        self.latent, self.sizes = latent, scales
        self.to_presence = nn.Linear(2 * channels, 1) if has_presence else None
        self.branches = nn.Conv2d(channels, len(scales) * (3 + 2 * latent), kernel_size=1)

    def forward(self, maps: Tensor) -> tuple[ScaleOutput, ...]:
        """Maps (Q, N, m, H, W) to the branches of every scale."""
        outputs = []
        parts = self.branches(maps.flatten(0, 1)).chunk(len(self.sizes), dim=1)  # (Q·N, 3 + 2V, H, W) each
        for size, part in zip(self.sizes, parts, strict=True):
            joint = at_cells(part, size).transpose(1, 2).unflatten(0, maps.shape[:2])  # (Q, N, S², 3 + 2V)
            logits, offsets, latents = joint.split([1, 2, 2 * self.latent], dim=-1)
            outputs.append(ScaleOutput(logits[..., 0], torch.tanh(offsets), latents.unflatten(-1, (2, self.latent))))
        return tuple(outputs)

    def presence(self, maps: Tensor) -> Tensor | None:
        """Maps (Q, N, m, H, W) to a logit that the keypoint is there to be seen (Q, N); None: no such branch.

        It looks at the mean and the greatest value of each channel.
        """
        if self.to_presence is None:
            return None
        pooled = torch.cat([maps.mean((-2, -1)), maps.amax((-2, -1))], dim=-1)  # (Q, N, 2m)
        logits: Tensor = self.to_presence(pooled)[..., 0]
        return logits

    def locate(self, maps: Tensor, input_size: int) -> Located:
        """:func:`decode` of :meth:`forward`."""
        return decode(self(maps), input_size)


def _conv(channels_in: int, channels_out: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels_out, kernel_size=3, stride=stride, padding=1)


def _raise(coarse: Tensor, like: Tensor) -> Tensor:
    return F.interpolate(coarse, size=like.shape[-2:], mode="bilinear", align_corners=False)
