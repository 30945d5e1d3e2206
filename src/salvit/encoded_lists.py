"""The pictures of a frozen list, encoded once for all of its episodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from salvit.data.augment import View
from salvit.data.episodes import Episode
from salvit.data.frozen import FrozenList
from salvit.data.occlude import Occlusion
from salvit.data.views import load_view
from salvit.geometry import fit_square
from salvit.types import Detector, Encoded, FittedImage, Record

SaliencyOf = Callable[[Record], npt.NDArray[np.float32]]
Track = Callable[[Iterable[Any], int, str], Iterable[Any]]
Ways = Literal["one", "supports", "both"]
"""Pictures as they are; supports learnt mirrored too; supports and queries mirrored too."""
EncodeByAll = Callable[[Sequence[FittedImage]], Iterable[Encoded]]
"""Pictures to what each of several detectors makes of them."""


@dataclass(frozen=True, slots=True)
class EncodedList:
    """Every image of a frozen list, encoded once: each record has one view in it."""

    encoded: Encoded
    rows: dict[tuple[str, str], int]
    """(record id, what hides which of its keypoints, empty where nothing does) → row of ``encoded``."""
    seconds: float | None
    """What encoding took, reading included; None where several detectors shared it."""
    others: EncodedList | None = None
    """Where the images are that are not here."""

    def pick(self, keys: Sequence[tuple[str, str]]) -> Encoded:
        """Some of the images, in float32."""
        import torch

        found = [self._find(key) for key in keys]
        features = torch.stack([encoded.features[row] for encoded, row in found]).float()
        maps = [encoded.saliency[row] for encoded, row in found if encoded.saliency is not None]
        return Encoded(
            features, tuple(encoded.fits[row] for encoded, row in found), torch.stack(maps) if maps else None
        )

    @property
    def timing(self) -> dict[str, float]:
        """What a prediction file says of it."""
        if self.seconds is None:
            return {}
        return {"encode_ms_per_image": round(1000 * self.seconds / max(len(self.rows), 1), 3)}

    def has(self, key: tuple[str, str]) -> bool:
        """Whether that image is here or with the others."""
        return key in self.rows or (self.others is not None and self.others.has(key))

    def _find(self, key: tuple[str, str]) -> tuple[Encoded, int]:
        if key in self.rows:
            return self.encoded, self.rows[key]
        assert self.others is not None, key
        return self.others._find(key)


def encode_list(
    detector: Detector,
    frozen: FrozenList,
    *,
    saliency_of: SaliencyOf | None = None,
    batch: int = 16,
    known: EncodedList | None = None,
    track: Track,
) -> EncodedList:
    """Encode the views of a list that are not ``known``; features are kept as float16."""
    wanted = {key: view for key, view in views_of_list(frozen) if known is None or not known.has(key)}
    if known is not None and not wanted:
        return known
    (made,) = _encode(lambda images: [detector.encode(images)], detector.input_size, wanted, saliency_of, batch, track)
    return replace(made, others=known)


def encode_mirrored(
    detector: Detector,
    frozen: FrozenList,
    ways: Ways,
    *,
    saliency_of: SaliencyOf | None = None,
    batch: int = 16,
    track: Track,
) -> EncodedList | None:
    """Encode the views that ``ways`` wants mirrored; None: none. Where no pair is stated that is an error."""
    from salvit.flip import mirror

    if ways == "one":
        return None
    if not frozen.problem.split.pairs:
        raise ValueError(
            f"{frozen.problem.name} states no left/right pairs: mirrored, its sides would be mixed up; leave out --ways"
        )

    def encode(images: Sequence[FittedImage]) -> list[Encoded]:
        return [detector.encode([mirror(image) for image in images])]

    wanted = dict(views_of_list(frozen, supports_only=ways == "supports"))
    return _encode(encode, detector.input_size, wanted, saliency_of, batch, track)[0]


def encode_list_together(
    encode: EncodeByAll,
    input_size: int,
    frozen: FrozenList,
    *,
    saliency_of: SaliencyOf | None = None,
    batch: int = 16,
    track: Track,
) -> list[EncodedList]:
    """:func:`encode_list` by several detectors of one input size: pictures are read once, and ``encode`` can share."""
    return _encode(encode, input_size, dict(views_of_list(frozen)), saliency_of, batch, track)


def _encode(
    encode: EncodeByAll,
    input_size: int,
    wanted: dict[tuple[str, str], tuple[View, Occlusion | None]],
    saliency_of: SaliencyOf | None,
    batch: int,
    track: Track,
) -> list[EncodedList]:
    columns: list[list[Encoded]] = []
    """The batches of each detector."""
    start = time.perf_counter()
    for keys in track(list(_batches(list(wanted), batch)), -(-len(wanted) // batch), "encoding"):
        images = [fit_view(*wanted[key], input_size, saliency_of) for key in keys]
        for number, encoded in enumerate(encode(images)):
            if number == len(columns):
                columns.append([])
            columns[number].append(_kept(encoded))
    seconds = time.perf_counter() - start if len(columns) == 1 else None
    rows = {key: row for row, key in enumerate(wanted)}
    made = []
    while columns:  # one detector's batches are let go before the next one's are joined
        made.append(EncodedList(_joined(columns.pop(0)), rows, seconds))
    return made


def _kept(encoded: Encoded) -> Encoded:
    maps = None if encoded.saliency is None else encoded.saliency.cpu()
    return Encoded(encoded.features.half().cpu(), encoded.fits, maps)


def _joined(parts: Sequence[Encoded]) -> Encoded:
    import torch

    maps = [part.saliency for part in parts if part.saliency is not None]
    fits = tuple(fit for part in parts for fit in part.fits)
    return Encoded(torch.cat([part.features for part in parts]), fits, torch.cat(maps) if maps else None)


def fit_view(view: View, occlusion: Occlusion | None, size: int, saliency_of: SaliencyOf | None) -> FittedImage:
    """A view as a detector sees it, without its labels."""
    saliency = saliency_of(view.record) if saliency_of is not None else None
    loaded = load_view(view, size, (), saliency=saliency, occlusion=occlusion)
    plane = None if loaded.saliency is None else loaded.saliency.astype(np.float32) / 255.0
    return FittedImage(loaded.pixels, fit_square(view.window, size), view.record.id, plane)


def views_of_list(
    frozen: FrozenList, *, supports_only: bool = False
) -> Iterator[tuple[tuple[str, str], tuple[View, Occlusion | None]]]:
    """Every image that the list needs, by key; repeated ones are given again."""
    for index in range(len(frozen)):
        episode = frozen.draw(index)
        for view in episode.supports:
            yield (view.record.id, ""), (view, None)
        if supports_only:
            continue
        occlusions = episode.occlusions or (None,) * len(episode.queries)
        for view, occlusion in zip(episode.queries, occlusions, strict=True):
            yield (view.record.id, _occlusion_key(occlusion)), (view, occlusion)


def query_keys(episode: Episode) -> list[tuple[str, str]]:
    """Where an :class:`EncodedList` has an episode's queries."""
    occlusions = episode.occlusions or (None,) * len(episode.queries)
    return [(view.record.id, _occlusion_key(hidden)) for view, hidden in zip(episode.queries, occlusions, strict=True)]


def _occlusion_key(occlusion: Occlusion | None) -> str:
    """Views of a record differ by what hides it and where; one that nothing hides is the clean one."""
    if occlusion is None or not len(occlusion.boxes):
        return ""
    return f"{occlusion.occluder} {np.round(occlusion.boxes, 2).tolist()}"


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
