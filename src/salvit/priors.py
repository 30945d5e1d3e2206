"""Brings saliency to the pictures of a model that wants one: for files, for records, for fitted pictures.

The map is made on the whole picture, spread by the distance transform and blurred (``salvit.saliency.preprocess``), and
goes wherever the picture goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from salvit.data.crops import saliency_window
from salvit.data.images import MAX_PIXELS, image_hw, read_image
from salvit.geometry import Window
from salvit.model.detector import SalViT
from salvit.saliency import Map, Provider, build_provider
from salvit.saliency.cache import CachedProvider
from salvit.saliency.preprocess import preprocess_map
from salvit.types import Detector, FittedImage, Record

_SEARCHED_SIDE = 640
"""A JPEG may be decoded down to this side before an object is looked for in it: maps are coarser than that."""
FROM_ELSEWHERE = ("files", "onnx")
"""Providers that need files of the user's, so they cannot be built from a model's settings alone."""


def provider_of(detector: Detector, *, for_training: bool = False) -> Provider | None:
    """The provider that a detector's settings name; None where it needs none from outside.

    In training a model that masks nothing has one too: it tells which auxiliary keypoints are background, and caches
    are shared.
    """
    if not isinstance(detector, SalViT) or not (for_training or detector.encoder.uses_saliency):
        return None
    name = detector.settings.saliency
    if name in ("none", "attentiveness"):
        return None
    if name in FROM_ELSEWHERE:
        raise ValueError(
            f"{detector.name} was made for saliency from {name!r}, which is not at hand here; choose another with "
            "--set model.saliency=learned when you train it"
        )
    return build_provider(name)


def provider_for_pictures(detector: Detector) -> Provider | None:
    """:func:`provider_of` for pictures that the detector sees at once; None too where it makes the map itself.

    Then one pass of the backbone serves both (:attr:`SalViT.makes_saliency`).
    """
    makes_itself = isinstance(detector, SalViT) and detector.makes_saliency
    return None if makes_itself else provider_of(detector)


def saliency_of_records(detector: Detector, *, for_training: bool = False) -> Callable[[Record], Map] | None:
    """A function that gives the map (H, W) of a record's picture, kept on disk; None where none is needed.

    Outside training a model with a prior of its own is looked at as its users do, with the map that it makes itself.
    """
    if not for_training and isinstance(detector, SalViT) and detector.prior is not None:
        return None
    provider = provider_of(detector, for_training=for_training)
    if provider is None:
        return None
    kept = CachedProvider(provider)

    def saliency_of(record: Record) -> Map:
        return preprocess_map(kept(np.asarray(read_image(record.path)), record.path))

    return saliency_of


def saliency_box(path: Path, provider: Provider, *, max_pixels: int = MAX_PIXELS) -> Window:
    """The window of what stands out in a picture, plus 10 %: for a small object in a large picture.

    The whole picture where nothing stands out.
    """
    small = read_image(path, max_pixels=max_pixels, at_least=_SEARCHED_SIDE)
    return saliency_window(provider(np.asarray(small)), image_hw(path, max_pixels=max_pixels))


def with_saliency(image: FittedImage, provider: Provider | None) -> FittedImage:
    """The same fitted picture with a map of its part that is not padding."""
    if provider is None:
        return image
    (x, y), (height, width) = image.fit.pad_xy, image.fit.inner_hw
    plane: npt.NDArray[np.float32] = np.zeros(image.pixels.shape[:2], dtype=np.float32)
    inner = np.ascontiguousarray(image.pixels[y : y + height, x : x + width])
    plane[y : y + height, x : x + width] = preprocess_map(provider(inner))
    return replace(image, saliency=plane)
