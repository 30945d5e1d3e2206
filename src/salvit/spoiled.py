"""Detectors whose saliency fails on purpose, for the study of saliency failures (paper Sec. 4.2).

Letters: B images · D channels · H, W cells · S side of the input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from salvit.model.certainty import Calibration
from salvit.model.detector import SalViT
from salvit.model.saliency_mask import downscale
from salvit.saliency.failures import FailureKind, spoil_map
from salvit.types import Detector, Encoded, Example, FittedImage, Pack, Prediction


def spoiled(model: SalViT, kind: str, strength: float) -> Detector:
    """The model with a map that fails in every picture; ``none`` fails in none."""
    return _Spoiled(model, kind, strength)


def reweighted(detector: Detector, kind: str, strength: float) -> Detector:
    """A detector without saliency whose features are weighted by a map that fails; ``none``: that does not fail.

    Choice: a cell's features are multiplied by its saliency. The pictures must bring their maps.
    """
    return _Reweighted(detector, kind, strength)


def inner(detector: Detector) -> Detector:
    """The detector itself, without the failure around it."""
    return detector._detector if isinstance(detector, _Delegate) else detector


def _spoil(planes: npt.NDArray[np.float32], kind: str, strength: float) -> torch.Tensor:
    """Maps (B, S, S) after the failure."""
    if kind == "none":
        return torch.from_numpy(planes)
    named: Any = kind
    failure: FailureKind = named
    return torch.from_numpy(np.stack([spoil_map(plane, failure, strength) for plane in planes]))


class _Delegate(ABC):
    """A detector that leaves everything but encoding to another."""

    def __init__(self, detector: Detector, kind: str, strength: float) -> None:
        self.name, self.input_size = detector.name, detector.input_size
        self._detector, self._kind, self._strength = detector, kind, strength

    @property
    def weights_sha256(self) -> str:
        return self._detector.weights_sha256

    @property
    def calibration(self) -> Calibration | None:
        """That of the detector, for its stated ellipses."""
        return self._detector.calibration if isinstance(self._detector, SalViT) else None

    @abstractmethod
    def encode(self, images: Sequence[FittedImage]) -> Encoded:
        """Each kind of failure encodes in its own way."""

    def learn(self, examples: Sequence[Example], encoded: Encoded | None = None) -> Pack:
        return self._detector.learn(examples, encoded or self.encode([example.image for example in examples]))

    def locate(self, pack: Pack, encoded: Encoded) -> Prediction:
        return self._detector.locate(pack, encoded)

    def detect(self, pack: Pack, images: Sequence[FittedImage]) -> Prediction:
        return self.locate(pack, self.encode(images))

    def explain(self, pack: Pack, image: FittedImage) -> dict[str, npt.NDArray[np.float32]]:
        return self._detector.explain(pack, image)


class _Spoiled(_Delegate):
    @torch.no_grad()
    def encode(self, images: Sequence[FittedImage]) -> Encoded:
        model = self._detector
        assert isinstance(model, SalViT)
        batch = model.prepare(*model.tensors(images))
        if batch.saliency is None:
            raise ValueError(f"{self.name} got no saliency map that could fail; is its provider at hand?")
        maps = _spoil(batch.saliency.float().cpu().numpy(), self._kind, self._strength).to(batch.saliency)
        output = model.encoder(replace(batch, saliency=maps))
        return Encoded(output.features, tuple(image.fit for image in images), downscale(maps, model.encoder.grid_hw))


class _Reweighted(_Delegate):
    def encode(self, images: Sequence[FittedImage]) -> Encoded:
        encoded = self._detector.encode(images)
        planes = [image.saliency for image in images if image.saliency is not None]
        if len(planes) != len(images):
            raise ValueError(f"{self.name} is weighted by saliency, but pictures came without a map")
        maps = _spoil(np.stack(planes), self._kind, self._strength).to(encoded.features)
        low = downscale(maps, (encoded.features.shape[-2], encoded.features.shape[-1]))  # (B, H, W)
        return Encoded(encoded.features * low[:, None], encoded.fits, low)
