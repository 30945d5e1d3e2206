"""The provider ``learned``: a small decoder on the frozen features of ``lite0``, trained without saliency labels.

It is the saliency module inside the network that the paper wishes for in its outlook: where ``lite0`` is the backbone
anyway, the map costs only the decoder.

Letters: B images · C channels · H, W cells · D decoder width · G cells of the map.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from salvit.backbones import Backbone, Tokens, build_backbone
from salvit.backbones.files import hash_weights
from salvit.geometry import fit_square, whole_window
from salvit.saliency.preprocess import BLUR, preprocess_map
from salvit.saliency.provider import Map, Picture, check_picture, fit_picture, unfit_map

LEVEL_CHANNELS = (112, 320)
"""Channels of lite0's tokens at strides 16 and 32."""
UPSCALE = 4
"""Cells of the map per cell of the finest tokens, along each side."""
CELL = 16 // UPSCALE
"""Pixels along a side of the map's cell."""


class SaliencyDecoder(nn.Module):
    """Tokens at strides 16 and 32 to a saliency logit for every 4 × 4 pixels.

    The coarse tokens and their mean over the picture say what is the object; the finer ones say where it ends.
    """

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        fine, coarse = LEVEL_CHANNELS
        self.norm_fine, self.norm_coarse = nn.BatchNorm2d(fine, affine=False), nn.BatchNorm2d(coarse, affine=False)
        self.fine, self.coarse = nn.Conv2d(fine, width, 1), nn.Conv2d(coarse, width, 1)
        self.context = nn.Conv2d(coarse, width, 1)
        self.mix = nn.Conv2d(width, width, 3, padding=1)
        self.out = nn.Conv2d(width, UPSCALE**2, 3, padding=1)

    def forward(self, levels: Sequence[Tensor]) -> Tensor:
        """Tokens (B, 112, H, W) and (B, 320, H/2, W/2) to logits (B, 4H, 4W)."""
        fine, coarse = self.norm_fine(levels[0]), self.norm_coarse(levels[1])
        context = self.context(coarse.mean((2, 3), keepdim=True))  # (B, D, 1, 1)
        mixed = F.interpolate(self.coarse(coarse) + context, size=fine.shape[-2:], mode="bilinear", align_corners=False)
        mixed = F.relu(mixed + self.fine(fine))  # (B, D, H, W)
        mixed = mixed + F.relu(self.mix(mixed))
        return F.pixel_shuffle(self.out(mixed), UPSCALE).squeeze(1)  # (B, 4H, 4W)

    def from_tokens(self, tokens: Tokens) -> Tensor:
        """Saliency in [0, 1] from a pass that the backbone ``lite0`` made anyway: (B, 4H, 4W)."""
        return self.forward(tokens.levels).sigmoid()


def load_decoder(path: Path | None = None) -> SaliencyDecoder:
    """The trained decoder, frozen: the one that salvit brings, or that of a file."""
    from safetensors.torch import load_file

    if path is None:
        with as_file(files("salvit") / "weights" / "saliency-learned.safetensors") as own:
            weights = load_file(own)
    else:
        weights = load_file(path)
    decoder = SaliencyDecoder(width=weights["fine.weight"].shape[0])
    try:
        decoder.load_state_dict({name: value.to(decoder.state_dict()[name].dtype) for name, value in weights.items()})
    except (KeyError, RuntimeError) as problem:
        raise ValueError(f"{path}: not a decoder of `salvit saliency train` ({problem})") from problem
    return decoder.requires_grad_(False).eval()


@cache
def own_decoder(device: torch.device) -> SaliencyDecoder:
    """The decoder that salvit brings, on a device; loaded once."""
    return load_decoder().to(device)


def saliency_of_pass(tokens: Tokens, inside: Tensor) -> Tensor:
    """Spread and blurred saliency from a pass of ``lite0``: ``inside`` (B, 4H, 4W), False in padding -> (B, 4H, 4W).

    The same as the provider's map, spread by the distance transform and blurred, but at the decoder's cells in place of
    pixels, which costs a sixteenth.
    """
    saliency = own_decoder(inside.device).from_tokens(tokens).cpu().numpy()
    spread = np.zeros_like(saliency)
    for row, (map_, within) in enumerate(zip(saliency, inside.cpu().numpy(), strict=True)):
        rows, columns = np.flatnonzero(within.any(1)), np.flatnonzero(within.any(0))
        if len(rows):
            part = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
            spread[row][part] = preprocess_map(map_[part], blur=BLUR / CELL)
    return torch.from_numpy(spread).to(inside.device)


class LearnedSaliency:
    """The provider ``learned``."""

    name = "learned"

    def __init__(self, backbone: Backbone | None = None, decoder: SaliencyDecoder | None = None) -> None:
        self.backbone = build_backbone("lite0") if backbone is None else backbone
        self.decoder = load_decoder() if decoder is None else decoder

    @property
    def settings(self) -> str:
        """Input size and the decoder's weights."""
        return f"size={self.backbone.default_size} decoder={hash_weights(self.decoder)}"

    @torch.inference_mode()
    def __call__(self, picture: Picture, source: Path | None = None) -> Map:
        """The map of one picture."""
        hw = check_picture(picture).shape[:2]
        fit = fit_square(whole_window(hw), self.backbone.default_size)
        square = torch.from_numpy(fit_picture(picture, fit)).permute(2, 0, 1)[None] / 255.0
        saliency = self.decoder.from_tokens(self.backbone(square))[0]
        return unfit_map(saliency.numpy(), fit, hw)
