"""Left and right: learning and looking both ways, and pairs that may be swapped.

A picture is learnt and searched as it is and mirrored. What is a left eye in the mirrored picture is the right eye of
the picture itself, so names of a pair change places on the way there and back.

Letters: B images · K shots · N keypoints · D channels.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from salvit.geometry import Fit, fit_square, flip_points, whole_window
from salvit.types import BoolArray, Detector, Encoded, Example, FittedImage, FloatArray, Pack, Prediction

if TYPE_CHECKING:
    from torch import Tensor

AGREE = 3.0
"""Two ways agree on a point where they lie within this many standard deviations of their difference."""
SAME_PLACE = 0.25
"""Two points of a pair are at one place where they lie within this many standard deviations."""
LEAST_VARIANCE = 1e-6
"""In squared pixels, added where ways are compared: a covariance that cannot be inverted is a point, not an error."""
Pairs = tuple[tuple[str, str], ...]
_SIDE = re.compile(r"left|right|(?:^|[\W_])[lr](?:$|[\W_])", re.IGNORECASE)


def check_pairs(pairs: Pairs, names: Sequence[str]) -> Pairs:
    """Refuse a pair of unknown names, of one name twice, or a name in two pairs."""
    seen: set[str] = set()
    for pair in pairs:
        for name in pair:
            if name not in names:
                raise ValueError(f"the pair {pair[0]}:{pair[1]} names {name!r}; known: {', '.join(names)}")
            if name in seen:
                raise ValueError(f"{name!r} is in two left/right pairs; expected it in one")
            seen.add(name)
    return pairs


def partners(names: Sequence[str], pairs: Pairs) -> npt.NDArray[np.int64]:
    """(N,) for each keypoint its other side, and itself where it has none."""
    order = np.arange(len(names))
    place = {name: n for n, name in enumerate(names)}
    for left, right in pairs:
        if left in place and right in place:
            order[place[left]], order[place[right]] = place[right], place[left]
    return order


def has_lone_side(names: Sequence[str], pairs: Pairs) -> BoolArray:
    """(N,) whether a name has a side (``left_paw``, ``paw.R``) and is in no pair."""
    paired = {name for pair in pairs for name in pair}
    return np.array([name not in paired and _SIDE.search(name) is not None for name in names], dtype=bool)


def lone_sides(names: Sequence[str], pairs: Pairs, stated: Pairs = ()) -> frozenset[str]:
    """The names of :func:`has_lone_side`, and those whose partner in a pair of ``stated`` is not among ``names``."""
    told = {name for name, is_lone in zip(names, has_lone_side(names, pairs), strict=True) if is_lone}
    paired = {name for pair in pairs for name in pair}
    return frozenset(told | {name for pair in stated for name in pair if name in names and name not in paired})


def mirror(image: FittedImage) -> FittedImage:
    """A fitted picture mirrored left to right; its fit is that of the square to itself."""
    size = image.pixels.shape[1]
    saliency = None if image.saliency is None else np.ascontiguousarray(image.saliency[:, ::-1])
    whole = fit_square(whole_window((size, size)), size)
    return replace(image, pixels=np.ascontiguousarray(image.pixels[:, ::-1]), fit=whole, saliency=saliency)


def learn_both_ways(
    detector: Detector,
    examples: Sequence[Example],
    pairs: Pairs,
    encoded: Encoded | None = None,
    mirrored: Encoded | None = None,
    *,
    one_way: Collection[str] = (),
) -> Pack:
    """What marked pictures teach as they are and mirrored: the mean of both ways, for each shot and keypoint.

    A keypoint that no example has is not made known by its mirrored partner.

    Args:
        detector: Who learns.
        examples: Marked pictures.
        pairs: Left/right pairs of names.
        encoded: The pictures, where they were encoded before.
        mirrored: The mirrored pictures, where they were encoded before.
        one_way: Names that have a side and no partner (:func:`has_lone_side`): learnt from the pictures as they are.
    """
    plain = detector.learn(examples, encoded)
    other = detector.learn([mirror_example(example, plain.names, pairs, one_way) for example in examples], mirrored)
    added = other.mask & plain.known  # (K, N)
    count = (plain.mask.float() + added.float()).clamp(min=1)[..., None]
    vectors = (plain.vectors * plain.mask[..., None] + other.vectors * added[..., None]) / count  # (K, N, D)
    return replace(plain, vectors=vectors, mask=plain.mask | added, extra=_extra_of_both(plain, other))


def _extra_of_both(plain: Pack, other: Pack) -> Mapping[str, Tensor]:
    """What a pack has beside its vectors; sums are those of both ways."""
    from salvit.model.filters import SUMS, join_extra

    kept = [{name: pack.extra[name] for name in SUMS if name in plain.extra} for pack in (plain, other)]
    return {**plain.extra, **join_extra(kept)}


def mirror_example(example: Example, names: tuple[str, ...], pairs: Pairs, one_way: Collection[str] = ()) -> Example:
    """A marked picture mirrored, with all of ``names``, sides exchanged; those of ``one_way`` are not marked in it."""
    points = np.zeros((len(names), 2))
    visible = np.zeros(len(names), dtype=bool)
    order = partners(names, pairs)
    turned = flip_points(example.points_input, example.image.fit.size)
    for point, is_marked, name in zip(turned, example.visible, example.names, strict=True):
        place = order[names.index(name)]
        points[place], visible[place] = point, bool(is_marked) and name not in one_way
    image = mirror(example.image) if example.image.pixels.size else example.image
    return Example(image, names, points, visible)


def look_mirrored(detector: Detector, pack: Pack, images: Sequence[FittedImage]) -> Prediction:
    """Find a pack's keypoints in mirrored pictures, and bring places and names back to the pictures themselves."""
    encoded = detector.encode([mirror(image) for image in images])
    return locate_mirrored(detector, pack, encoded, [image.fit for image in images])


def locate_mirrored(detector: Detector, pack: Pack, mirrored: Encoded, fits: Sequence[Fit]) -> Prediction:
    """:func:`look_mirrored` in pictures that were encoded mirrored; ``fits`` are those of the pictures themselves."""
    found = detector.locate(pack, mirrored)
    order = partners(pack.names, pack.pairs)
    points_input = flip_points(found.points, detector.input_size)
    covariances = found.covariances * np.array([[1.0, -1.0], [-1.0, 1.0]])
    return Prediction(
        names=found.names,
        points=np.stack([fit.to_image(row) for fit, row in zip(fits, points_input, strict=True)])[:, order],
        scores=found.scores[:, order],
        presence=found.presence[:, order],
        covariances=np.stack([f.covariance_to_image(c) for f, c in zip(fits, covariances, strict=True)])[:, order],
        known=found.known[order],
    )


def merge(plain: Prediction, mirrored: Prediction, pairs: Pairs) -> tuple[Prediction, list[tuple[str, ...]]]:
    """Put both ways together; gives the warnings of each picture too.

    Where the ways agree (within 3 σ of their difference) a point is their mean, weighted by score; where they do not,
    it is that of the higher score. Two points of a pair that change places between the ways are warned of, and both
    are taken from the way whose scores are higher in sum.

        Σ = Σᵢ wᵢ (Σᵢ + (uᵢ − u)(uᵢ − u)ᵀ),   wᵢ = sᵢ / (s₁ + s₂)

    Symbols: u the point chosen, uᵢ, Σᵢ, sᵢ point, covariance and score of each way: the spread of both about the point
    chosen, so that ways that disagree make it larger.
    A keypoint whose partner no example has, or whose name has a side but no partner, counts as it is found in the
    plain picture: in the mirrored one that name means the other side.
    """
    both = plain.known & mirrored.known & ~has_lone_side(plain.names, pairs)
    total = plain.scores + mirrored.scores
    weight = np.where(both, plain.scores / np.where(total > 0, total, 1.0), 1.0)  # (B, N)
    weight = np.where(both & (total <= 0), 0.5, weight)
    apart = plain.points - mirrored.points  # (B, N, 2)
    agree = _mahalanobis(apart, plain.covariances + mirrored.covariances) <= AGREE
    swapped = _swapped(plain, mirrored, pairs)  # (B, N)
    order = partners(plain.names, pairs)
    pair_prefers_plain = plain.scores + plain.scores[:, order] >= mirrored.scores + mirrored.scores[:, order]
    prefers_plain = np.where(swapped, pair_prefers_plain, plain.scores >= mirrored.scores)
    share = np.where(agree & ~swapped, weight, np.where(both, prefers_plain.astype(float), 1.0))[..., None]
    points = share * plain.points + (1 - share) * mirrored.points
    merged = Prediction(
        names=plain.names,
        points=points,
        scores=_mix(weight, plain.scores, mirrored.scores),
        presence=_mix(weight, plain.presence, mirrored.presence),
        covariances=_mix(
            weight[..., None, None],
            plain.covariances + _outer(plain.points - points),
            mirrored.covariances + _outer(mirrored.points - points),
        ),
        known=plain.known,
    )
    warnings = [
        tuple(f"{left} and {right} may be swapped: the mirrored picture has them the other way round"
              for left, right in pairs if left in plain.names and row[plain.names.index(left)])
        for row in swapped
    ]  # fmt: skip
    return merged, warnings


def pairs_at_one_place(prediction: Prediction, row: int, located: BoolArray, pairs: Pairs) -> tuple[str, ...]:
    """Warnings of pairs whose two points were found at one place: at most one of them can be right."""
    warnings = []
    place = {name: n for n, name in enumerate(prediction.names)}
    for left, right in pairs:
        if left not in place or right not in place or not (located[place[left]] and located[place[right]]):
            continue
        n, m = place[left], place[right]
        apart = prediction.points[row, n] - prediction.points[row, m]
        if _mahalanobis(apart, (prediction.covariances[row, n] + prediction.covariances[row, m]) / 2) < SAME_PLACE:
            warnings.append(f"{left} and {right} were found at one place: at most one of them is right")
    return tuple(warnings)


def _swapped(plain: Prediction, mirrored: Prediction, pairs: Pairs) -> BoolArray:
    """(B, N) whether a point and its partner lie nearer to each other's places than to their own in the other way."""
    order = partners(plain.names, pairs)
    own = np.linalg.norm(plain.points - mirrored.points, axis=-1)
    other = np.linalg.norm(plain.points - mirrored.points[:, order], axis=-1)
    own, other = own + own[:, order], other + other[:, order]
    apart = _mahalanobis(plain.points - plain.points[:, order], plain.covariances)
    known = plain.known & mirrored.known
    return np.asarray((other < own / 2) & (apart > 1.0) & known & known[order] & (order != np.arange(len(order))))


def _mahalanobis(apart: FloatArray, covariance: FloatArray) -> FloatArray:
    solved = np.linalg.solve(covariance + LEAST_VARIANCE * np.eye(2), apart[..., None])[..., 0]
    return np.asarray(np.sqrt(np.clip((apart * solved).sum(-1), 0.0, None)))


def _mix(weight: FloatArray, one: FloatArray, other: FloatArray) -> FloatArray:
    return np.asarray(weight * one + (1 - weight) * other)


def _outer(apart: FloatArray) -> FloatArray:
    return np.asarray(apart[..., :, None] * apart[..., None, :])
