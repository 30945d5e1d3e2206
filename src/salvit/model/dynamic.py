"""A head whose weights are made from the prototype (ours, not the paper's): the same scales, losses and decoding.

The other heads look at every picture once for every keypoint. Here a picture is looked at once; for each keypoint a
linear layer, whose weights a small network makes from the prototype, reads all scales from it. A pair of picture and
keypoint then costs next to nothing, so a training step can relate every picture of its episode to every other
(``train.all_ways``). ``head.kind = "dynamic"`` chooses it.

Letters: Q query images · N keypoints · D channels of features · m channels of the map · H, W cells · S cells of a side
· C = Σ S² cells of all scales · V = d_v.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.model.locator import Located, ScaleOutput, decode


class DynamicDescriptor(nn.Module):
    """𝓜 and 𝓓 at once: the picture's map, resampled to each scale, times weights made from the prototype."""

    def __init__(
        self, channels_in: int, grid_hw: tuple[int, int], channels: int, scales: tuple[int, ...], latent: int
    ) -> None:
        super().__init__()
        self.sizes, self.outputs = scales, 3 + 2 * latent
        self.position = nn.Parameter(torch.zeros(channels, *grid_hw))
        self.project = nn.Conv2d(channels_in, channels, kernel_size=1)
        self.mix = nn.Conv2d(channels, channels, kernel_size=3, padding=1)
        reads = len(scales) * self.outputs * channels + 2 * channels
        self.generate = nn.Sequential(nn.Linear(channels_in, 2 * channels), nn.ReLU(), nn.Linear(2 * channels, reads))
        self.bias = nn.Parameter(torch.zeros(len(scales), self.outputs))
        self.channels = channels

    def forward(self, features: Tensor, prototypes: Tensor, wanted: Tensor | None = None) -> Tensor:
        """Features (Q, D, H, W) and prototypes (N, D) to cells (Q, N, C + 1, 3 + 2V), or (1, P, …) of wanted pairs.

        The last cell's first number is the logit of presence.
        """
        maps = F.relu(self.project(features) + self.position)
        maps = maps + F.relu(self.mix(maps))  # (Q, m, H, W)
        made = self.generate(prototypes) / self.channels**0.5
        reads, seen = made.split([made.shape[1] - 2 * self.channels, 2 * self.channels], dim=1)
        weights = reads.unflatten(1, (len(self.sizes), self.outputs, self.channels))  # (N, scales, 3 + 2V, m)
        cells = []
        for number, size in enumerate(self.sizes):
            places = F.interpolate(maps, size=(size, size), mode="bilinear", antialias=True).flatten(2)  # (Q, m, S²)
            read = torch.einsum("qmc,nbm->qncb", places, weights[:, number])
            cells.append(read + self.bias[number])
        pooled = torch.cat([maps.mean((-2, -1)), maps.amax((-2, -1))], dim=-1)  # (Q, 2m)
        presence = F.pad((pooled @ seen.T)[..., None, None], (0, self.outputs - 1))  # (Q, N, 1, 3 + 2V)
        described = torch.cat([*cells, presence], dim=2)
        return described if wanted is None else described[wanted][None]


class DynamicLocator(nn.Module):
    """𝓖 on such cells: nothing is left but to take them apart."""

    def __init__(self, scales: tuple[int, ...], latent: int, *, has_presence: bool = False) -> None:
        super().__init__()
        self.sizes, self.latent, self.has_presence = scales, latent, has_presence

    def forward(self, described: Tensor) -> tuple[ScaleOutput, ...]:
        """Cells (Q, N, C + 1, 3 + 2V) to the branches of every scale."""
        parts = described[..., :-1, :].split([size * size for size in self.sizes], dim=-2)
        outputs = []
        for part in parts:
            logits, offsets, latents = part.split([1, 2, 2 * self.latent], dim=-1)
            outputs.append(ScaleOutput(logits[..., 0], torch.tanh(offsets), latents.unflatten(-1, (2, self.latent))))
        return tuple(outputs)

    def presence(self, described: Tensor) -> Tensor | None:
        """The logit that the keypoint is there to be seen (Q, N); None: it was not asked for."""
        return described[..., -1, 0] if self.has_presence else None

    def locate(self, described: Tensor, input_size: int) -> Located:
        """:func:`decode` of :meth:`forward`."""
        return decode(self(described), input_size)
