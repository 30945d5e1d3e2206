"""The pictures of a frozen list, encoded once for all of its episodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from salvit.data.augment import View
from salvit.data.episodes import Episode
from salvit.data.frozen import FrozenList
from salvit.data.occlude import Occlusion
from salvit.data.views import load_view
from salvit.geometry import Window, fit_square
from salvit.near import finder_of, near_windows
from salvit.types import Detector, Encoded, FittedImage, Record

SaliencyOf = Callable[[Record], npt.NDArray[np.float32]]
Track = Callable[[Iterable[Any], int, str], Iterable[Any]]
Ways = Literal["one", "supports", "both"]
"""Pictures as they are; supports learnt mirrored too; supports and queries mirrored too."""
MOST_LOOKED_AT = 4096
"""What a head makes of a picture is kept for lists of at most so many: it takes about half a megabyte a picture."""
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
    near: dict[tuple[str, str], Window] = field(default_factory=dict)
    """:attr:`FrozenList.near` of these images and the others, where the detector finds objects."""

    def pick(self, keys: Sequence[tuple[str, str]]) -> Encoded:
        """Some of the images, in float32."""
        import torch

        found = [self._find(key) for key in keys]
        features = torch.stack([encoded.features[row] for encoded, row in found]).float()
        maps = [encoded.saliency[row] for encoded, row in found if encoded.saliency is not None]
        looked = [encoded.looked[row] for encoded, row in found if encoded.looked is not None]
        return Encoded(
            features,
            tuple(encoded.fits[row] for encoded, row in found),
            torch.stack(maps) if maps else None,
            torch.stack(looked).float() if len(looked) == len(found) else None,
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
    is_shared: bool = False,
    track: Track,
) -> EncodedList:
    """Encode the views of a list that are not ``known``, near objects by a detector that finds them.

    Features are kept as float16. With ``is_shared`` what a frozen backbone makes of the pictures is kept on disk, for
    other models that read it (:mod:`salvit.prepared_lists`).
    """
    frozen = near_list(detector, frozen, {} if known is None else known.near, batch=batch, track=track)
    wanted = {key: view for key, view in views_of_list(frozen) if known is None or not known.has(key)}
    if known is not None and not wanted:
        return known
    if is_shared and _shares_backbone(detector):
        return replace(_encode_shared(detector, wanted, saliency_of, batch, track), others=known, near=frozen.near)

    def encode(images: Sequence[FittedImage]) -> list[Encoded]:
        return [_looked_at(detector, detector.encode(images), len(wanted))]

    (made,) = _encode(encode, detector.input_size, wanted, saliency_of, batch, track)
    return replace(made, others=known, near=frozen.near)


def _shares_backbone(detector: Detector) -> bool:
    from salvit.prepared_lists import shares_backbone

    return shares_backbone(detector)


def _encode_shared(
    detector: Detector,
    wanted: dict[tuple[str, str], tuple[View, Occlusion | None]],
    saliency_of: SaliencyOf | None,
    batch: int,
    track: Track,
) -> EncodedList:
    """As :func:`_encode`, the backbone's part from disk where another model had it run."""
    from salvit.features import stamp_of
    from salvit.model.detector import SalViT
    from salvit.prepared_lists import open_prepared

    assert isinstance(detector, SalViT)
    keys, size = list(wanted), detector.input_size

    def load(numbers: Sequence[int]) -> list[FittedImage]:
        return [fit_view(*wanted[keys[number]], size, saliency_of) for number in numbers]

    names = [f"{stamp_of(view.record)} {key} {view.window}" for key, (view, _) in wanted.items()]
    cache, parts = open_prepared(detector, names, load, track=track), []
    for part in track(list(_batches(range(len(keys)), batch)), -(-len(keys) // batch), "reading"):
        fits = tuple(fit_square(wanted[keys[number]][0].window, size) for number in part)
        rows = cache.encoder_input([(names[number], 0) for number in part], detector.device)
        parts.append(_kept(_looked_at(detector, detector.encode_prepared(rows, fits), len(keys))))
    return EncodedList(_joined(parts), {key: row for row, key in enumerate(keys)}, seconds=None)


def _looked_at(detector: Detector, encoded: Encoded, pictures: int) -> Encoded:
    """With what a network's head makes of a picture alone: in a list most pictures are searched many times."""
    from salvit.model.detector import SalViT

    return detector.look(encoded) if isinstance(detector, SalViT) and pictures <= MOST_LOOKED_AT else encoded


def near_list(
    detector: Detector, frozen: FrozenList, known: dict[tuple[str, str], Window], *, batch: int = 16, track: Track
) -> FrozenList:
    """The list as a detector that finds objects looks at it: near what it finds; else the list as it is.

    The object is looked for inside the list's own windows, and no label of a query says where. ``known`` windows are
    not looked for again.
    """
    find = finder_of(detector)
    if find is None:
        return frozen
    wanted = {key: view for key, view in views_of_list(frozen) if key not in known}
    near, size = dict(known), detector.input_size
    for keys in track(list(_batches(list(wanted), batch)), -(-len(wanted) // batch), "finding objects"):
        images = [fit_view(*wanted[key], size, None) for key in keys]
        near |= dict(zip(keys, near_windows(find, images), strict=True))
    return replace(frozen, near=near)


def encode_mirrored(
    detector: Detector,
    frozen: FrozenList,
    ways: Ways,
    *,
    saliency_of: SaliencyOf | None = None,
    near: dict[tuple[str, str], Window] | None = None,
    batch: int = 16,
    known: EncodedList | None = None,
    track: Track,
) -> EncodedList | None:
    """Encode the views that ``ways`` wants mirrored and that are not ``known``; None: it wants none.

    Where no pair is stated that is an error. ``near`` is that of the list as it was encoded: windows that are found
    again may differ in their last digit.
    """
    from salvit.flip import mirror

    if ways == "one":
        return None
    if not frozen.problem.split.pairs:
        raise ValueError(
            f"{frozen.problem.name} states no left/right pairs: mirrored, its sides would be mixed up; leave out --ways"
        )

    frozen = near_list(detector, frozen, near or {}, batch=batch, track=track)
    views = views_of_list(frozen, supports_only=ways == "supports")
    wanted = {key: view for key, view in views if known is None or not known.has(key)}
    if known is not None and not wanted:
        return known

    def encode(images: Sequence[FittedImage]) -> list[Encoded]:
        return [_looked_at(detector, detector.encode([mirror(image) for image in images]), len(wanted))]

    return replace(_encode(encode, detector.input_size, wanted, saliency_of, batch, track)[0], others=known)


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
    looked = None if encoded.looked is None else encoded.looked.half().cpu()
    return Encoded(encoded.features.half().cpu(), encoded.fits, maps, looked)


def _joined(parts: Sequence[Encoded]) -> Encoded:
    import torch

    maps = [part.saliency for part in parts if part.saliency is not None]
    looked = [part.looked for part in parts if part.looked is not None]
    fits = tuple(fit for part in parts for fit in part.fits)
    features = torch.cat([part.features for part in parts])
    return Encoded(features, fits, torch.cat(maps) if maps else None, torch.cat(looked) if looked else None)


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
            yield support_key(frozen, view), (view, None)
        if supports_only:
            continue
        occlusions = episode.occlusions or (None,) * len(episode.queries)
        for view, occlusion in zip(episode.queries, occlusions, strict=True):
            yield (view.record.id, "" if occlusion is None else occlusion.key), (view, occlusion)


def query_keys(episode: Episode) -> list[tuple[str, str]]:
    """Where an :class:`EncodedList` has an episode's queries."""
    occlusions = episode.occlusions or (None,) * len(episode.queries)
    pairs = zip(episode.queries, occlusions, strict=True)
    return [(view.record.id, "" if hidden is None else hidden.key) for view, hidden in pairs]


def support_key(frozen: FrozenList, view: View) -> tuple[str, str]:
    """Where an :class:`EncodedList` has a support: with clean queries, or apart where its marks widen its window."""
    is_own = view.window == frozen.view(view.record.id).window
    return view.record.id, "" if is_own else f"holds {view.window}"


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
