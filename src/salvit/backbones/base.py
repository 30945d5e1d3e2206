"""What every backbone gives: raw tokens on a grid.

Letters: B images · C channels · H, W cells of the grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Tokens:
    """Features of a batch of images, at one or more strides."""

    levels: tuple[Tensor, ...]
    """Each (B, C, H, W); the finest grid first."""
    attentiveness: Tensor | None = None
    """(B, H, W): how much the class token attends to each patch in one chosen block, where that was asked for."""

    def joined(self, *, normalise: bool = False) -> Tensor:
        """All levels on the finest grid, channels one after another: (B, ΣC, H, W).

        With ``normalise`` each level's vectors are made unit length first, so that none outweighs another.
        """
        grid_hw = self.levels[0].shape[-2:]
        levels = [F.normalize(level, dim=1) if normalise else level for level in self.levels]
        raised = [
            level
            if level.shape[-2:] == grid_hw
            else F.interpolate(level, size=grid_hw, mode="bilinear", align_corners=False)
            for level in levels
        ]
        return torch.cat(raised, dim=1) if len(raised) > 1 else raised[0]

    def scaled(self) -> Tensor:
        """:meth:`joined` with ``normalise``, then scaled to a root mean square of 1: (B, ΣC, H, W)."""
        joined = self.joined(normalise=True)
        scale: float = (joined.shape[1] / len(self.levels)) ** 0.5
        return joined * scale


class Backbone(nn.Module):
    """A network that turns RGB images in [0, 1] into :class:`Tokens`; it normalises colours itself."""

    name: str
    stride: int
    """Input pixels per cell of the finest grid."""
    size_multiple: int
    """The input side must be a multiple of this."""
    channels: int
    """Channels of ``joined()``."""
    default_size: int
    """The input side that it is used at where nothing else is asked for."""

    def check_size(self, images: Tensor) -> None:
        """Refuse an input whose sides do not fit the grid."""
        height, width = images.shape[-2:]
        if height % self.size_multiple or width % self.size_multiple:
            raise ValueError(
                f"{self.name} takes images whose sides are multiples of {self.size_multiple} pixels, "
                f"got {height}×{width}"
            )

    def key_of_file(self, key: str) -> str | None:
        """The parameter that a key of a published weight file belongs to; None for parts that are not used."""
        return key

    def tensors_of_file(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of a published file, those that this network keeps apart split; keys are still the file's."""
        return dict(weights)

    def trainable_parts(self) -> list[nn.Module]:
        """The parts that training may change; others stay frozen. Tokens of a wholly frozen one can be cached.

        One that has such parts has a :meth:`begin` and a :meth:`finish` of its own: what stands between can be cached.
        """
        return []

    @property
    def glance_channels(self) -> int:
        """Channels of what :meth:`glance` gives: the first of those that a whole pass gives."""
        return self.channels

    def glance(self, images: Tensor) -> Tokens:
        """Tokens of a first look, for a finder: a whole pass, or a part of it that costs less."""
        tokens: Tokens = self(images)
        return tokens

    def begin(self, images: Tensor) -> Tensor:
        """Images as in ``forward`` to what the trainable parts start from; without such parts the images themselves."""
        return images

    def finish(self, begun: Tensor) -> Tokens:
        """What :meth:`begin` made of square images to tokens."""
        tokens: Tokens = self(begun)
        return tokens
