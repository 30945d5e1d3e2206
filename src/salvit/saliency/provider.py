"""What every source of saliency gives, and the small steps that they share.

A provider takes an RGB picture, uint8 (H, W, 3), and gives a float32 map (H, W) in [0, 1]: 1 where the object is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from salvit.geometry import MEAN_COLOUR, Fit

Picture = npt.NDArray[np.uint8]
Map = npt.NDArray[np.float32]

"""The ImageNet mean: what padding is filled with everywhere in salvit."""


class Provider(Protocol):
    """A source of saliency maps."""

    name: str

    @property
    def settings(self) -> str:
        """Everything that changes the maps, as text: a part of the cache's key."""
        ...

    def __call__(self, picture: Picture, source: Path | None = None) -> Map:
        """The map of one picture; ``source`` is the file that it came from, for providers that read maps of files."""
        ...


class NoSaliency:
    """Everything is foreground: with all ones M-SA is plain self-attention."""

    name = "none"
    settings = "ones"

    def __call__(self, picture: Picture, source: Path | None = None) -> Map:
        """A map of ones."""
        return np.ones(check_picture(picture).shape[:2], dtype=np.float32)


def check_picture(picture: Picture) -> Picture:
    """Refuse anything but an RGB picture of at least one pixel."""
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or 0 in picture.shape:
        raise ValueError(
            f"expected an RGB picture, uint8 (height, width, 3), got {picture.dtype} {picture.shape}; "
            "salvit.data.images.read_image gives one from any file"
        )
    return picture


def shrink_picture(picture: Picture, longest: int) -> Picture:
    """Scale a picture down so that its longer side has at most ``longest`` pixels; smaller ones stay as they are."""
    height, width = picture.shape[:2]
    if max(height, width) <= longest:
        return picture
    scale = longest / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0))


def resize_map(saliency: npt.NDArray[np.floating], hw: tuple[int, int]) -> Map:
    """Scale a map to another size, bilinear (averaging where it shrinks), and keep it in [0, 1]."""
    plain = np.asarray(saliency, dtype=np.float32)
    if plain.shape != hw:
        plain = np.asarray(Image.fromarray(plain).resize((hw[1], hw[0]), Image.Resampling.BILINEAR))
    return np.clip(plain, 0.0, 1.0)


def stretch(values: npt.NDArray[np.floating]) -> Map:
    """Map the least value to 0 and the greatest to 1; where all are equal (nothing stands out) all become 0."""
    low, high = float(values.min()), float(values.max())
    if not high - low > 1e-9 * max(1.0, abs(high)):
        return np.zeros(values.shape, dtype=np.float32)
    return np.asarray((values - low) / (high - low), dtype=np.float32)


def fit_picture(picture: Picture, fit: Fit) -> Picture:
    """Resample the window of a fit into its square (S, S, 3); what lies outside is filled with the mean colour."""
    size = (fit.inner_hw[1], fit.inner_hw[0])
    inner = Image.fromarray(picture).resize(size, Image.Resampling.BILINEAR, box=fit.window, reducing_gap=2.0)
    square = np.empty((fit.size, fit.size, 3), dtype=np.uint8)
    square[:] = MEAN_COLOUR
    (x, y), (height, width) = fit.pad_xy, fit.inner_hw
    square[y : y + height, x : x + width] = np.asarray(inner)
    return square


def unfit_map(saliency: Map, fit: Fit, hw: tuple[int, int]) -> Map:
    """Bring a map (G, G) of the whole square of a fit back to the picture (H, W) that was fitted whole."""
    scale = len(saliency) / fit.size
    (x, y), (height, width) = fit.pad_xy, fit.inner_hw
    box = (x * scale, y * scale, (x + width) * scale, (y + height) * scale)
    plain = Image.fromarray(np.asarray(saliency, dtype=np.float32))
    full: Map = np.asarray(plain.resize((hw[1], hw[0]), Image.Resampling.BILINEAR, box=box), dtype=np.float32)
    return full.clip(0.0, 1.0)
