"""Image files in, keypoints out, as :func:`salvit.predict.detect`; but all pictures are looked at together first.

Every picture is read and encoded once; its features wait in a file, so that a folder of thousands takes no more memory
than a small one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from salvit.data.images import MAX_PIXELS
from salvit.flip import pairs_at_one_place
from salvit.geometry import Window
from salvit.kept_features import KeptFeatures
from salvit.predict import detect
from salvit.priors import provider_for_pictures, with_saliency
from salvit.queries import Query
from salvit.transductive import TransductiveSettings, refine_pack
from salvit.types import Detection, Detector, Encoded, Example, Failure, FittedImage, Pack, Prediction


def detect_together(
    detector: Detector,
    pack: Pack,
    queries: Sequence[Path | str | Query],
    *,
    settings: TransductiveSettings | None = None,
    box: Window | Literal["saliency"] | None = None,
    batch: int = 8,
    min_score: float = 0.0,
    max_pixels: int = MAX_PIXELS,
    flip: bool = False,
    describe: bool = False,
) -> Iterator[Detection | Failure]:
    """Find the keypoints of a pack in image files that help each other (:mod:`salvit.transductive`), in order.

    The arguments are those of :func:`salvit.predict.detect`, but pictures are not mirrored; ``settings`` say how they
    help. Results come when all pictures have been encoded.
    """
    if flip:
        raise ValueError("pictures that are searched together are not mirrored; leave one of the two away")
    with KeptFeatures() as kept:
        recorder = _Recorder(detector, kept)
        seen = list(
            detect(
                recorder,
                pack,
                queries,
                box=box,
                batch=batch,
                max_pixels=max_pixels,
                describe=describe,
            )
        )
        refined = refine_pack(detector, pack, kept, settings) if len(kept) else pack
        found = _located(detector, refined, kept)
        for item in seen:
            yield item if isinstance(item, Failure) else _filled(item, *next(found), min_score, pack)


def _located(detector: Detector, pack: Pack, kept: KeptFeatures) -> Iterator[tuple[Prediction, int]]:
    for batch in kept:
        prediction = detector.locate(pack, batch)
        for row in range(len(batch.fits)):
            yield prediction, row


def _filled(empty: Detection, prediction: Prediction, row: int, min_score: float, pack: Pack) -> Detection:
    located = prediction.located(row, min_score)
    return replace(
        empty,
        points=prediction.points[row],
        scores=prediction.scores[row],
        presence=prediction.presence[row],
        covariances=prediction.covariances[row],
        located=located,
        warnings=pairs_at_one_place(prediction, row, located, pack.pairs),
    )


class _Recorder:
    """A detector that keeps what it encodes and locates nothing yet."""

    def __init__(self, detector: Detector, kept: KeptFeatures) -> None:
        self.name, self.input_size, self.weights_sha256 = detector.name, detector.input_size, detector.weights_sha256
        self._detector, self._kept, self._provider = detector, kept, provider_for_pictures(detector)

    def encode(self, images: Sequence[FittedImage]) -> Encoded:
        encoded = self._detector.encode([with_saliency(image, self._provider) for image in images])
        self._kept.append(encoded)
        return encoded

    def locate(self, pack: Pack, encoded: Encoded) -> Prediction:
        images, keypoints = len(encoded.fits), len(pack.names)
        nothing = np.zeros((images, keypoints))
        return Prediction(
            pack.names,
            np.zeros((images, keypoints, 2)),
            nothing,
            nothing,
            np.tile(np.eye(2), (images, keypoints, 1, 1)),
            np.zeros(keypoints, dtype=bool),
        )

    def learn(self, examples: Sequence[Example], encoded: Encoded | None = None) -> Pack:
        return self._detector.learn(examples, encoded)

    def detect(self, pack: Pack, images: Sequence[FittedImage]) -> Prediction:
        return self.locate(pack, self.encode(images))

    def explain(self, pack: Pack, image: FittedImage) -> dict[str, npt.NDArray[np.float32]]:
        return self._detector.explain(pack, image)
