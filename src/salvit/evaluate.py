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
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from salvit.data.augment import View
from salvit.data.episodes import Episode
from salvit.data.frozen import FrozenList
from salvit.data.occlude import Occlusion
from salvit.data.views import load_view
from salvit.geometry import Fit, fit_square
from salvit.types import Detector, Encoded, Example, FittedImage, Prediction, Record

if TYPE_CHECKING:
    from salvit.model.detector import SalViT

SCHEMA = "salvit-predictions-1"
SaliencyOf = Callable[[Record], npt.NDArray[np.float32]]
Track = Callable[[Iterable[Any], int, str], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class EncodedList:
    """Every image of a frozen list, encoded once: each record has one view in it."""

    encoded: Encoded
    rows: dict[tuple[str, str], int]
    """(record id, keypoint set where it was occluded, else empty) → row of ``encoded``."""
    seconds: float
    """What encoding took, reading included."""


def encode_list(
    detector: Detector, frozen: FrozenList, *, saliency_of: SaliencyOf | None = None, batch: int = 16, track: Track
) -> EncodedList:
    """Encode the views of a list; features are kept as float16."""
    import torch

    wanted = dict(_views(frozen))
    features, maps, start = [], [], time.perf_counter()
    fits: list[Fit] = []
    for keys in track(list(_batches(list(wanted), batch)), -(-len(wanted) // batch), "encoding"):
        images = [_fitted(*wanted[key], detector.input_size, saliency_of) for key in keys]
        encoded = detector.encode(images)
        features.append(encoded.features.half().cpu())
        fits.extend(encoded.fits)
        if encoded.saliency is not None:
            maps.append(encoded.saliency.cpu())
    joined = Encoded(torch.cat(features), tuple(fits), torch.cat(maps) if maps else None)
    return EncodedList(joined, {key: row for row, key in enumerate(wanted)}, time.perf_counter() - start)


PredictEpisode = Callable[[int], list[dict[str, Any]]]
"""Episode number → a row for each of its queries."""


def predict_list(
    detector: Detector, frozen: FrozenList, encoded: EncodedList, about: dict[str, Any], path: Path, *, track: Track
) -> None:
    """Write the predictions for every episode of a list; the file appears whole or not at all.

    The supports' points and the crop windows are all that a detector is told: nothing of the queries' labels.
    """
    timing = {"encode_ms_per_image": round(1000 * encoded.seconds / max(len(encoded.rows), 1), 3)}
    write_predictions(
        lambda index: _predict_episode(detector, frozen, index, encoded),
        len(frozen),
        {"list_hash": frozen.hash, "model": detector.name, **about},
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
        {"list_hash": frozen.hash, "model": model.name, **about},
        path,
        track=track,
        timing={},
    )


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


def _predict_episode(detector: Detector, frozen: FrozenList, index: int, encoded: EncodedList) -> list[dict[str, Any]]:
    episode = frozen.draw(index)
    examples = [_example(view, episode, detector.input_size) for view in episode.supports]
    pack = detector.learn(examples, _rows_of(encoded, [(view.record.id, "") for view in episode.supports]))
    keys = [(view.record.id, _occlusion_key(frozen, episode)) for view in episode.queries]
    return _rows(index, episode, detector.locate(pack, _rows_of(encoded, keys)))


def _predict_fine_tuned_episode(
    model: SalViT, frozen: FrozenList, index: int, steps: int, saliency_of: SaliencyOf | None
) -> list[dict[str, Any]]:
    import torch

    from salvit.finetune import fine_tuned

    episode = frozen.draw(index)
    size = model.input_size
    images = [_fitted(view, None, size, saliency_of) for view in episode.supports]
    marks = [_example(view, episode, size) for view in episode.supports]
    examples = [replace(mark, image=image) for mark, image in zip(marks, images, strict=True)]
    points = torch.from_numpy(np.stack([mark.points_input for mark in marks])).to(model.device, torch.float32)
    mask = torch.from_numpy(np.stack([mark.visible for mark in marks])).to(model.device)
    occlusions = episode.occlusions or (None,) * len(episode.queries)
    queries = [_fitted(*pair, size, saliency_of) for pair in zip(episode.queries, occlusions, strict=True)]
    with fine_tuned(model, model.prepare(*model.tensors(images)), points, mask, steps):
        return _rows(index, episode, model.detect(model.learn(examples), queries))


def _rows(index: int, episode: Episode, found: Prediction) -> list[dict[str, Any]]:
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


def _views(frozen: FrozenList) -> Iterator[tuple[tuple[str, str], tuple[View, Occlusion | None]]]:
    """Every image that the list needs, by key; repeated ones are given again."""
    for index in range(len(frozen)):
        episode = frozen.draw(index)
        for view in episode.supports:
            yield (view.record.id, ""), (view, None)
        occlusions = episode.occlusions or (None,) * len(episode.queries)
        for view, occlusion in zip(episode.queries, occlusions, strict=True):
            yield (view.record.id, _occlusion_key(frozen, episode)), (view, occlusion)


def _occlusion_key(frozen: FrozenList, episode: Episode) -> str:
    """Which keypoints were hidden depends on the episode's keypoint set, so such views are kept apart by it."""
    return " ".join(episode.names) if frozen.occluder is not None else ""


def _fitted(view: View, occlusion: Occlusion | None, size: int, saliency_of: SaliencyOf | None) -> FittedImage:
    saliency = saliency_of(view.record) if saliency_of is not None else None
    loaded = load_view(view, size, (), saliency=saliency, occlusion=occlusion)
    plane = None if loaded.saliency is None else loaded.saliency.astype(np.float32) / 255.0
    return FittedImage(loaded.pixels, fit_square(view.window, size), view.record.id, plane)


def _example(view: View, episode: Episode, size: int) -> Example:
    """A support without its pixels: they are encoded already."""
    from salvit.data.views import select_keypoints

    fit = fit_square(view.window, size)
    points, visible = select_keypoints(view.record, episode.names)
    points_input = fit.to_input(points)
    inside = ((points_input >= -0.5) & (points_input <= size - 0.5)).all(-1)
    blank = FittedImage(np.zeros((0, 0, 3), dtype=np.uint8), fit, view.record.id)
    return Example(blank, episode.names, points_input, visible & inside)


def _rows_of(encoded: EncodedList, keys: Sequence[tuple[str, str]]) -> Encoded:
    chosen = encoded.encoded.select([encoded.rows[key] for key in keys])
    return Encoded(chosen.features.float(), chosen.fits, chosen.saliency)


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
