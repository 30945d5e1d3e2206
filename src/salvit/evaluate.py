"""Evaluation on frozen lists in two steps: 1 predict to a file, 2 score the file.

The prediction file holds nothing but what a detector said, so a metric can be corrected without running it again, and
anybody's predictions can be scored by the same code (schema in docs/formats.md).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from salvit.data.augment import View
from salvit.data.episodes import Episode
from salvit.data.frozen import FrozenList, list_hash
from salvit.data.occlude import Occlusion
from salvit.data.views import load_view
from salvit.geometry import fit_square
from salvit.types import Detector, Encoded, Example, FittedImage, Pack, Prediction, Record

if TYPE_CHECKING:
    from salvit.model.detector import SalViT
    from salvit.transductive import TransductiveSettings, Truth

SCHEMA = "salvit-predictions-1"
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
    seconds: float
    """What encoding took, reading included."""
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

    def has(self, key: tuple[str, str]) -> bool:
        """Whether that image is here or with the others."""
        return key in self.rows or (self.others is not None and self.others.has(key))

    def _find(self, key: tuple[str, str]) -> tuple[Encoded, int]:
        if key in self.rows:
            return self.encoded, self.rows[key]
        assert self.others is not None, key
        return self.others._find(key)


def part_of_list(
    frozen: FrozenList,
    *,
    queries: int | None = None,
    episodes: int | None = None,
    kind: str | None = None,
    shots: int | None = None,
) -> FrozenList:
    """A list of the first supports and queries of the first episodes (of all kinds or one), with a hash of its own.

    The same list and numbers always give the same part.
    """
    rows, seen = [], dict[str, int]()
    for row in frozen.values["episodes"]:
        seen[row["kind"]] = seen.get(row["kind"], 0) + 1
        if (kind is None or row["kind"] == kind) and (episodes is None or seen[row["kind"]] <= episodes):
            rows.append({**row, "supports": row["supports"][:shots], "queries": row["queries"][:queries]})
    if rows == frozen.values["episodes"]:
        return frozen
    if not rows:
        raise ValueError(f"the list holds no episode of kind {kind!r}; it has {', '.join(sorted(seen))}")
    asked = {"queries": queries, "episodes": episodes, "kind": kind, "shots": shots}
    whole = {
        "queries": frozen.values["queries"],
        "shots": frozen.values["shots"],
        "episodes": max(seen.values()),
        "is_up_to": any(len(row["queries"]) < frozen.values["queries"] for row in frozen.values["episodes"]),
        "hash": frozen.hash,
    }
    part = {"of": whole, **frozen.values.get("part", {}), **{k: v for k, v in asked.items() if v is not None}}
    counted = frozen.values["queries"] if queries is None else min(queries, frozen.values["queries"])
    values = {**frozen.values, "queries": counted, "shots": len(rows[0]["supports"]), "episodes": rows, "part": part}
    return replace(frozen, values={**values, "hash": list_hash(values)})


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
    wanted = {key: view for key, view in _views(frozen) if known is None or not known.has(key)}
    if known is not None and not wanted:
        return known
    (made,) = _encode(lambda images: [detector.encode(images)], detector.input_size, wanted, saliency_of, batch, track)
    return replace(made, others=known)


def encode_mirrored(
    detector: Detector,
    frozen: FrozenList,
    *,
    supports_only: bool,
    saliency_of: SaliencyOf | None = None,
    batch: int = 16,
    track: Track,
) -> EncodedList:
    """Encode the views of a list mirrored, those of its supports or all."""
    from salvit.flip import mirror

    def encode(images: Sequence[FittedImage]) -> list[Encoded]:
        return [detector.encode([mirror(image) for image in images])]

    wanted = dict(_views(frozen, supports_only=supports_only))
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
    return _encode(encode, input_size, dict(_views(frozen)), saliency_of, batch, track)


def _encode(
    encode: EncodeByAll,
    input_size: int,
    wanted: dict[tuple[str, str], tuple[View, Occlusion | None]],
    saliency_of: SaliencyOf | None,
    batch: int,
    track: Track,
) -> list[EncodedList]:
    import torch

    batches: list[list[Encoded]] = []
    start = time.perf_counter()
    for keys in track(list(_batches(list(wanted), batch)), -(-len(wanted) // batch), "encoding"):
        images = [fit_view(*wanted[key], input_size, saliency_of) for key in keys]
        batches.append([_kept(encoded) for encoded in encode(images)])
    seconds = time.perf_counter() - start
    made = []
    for parts in zip(*batches, strict=True):  # those of one detector
        maps = [part.saliency for part in parts if part.saliency is not None]
        fits = tuple(fit for part in parts for fit in part.fits)
        joined = Encoded(torch.cat([part.features for part in parts]), fits, torch.cat(maps) if maps else None)
        made.append(EncodedList(joined, {key: row for row, key in enumerate(wanted)}, seconds))
    return made


def _kept(encoded: Encoded) -> Encoded:
    maps = None if encoded.saliency is None else encoded.saliency.cpu()
    return Encoded(encoded.features.half().cpu(), encoded.fits, maps)


PredictEpisode = Callable[[int], list[dict[str, Any]]]
"""Episode number → a row for each of its queries."""


def predict_list(
    detector: Detector,
    frozen: FrozenList,
    encoded: EncodedList,
    about: dict[str, Any],
    path: Path,
    *,
    transductive: TransductiveSettings | None = None,
    mirrored: EncodedList | None = None,
    flip: bool = False,
    track: Track,
) -> None:
    """Write the predictions for every episode of a list; the file appears whole or not at all.

    The supports' points and the crop windows are all that a detector is told: nothing of the queries' labels. With
    ``transductive`` the queries of an episode help each other; its oracle and the authors' protocol look at labels, and
    are there for comparison alone. With ``mirrored`` (:func:`encode_mirrored`) supports are learnt both ways, and with
    ``flip`` queries are searched both ways too.
    """
    timing = {"encode_ms_per_image": round(1000 * encoded.seconds / max(len(encoded.rows), 1), 3)}
    write_predictions(
        lambda index: _predict_episode(detector, frozen, index, encoded, transductive, mirrored, flip),
        len(frozen),
        {"list_hash": frozen.hash, "model": detector.name, **stated_ellipses(detector), **about},
        path,
        track=track,
        timing=timing,
    )


def predict_fine_tuned(
    model: SalViT,
    frozen: FrozenList,
    steps: int,
    about: dict[str, Any],
    path: Path,
    *,
    saliency_of: SaliencyOf | None = None,
    track: Track,
) -> None:
    """The same after some steps on each episode's supports; the weights are restored after each episode."""
    write_predictions(
        lambda index: _predict_fine_tuned_episode(model, frozen, index, steps, saliency_of),
        len(frozen),
        {"list_hash": frozen.hash, "model": model.name, **stated_ellipses(model), **about},
        path,
        track=track,
        timing={},
    )


def stated_ellipses(detector: Detector) -> dict[str, Any]:
    """What a calibrated model says of its 1, 2 and 3 σ ellipses; nothing where it was not calibrated."""
    calibration = getattr(detector, "calibration", None)
    return {} if calibration is None else {"ellipse_radii": list(calibration.radii)}


def write_predictions(
    predict: PredictEpisode,
    episodes: int,
    about: dict[str, Any],
    path: Path,
    *,
    track: Track,
    timing: dict[str, float],
) -> None:
    """Write a prediction file, episode by episode."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    seconds, queries = 0.0, 0
    with partial.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"schema": SCHEMA, **about}) + "\n")
        for index in track(range(episodes), episodes, "predicting"):
            start = time.perf_counter()
            rows = predict(index)
            seconds, queries = seconds + time.perf_counter() - start, queries + len(rows)
            file.writelines(json.dumps(row) + "\n" for row in rows)
        timing = {"ms_per_query": round(1000 * seconds / max(queries, 1), 3), **timing}
        file.write(json.dumps({"timing": timing}) + "\n")
    os.replace(partial, path)


@dataclass(frozen=True, slots=True)
class Predictions:
    """A prediction file."""

    about: dict[str, Any]
    rows: dict[tuple[int, str], dict[str, Any]]
    """(episode, query's record id) → what was predicted."""


def read_predictions(path: Path) -> Predictions:
    """Read a prediction file; one that is cut or of another kind is an error."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; expected a prediction file (`salvit evaluate` writes one)")
    rows: dict[tuple[int, str], dict[str, Any]] = {}
    about: dict[str, Any] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as problem:
            raise ValueError(f"{path}, line {number}: not valid JSON ({problem})") from problem
        if number == 1:
            if not isinstance(row, dict) or row.get("schema") != SCHEMA:
                raise ValueError(f"{path} is not a prediction file of salvit: its first line must state {SCHEMA!r}")
            about = row
        elif "timing" in row:
            about = {**about, **row}
        else:
            rows[int(row["episode"]), str(row["query"])] = row
    return Predictions(about, rows)


def _predict_episode(
    detector: Detector,
    frozen: FrozenList,
    index: int,
    encoded: EncodedList,
    transductive: TransductiveSettings | None,
    mirrored: EncodedList | None,
    flip: bool,
) -> list[dict[str, Any]]:
    episode, pack, asked = learn_episode(detector, frozen, index, encoded, mirrored)
    if transductive is not None:
        from salvit.transductive import refine_pack

        truth = truth_of(episode, detector.input_size) if transductive.needs_truth else None
        pack = refine_pack(detector, pack, [asked], transductive, truth=truth)
    found = detector.locate(pack, asked)
    if flip and mirrored is not None:
        from salvit.flip import locate_mirrored, merge

        turned = locate_mirrored(detector, pack, mirrored.pick(_query_keys(episode)), asked.fits)
        found, _ = merge(found, turned, pack.pairs)
    return rows_of(index, episode, found)


def learn_episode(
    detector: Detector, frozen: FrozenList, index: int, encoded: EncodedList, mirrored: EncodedList | None = None
) -> tuple[Episode, Pack, Encoded]:
    """An episode, what its supports teach (both ways where they are there mirrored), and its encoded queries."""
    episode = frozen.draw(index)
    examples = [mark_view(view, episode, detector.input_size) for view in episode.supports]
    keys = [(view.record.id, "") for view in episode.supports]
    if mirrored is None:
        pack = detector.learn(examples, encoded.pick(keys))
    else:
        from salvit.flip import learn_both_ways, lone_sides

        pairs = tuple(pair for pair in frozen.problem.split.pairs if set(pair) <= set(episode.names))
        both = encoded.pick(keys), mirrored.pick(keys)
        pack = learn_both_ways(detector, examples, pairs, *both, one_way=lone_sides(episode.names, pairs))
        pack = replace(pack, pairs=pairs)
    return episode, pack, encoded.pick(_query_keys(episode))


def _query_keys(episode: Episode) -> list[tuple[str, str]]:
    occlusions = episode.occlusions or (None,) * len(episode.queries)
    return [(view.record.id, _occlusion_key(hidden)) for view, hidden in zip(episode.queries, occlusions, strict=True)]


def truth_of(episode: Episode, size: int) -> Truth:
    """The labels of an episode's queries, for the oracle and the authors' protocol."""
    import torch

    from salvit.transductive import Truth

    marks = [mark_view(view, episode, size) for view in episode.queries]
    sides = []
    for view in episode.queries:
        x1, y1, x2, y2 = view.record.box or view.window
        sides.append(max(x2 - x1, y2 - y1) * float(fit_square(view.window, size).scale_xy.mean()))
    return Truth(
        torch.tensor(np.stack([mark.points_input for mark in marks]), dtype=torch.float32),
        torch.tensor(np.stack([mark.visible for mark in marks])),
        torch.tensor(sides),
    )


def _predict_fine_tuned_episode(
    model: SalViT, frozen: FrozenList, index: int, steps: int, saliency_of: SaliencyOf | None
) -> list[dict[str, Any]]:
    import torch

    from salvit.finetune import fine_tuned

    episode = frozen.draw(index)
    size = model.input_size
    images = [fit_view(view, None, size, saliency_of) for view in episode.supports]
    marks = [mark_view(view, episode, size) for view in episode.supports]
    examples = [replace(mark, image=image) for mark, image in zip(marks, images, strict=True)]
    points = torch.from_numpy(np.stack([mark.points_input for mark in marks])).to(model.device, torch.float32)
    mask = torch.from_numpy(np.stack([mark.visible for mark in marks])).to(model.device)
    occlusions = episode.occlusions or (None,) * len(episode.queries)
    queries = [fit_view(*pair, size, saliency_of) for pair in zip(episode.queries, occlusions, strict=True)]
    with fine_tuned(model, model.prepare(*model.tensors(images)), points, mask, steps):
        return rows_of(index, episode, model.detect(model.learn(examples), queries))


def rows_of(index: int, episode: Episode, found: Prediction) -> list[dict[str, Any]]:
    """What a prediction file says of one episode: a row for each query."""
    order = [found.names.index(name) for name in episode.names]
    return [
        {
            "episode": index,
            "query": view.record.id,
            "points": np.round(found.points[q, order], 3).tolist(),
            "scores": np.round(found.scores[q, order], 5).tolist(),
            "presence": np.round(found.presence[q, order], 5).tolist(),
            "covariances": np.round(found.covariances[q, order], 4).tolist(),
        }
        for q, view in enumerate(episode.queries)
    ]


def _views(
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


def _occlusion_key(occlusion: Occlusion | None) -> str:
    """Views of a record differ by what hides it and where; one that nothing hides is the clean one."""
    if occlusion is None or not len(occlusion.boxes):
        return ""
    return f"{occlusion.occluder} {np.round(occlusion.boxes, 2).tolist()}"


def fit_view(view: View, occlusion: Occlusion | None, size: int, saliency_of: SaliencyOf | None) -> FittedImage:
    """A view as a detector sees it, without its labels."""
    saliency = saliency_of(view.record) if saliency_of is not None else None
    loaded = load_view(view, size, (), saliency=saliency, occlusion=occlusion)
    plane = None if loaded.saliency is None else loaded.saliency.astype(np.float32) / 255.0
    return FittedImage(loaded.pixels, fit_square(view.window, size), view.record.id, plane)


def mark_view(view: View, episode: Episode, size: int) -> Example:
    """A support without its pixels: they are encoded already."""
    from salvit.data.views import select_keypoints

    fit = fit_square(view.window, size)
    points, visible = select_keypoints(view.record, episode.names)
    points_input = fit.to_input(points)
    inside = ((points_input >= -0.5) & (points_input <= size - 0.5)).all(-1)
    blank = FittedImage(np.zeros((0, 0, 3), dtype=np.uint8), fit, view.record.id)
    return Example(blank, episode.names, points_input, visible & inside)


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
