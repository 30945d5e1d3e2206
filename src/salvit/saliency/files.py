"""The provider ``files``: maps that were made elsewhere, as image files. It is the paper's own way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from salvit.saliency.provider import Map, Picture, check_picture, resize_map

SUFFIX = ".saliency.png"
"""Ending of a map that lies beside its image: ``cat.jpg`` has ``cat.saliency.png``."""


class FileSaliency:
    """The provider ``files``.

    Args:
        maps: Root of a mirror folder of maps, or None where they lie beside the images as ``NAME.saliency.png``.
        images: Root of the images that the mirror folder mirrors: ``images/a/cat.jpg`` has the map ``maps/a/cat.png``.
            None: the mirror is flat, and only the file's name counts.
    """

    name = "files"

    def __init__(self, maps: Path | None = None, images: Path | None = None) -> None:
        self.maps = maps
        self.images = images

    @property
    def settings(self) -> str:
        """The folders. A map that changes in place is not noticed by the cache: do not cache this provider."""
        return f"maps={self.maps} images={self.images}"

    def map_path(self, source: Path) -> Path:
        """The file that holds the map of an image file."""
        if self.maps is None:
            return source.with_name(source.stem + SUFFIX)
        if self.images is None:
            return self.maps / f"{source.stem}.png"
        try:
            inner = source.resolve().relative_to(self.images.resolve())
        except ValueError as problem:
            raise ValueError(
                f"{source} does not lie in {self.images}; expected an image of the folder that {self.maps} mirrors"
            ) from problem
        return (self.maps / inner).with_suffix(".png")

    def __call__(self, picture: Picture, source: Path | None = None) -> Map:
        """The map of one picture, scaled to it."""
        check_picture(picture)
        if source is None:
            raise ValueError(
                "the saliency provider 'files' needs to know the image's file; this picture came from none"
            )
        path = self.map_path(source)
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no saliency map for {source}; expected a grey PNG of the same picture")
        try:
            with Image.open(path) as image:
                levels = _to_unit(image)
        except (OSError, SyntaxError) as problem:
            raise OSError(f"{path}: not an image that can be read; expected a grey PNG ({problem})") from problem
        return resize_map(levels, picture.shape[:2])


def _to_unit(image: Image.Image) -> Map:
    """Grey values to [0, 1]: 8 bits by 255, 16 bits by 65535, black-and-white as it is."""
    if image.mode.startswith("I"):
        return np.asarray(np.asarray(image) / 65535, dtype=np.float32).clip(0, 1)
    return np.asarray(np.asarray(image.convert("L")) / 255, dtype=np.float32)
