"""The words that all parts share: what a data set states, what a detector takes and what it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from salvit.geometry import Fit, Window

if TYPE_CHECKING:  # so that processes that only read data start without torch
    from torch import Tensor

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Record:
    """One annotated object of a data set.

    A point outside its image has ``v = 0`` and is not moved; missing is ``v = 0``, never a special coordinate.
    """

    id: str
    """``file#index``: unique in its data set."""
    path: Path
    """The image file."""
    species: str
    """Species or category."""
    names: tuple[str, ...]
    """Keypoint names, N of them."""
    points: FloatArray
    """(N, 2) in image pixels."""
    v: npt.NDArray[np.int64]
    """(N,) 0 not labelled, 1 hidden but labelled, 2 visible."""
    box: Window | None
    """xyxy in edge coordinates of the image."""
    is_box_from_points: bool = False
    """The box is the hull of the points plus 10 %, because the data set states none."""
    image_hw: tuple[int, int] | None = None
    """Height and width of the image, where the reader knew them."""

    @property
    def visible(self) -> BoolArray:
        """(N,) which keypoints are labelled: v > 0."""
        return self.v > 0


@dataclass(frozen=True, slots=True)
class FittedImage:
    """An image scaled and padded to a detector's input, and the way back."""

    pixels: npt.NDArray[np.uint8]
    """(S, S, 3) RGB."""
    fit: Fit
    """How it was fitted."""
    source: str = ""
    """Where it came from, for messages."""
    saliency: npt.NDArray[np.float32] | None = None
    """(S, S) in [0, 1], or None where none was made."""
    image_hw: tuple[int, int] | None = None
    """Size of the whole image that it was taken from, where that is known."""


@dataclass(frozen=True, slots=True)
class Example:
    """A marked picture: what a person gives a detector to learn from."""

    image: FittedImage
    names: tuple[str, ...]
    points_input: FloatArray
    """(N, 2) in the frame of ``image``."""
    visible: BoolArray
    """(N,) which of the points are marked."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """What a detector keeps of a batch of images: enough to locate any keypoint in them."""

    features: Tensor
    """(B, D, H, W) tokens on a grid."""
    fits: tuple[Fit, ...]
    """B of them."""
    saliency: Tensor | None = None
    """(B, H, W) on the token grid, where the detector uses one."""
    looked: Tensor | None = None
    """(B, …) what the detector's head makes of a picture alone, where it was made once (:meth:`SalViT.look`)."""

    def select(self, rows: Sequence[int]) -> Encoded:
        """Some of the images, in the order of ``rows``."""
        chosen = list(rows)
        saliency = None if self.saliency is None else self.saliency[chosen]
        looked = None if self.looked is None else self.looked[chosen]
        return Encoded(self.features[chosen], tuple(self.fits[row] for row in chosen), saliency, looked)


@dataclass(frozen=True, slots=True)
class Pack:
    """Keypoints that were learnt from K marked pictures (shots)."""

    vectors: Tensor
    """(K, N, D) one vector for each shot and keypoint."""
    mask: Tensor
    """(K, N) bool: which shots teach which keypoint; a side that a picture lacks may come from its mirrored partner."""
    names: tuple[str, ...]
    model: str
    """Name of the detector that made it."""
    weights_sha256: str
    """Hash of the detector's weights: a pack fits only those."""
    skeleton: tuple[tuple[str, str], ...] = ()
    """Pairs of names to link in drawings."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Left/right pairs of names."""
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    """Further tensors of the method, named ``method.…``."""
    version: str = ""
    """Version of salvit that made it."""
    is_cropped: bool = False
    """The marked pictures were cropped to their objects: it is meant for queries with boxes."""

    @property
    def known(self) -> Tensor:
        """(N,) bool: keypoints that at least one shot has."""
        return self.mask.any(0)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Where a detector finds N keypoints in B images, in pixels of each image."""

    names: tuple[str, ...]
    points: FloatArray
    """(B, N, 2)."""
    scores: FloatArray
    """(B, N) in [0, 1]: how well the place fits the examples; of a calibrated model the probability that a keypoint
    which is there was found within 0.1 of the object's size."""
    presence: FloatArray
    """(B, N) in [0, 1]: the probability that the keypoint is there at all."""
    covariances: FloatArray
    """(B, N, 2, 2) in square pixels."""
    known: BoolArray
    """(N,) False where no example has the keypoint: it is not located, and its other values mean nothing."""

    def located(self, row: int, min_score: float) -> BoolArray:
        """(N,) False where one abstains: unknown, too unsure of the place, or too likely not there at all."""
        sure = np.minimum(self.scores[row], self.presence[row])
        return np.asarray(self.known & (sure >= min_score))


@dataclass(frozen=True, slots=True)
class Detection:
    """What was found in one image file: one row of a :class:`Prediction`, with the file that it belongs to."""

    path: Path
    image_hw: tuple[int, int]
    names: tuple[str, ...]
    points: FloatArray
    """(N, 2) in image pixels."""
    scores: FloatArray
    """(N,)."""
    presence: FloatArray
    """(N,)."""
    covariances: FloatArray
    """(N, 2, 2)."""
    located: BoolArray
    """(N,) False where the detector abstains: the keypoint is unknown to the pack, or too uncertain."""
    box: Window | None = None
    """The box that was searched, where one was given."""
    index: int = 0
    """Which object of its picture, where several boxes were searched."""
    warnings: tuple[str, ...] = ()
    """What looks wrong, a sentence each: left and right that may be swapped."""
    descriptor: FloatArray | None = None
    """(D,) what the picture looks like as a whole, where it was asked for."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An image file that could not be searched, and why."""

    path: Path
    reason: str


class Detector(Protocol):
    """What the command line, the page, evaluation and transduction ask of every method."""

    name: str
    input_size: int

    @property
    def weights_sha256(self) -> str:
        """Hash of its weights: a pack fits only those."""
        ...

    def encode(self, images: Sequence[FittedImage]) -> Encoded:
        """Images to features."""
        ...

    def learn(self, examples: Sequence[Example], encoded: Encoded | None = None) -> Pack:
        """Marked pictures to a pack; ``encoded`` are the same pictures, where they were encoded before."""
        ...

    def locate(self, pack: Pack, encoded: Encoded) -> Prediction:
        """Find the keypoints of a pack in encoded images."""
        ...

    def detect(self, pack: Pack, images: Sequence[FittedImage]) -> Prediction:
        """:meth:`locate` after :meth:`encode`."""
        ...

    def explain(self, pack: Pack, image: FittedImage) -> dict[str, npt.NDArray[np.float32]]:
        """Maps that show why: each (H, W) or (N, H, W), by name."""
        ...
