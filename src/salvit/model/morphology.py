"""The morphology learner: shapes the saliency map before it masks attention (paper Sec. 3.2.3).

Letters: B images · P = H·W patches · D channels of a token. Symbols: θ what the generator says · θ̃ the exponent ·
ρ1 its bound · ρ2, ρ3 centre and free interval of the regulariser · M↓ saliency of the patches · F_sal its embedding.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.model.settings import MorphologySettings
from salvit.model.winograd import Conv3x3

CLAMP = (0.02, 0.98)
"""Saliency is kept inside these before it is raised to a power: 0 to a small power has no finite gradient."""
_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)


def bounded_exponent(theta: Tensor, bound: float = 2.0) -> Tensor:
    """θ̃ = ρ1 · sigmoid(θ) (paper Eq. 8). Shapes: any."""
    return bound * torch.sigmoid(theta)


def power_normalise(saliency: Tensor, exponent: Tensor | float) -> Tensor:
    """M = (M↓)^θ̃ (paper Eq. 8).

    Choice: M↓ is kept in 0.02 to 0.98 first, as in the authors' code; that belongs here, attention needs no clamp.
    Shapes: saliency (B, P), exponent (B, 1) or one number -> (B, P).
    """
    return saliency.clamp(*CLAMP) ** exponent


def exponent_regulariser(exponents: Tensor, centre: float = 0.7, interval: float = 0.05) -> Tensor:
    """L_reg = E[max((θ̃ − ρ2)² − ρ3, 0)] (paper Sec. 3.2.3): mean over images and blocks.

    Shapes: exponents (B, T) -> ().
    """
    return ((exponents - centre).square() - interval).clamp_min(0).mean()


class SaliencyEmbedding(nn.Module):
    """SEM: saliency and image to an embedding of each patch, shared by all blocks (paper Sec. 3.2.3, supplement).

    A convolution whose kernel and stride are the patch, three 3×3, one 1×1; a ReLU after each but the last. Choice: the
    patch is the stride of the raw tokens, so that both have one grid; channels are saliency, then RGB normalised as for
    ImageNet.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, patch: int, width: int, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(4, width, kernel_size=patch, stride=patch),
            nn.ReLU(inplace=True),
            Conv3x3(width, width),
            nn.ReLU(inplace=True),
            Conv3x3(width, width),
            nn.ReLU(inplace=True),
            Conv3x3(width, width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, channels, kernel_size=1),
        )
        for layer in self.layers:
            if isinstance(layer, nn.Conv2d) and layer.bias is not None:
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)
        self.register_buffer("mean", torch.tensor(_MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(_STD).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor, saliency: Tensor) -> Tensor:
        """RGB in [0, 1] (B, 3, S, S) and saliency (B, S, S) to the mean embedding of all patches, GAP(F_sal): (B, d_e).

        Only the mean over patches is ever used (paper Eq. 7), and a mean passes through a 1×1 convolution: the last
        layer is applied after it.
        """
        pooled = self.layers[1:-1](self._embed_patches(images, saliency)).mean(
            (-2, -1), keepdim=True
        )  # (B, width, 1, 1)
        return self.layers[-1](pooled).flatten(1)  # type: ignore[no-any-return]

    def _embed_patches(self, images: Tensor, saliency: Tensor) -> Tensor:
        """The first layer on saliency and normalised RGB: (B, width, H, W).

        Kernel and stride are equal, so it is a matrix product of patches. Colours are normalised in the weights instead
        of the pixels, and the four channels are never stacked: both would copy the whole batch.
        """
        first = self.layers[0]
        assert isinstance(first, nn.Conv2d) and first.bias is not None
        of_saliency, of_colours = first.weight[:, :1], first.weight[:, 1:] / self.std
        bias = first.bias - (of_colours * self.mean).sum((1, 2, 3))
        patch = first.kernel_size[0]
        embedded = torch.addmm(bias, _patches(images, patch), of_colours.flatten(1).T)  # (B·P, width)
        embedded = torch.addmm(embedded, _patches(saliency[:, None], patch), of_saliency.flatten(1).T)
        rows, columns = (side // patch for side in saliency.shape[-2:])
        maps: Tensor = embedded.view(len(images), rows, columns, -1).permute(0, 3, 1, 2)
        return maps


def _patches(images: Tensor, side: int) -> Tensor:
    """The pixels of each patch as a row: (B, C, H·side, W·side) -> (B·H·W, C·side²)."""
    split = images.unflatten(3, (-1, side)).unflatten(2, (-1, side))  # (B, C, H, side, W, side)
    rows: Tensor = split.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(0, 2)
    return rows


class ParameterGenerator(nn.Module):
    """MPG: θ = W2 GELU(W1 F + b1) + b2 with F = GAP([F_sal, P]) (paper Eq. 7).

    Choice: as in the authors' code, tokens pass a linear layer first; it acts on their mean, which is the same.
    """

    def __init__(self, channels: int, embedding_channels: int, hidden: int) -> None:
        super().__init__()
        self.project = nn.Linear(channels, channels)
        self.first = nn.Linear(channels + embedding_channels, hidden)
        self.second = nn.Linear(hidden, 1)
        for layer in (self.project, self.first, self.second):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, embedding: Tensor, tokens: Tensor) -> Tensor:
        """Pooled embedding (B, d_e) and tokens (B, P, D) to θ (B, 1)."""
        pooled = torch.cat([embedding, self.project(tokens.mean(1))], dim=1)  # (B, d_e + D)
        return self.second(F.gelu(self.first(pooled)))  # type: ignore[no-any-return]


class MorphologyLearner(nn.Module):
    """Shapes the saliency of one block's patches: learnt, by a fixed exponent, or not at all."""

    def __init__(self, channels: int, settings: MorphologySettings) -> None:
        super().__init__()
        self.settings = settings
        self.generator: ParameterGenerator | None = None
        if settings.mode == "learned":
            self.generator = ParameterGenerator(channels, settings.embedding_channels, settings.hidden)

    def forward(self, saliency: Tensor, embedding: Tensor | None, tokens: Tensor) -> tuple[Tensor, Tensor | None]:
        """M↓ (B, P), GAP(F_sal) (B, d_e), tokens (B, P, D) -> M (B, P) and θ̃ (B, 1), None where it is not learnt."""
        if self.settings.mode == "off":
            return saliency, None
        if self.generator is None or embedding is None:
            return power_normalise(saliency, self.settings.exponent), None
        exponent = bounded_exponent(self.generator(embedding, tokens), self.settings.bound)
        return power_normalise(saliency, exponent), exponent
