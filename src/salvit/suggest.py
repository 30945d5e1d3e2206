"""Which pictures to mark next: those that are uncertain, and unlike the ones that are marked.

Greedy: each step takes the picture with the highest product of

- its uncertainty, the mean spread of its keypoints as a share of the picture's longer side (at most 1), and
- its novelty, 1 − the cosine similarity of its mean feature to the nearest one that is marked or already taken,

so that pictures that are hard for the same reason are not all named. Letters: B images · D channels · H, W cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from salvit.types import BoolArray, Detection, Encoded, FloatArray, Pack

MARKED = "suggest.marked"
"""Name of the tensor (K, D) in a pack that says what its marked pictures look like."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A picture that could be marked next."""

    path: Path
    uncertainty: float
    """In [0, 1]."""
    descriptor: FloatArray
    """(D,) of unit length."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A picture worth marking, and why."""

    path: Path
    uncertainty: float
    novelty: float


def describe(encoded: Encoded) -> FloatArray:
    """What pictures look like as a whole: the mean of their features over cells that are not padding, (B, D)."""
    features = encoded.features
    height, width = features.shape[-2:]
    inside = torch.zeros(len(features), 1, height, width, device=features.device)
    for row, fit in enumerate(encoded.fits):
        (x, y), (inner_h, inner_w) = fit.pad_xy, fit.inner_hw
        scale_x, scale_y = width / fit.size, height / fit.size
        inside[
            row, 0, int(y * scale_y) : max(round((y + inner_h) * scale_y), int(y * scale_y) + 1),
            int(x * scale_x) : max(round((x + inner_w) * scale_x), int(x * scale_x) + 1),
        ] = 1.0  # fmt: skip
    mean = (features * inside).sum((2, 3)) / inside.sum((2, 3)).clamp(min=1.0)
    return np.asarray(F.normalize(mean.float(), dim=1).double().cpu().numpy())


def uncertainty(detection: Detection, known: BoolArray) -> float:
    """Mean standard deviation of the known keypoints over the longer side of what was searched, at most 1 each."""
    if not known.any():
        return 1.0
    x1, y1, x2, y2 = detection.box or (0.0, 0.0, float(detection.image_hw[1]), float(detection.image_hw[0]))
    spread = np.sqrt(np.trace(detection.covariances[known], axis1=1, axis2=2) / 2)
    return float(np.clip(spread / max(x2 - x1, y2 - y1), 0.0, 1.0).mean())


def candidate_of(detection: Detection, pack: Pack) -> Candidate:
    """A detection that was made with ``describe=True`` as a candidate."""
    if detection.descriptor is None:
        raise ValueError("this detection has no descriptor; detect with describe=True")
    return Candidate(detection.path, uncertainty(detection, pack.known.cpu().numpy()), detection.descriptor)


def suggest(candidates: Iterable[Candidate], pack: Pack, count: int) -> list[Suggestion]:
    """The pictures worth marking next, best first; of several objects in one picture the most uncertain counts."""
    by_path: dict[Path, Candidate] = {}
    for candidate in candidates:
        best = by_path.get(candidate.path)
        if best is None or candidate.uncertainty > best.uncertainty:
            by_path[candidate.path] = candidate
    pictures = list(by_path.values())
    if not pictures:
        return []
    descriptors = np.stack([picture.descriptor for picture in pictures])
    marked = pack.extra[MARKED].double().cpu().numpy() if MARKED in pack.extra else np.zeros((0, descriptors.shape[1]))
    chosen = choose([picture.uncertainty for picture in pictures], descriptors, marked, count)
    return [Suggestion(pictures[n].path, pictures[n].uncertainty, novelty) for n, novelty in chosen]


def choose(
    uncertainties: Sequence[float], descriptors: FloatArray, marked: FloatArray, count: int
) -> list[tuple[int, float]]:
    """Greedy choice: row numbers and their novelty at the time they were taken.

    Args:
        uncertainties: n of them.
        descriptors: (n, D) of unit length.
        marked: (m, D) of unit length; m may be 0, and the first choice is then by uncertainty alone.
        count: How many to take at most.
    """
    sure = np.asarray(uncertainties, dtype=np.float64)
    novelty = np.ones(len(sure)) if len(marked) == 0 else 1.0 - (descriptors @ marked.T).max(1)
    novelty = novelty.clip(0.0, 1.0)
    chosen: list[tuple[int, float]] = []
    is_free = np.ones(len(sure), dtype=bool)
    while is_free.any() and len(chosen) < count:
        best = int(np.argmax(np.where(is_free, sure * novelty, -1.0)))
        chosen.append((best, float(novelty[best])))
        is_free[best] = False
        novelty = np.minimum(novelty, 1.0 - descriptors @ descriptors[best]).clip(0.0, 1.0)
    return chosen
