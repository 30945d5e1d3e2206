"""Evaluation on frozen lists in two steps: 1 predict to a file, 2 score the file.

The prediction file holds nothing but what a detector said, so a metric can be corrected without running it again, and
anybody's predictions can be scored by the same code (schema in docs/formats.md).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from salvit.data.augment import View
from salvit.data.episodes import Episode
from salvit.data.frozen import FrozenList, list_hash
from salvit.encoded_lists import EncodedList, SaliencyOf, Track, Ways, fit_view, near_list, query_keys, support_key
from salvit.geometry import fit_square
from salvit.types import Detector, Encoded, Example, FittedImage, Pack, Prediction

if TYPE_CHECKING:
    from salvit.model.detector import SalViT
    from salvit.transductive import TransductiveSettings, Truth

SCHEMA = "salvit-predictions-1"


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
    ways: Ways = "one",
    mirrored: EncodedList | None = None,
    track: Track,
) -> None:
    """Write the predictions for every episode of a list; the file appears whole or not at all.

    The supports' points and the crop windows are all that a detector is told: nothing of the queries' labels. With
    ``transductive`` the queries of an episode help each other; its oracle and the authors' protocol look at labels, and
    are there for comparison alone. ``mirrored`` are the views that ``ways`` wants mirrored
    (:func:`salvit.encoded_lists.encode_mirrored`).
    """
    write_predictions(
        lambda index: _predict_episode(detector, frozen, index, encoded, transductive, ways, mirrored),
        len(frozen),
        {"list_hash": frozen.hash, "model": detector.name, **stated_ellipses(detector), **about},
        path,
        track=track,
        timing=encoded.timing,
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
    frozen = near_list(model, frozen, {}, track=track)
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
    ways: Ways,
    mirrored: EncodedList | None,
) -> list[dict[str, Any]]:
    episode, pack, asked = learn_episode(detector, frozen, index, encoded, mirrored)
    if transductive is not None:
        from salvit.transductive import refine_pack

        truth = truth_of(episode, detector.input_size) if transductive.needs_truth else None
        pack = refine_pack(detector, pack, [asked], transductive, truth=truth)
    found = detector.locate(pack, asked)
    if ways == "both":
        from salvit.flip import locate_mirrored, merge

        keys = query_keys(episode)
        if mirrored is None or not all(mirrored.has(key) for key in keys):
            raise ValueError("both ways need every picture of the list mirrored, as encode_mirrored gives them")
        turned = locate_mirrored(detector, pack, mirrored.pick(keys), asked.fits)
        found, _ = merge(found, turned, pack.pairs)
    return rows_of(index, episode, found)


def learn_episode(
    detector: Detector, frozen: FrozenList, index: int, encoded: EncodedList, mirrored: EncodedList | None = None
) -> tuple[Episode, Pack, Encoded]:
    """An episode, what its supports teach (both ways where they are there mirrored), and its encoded queries."""
    frozen = replace(frozen, near=encoded.near)
    episode = frozen.draw(index)
    examples = [mark_view(view, episode, detector.input_size) for view in episode.supports]
    keys = [support_key(frozen, view) for view in episode.supports]
    if mirrored is None:
        pack = detector.learn(examples, encoded.pick(keys))
    else:
        from salvit.flip import learn_both_ways, lone_sides

        stated = frozen.problem.split.pairs
        pairs = tuple(pair for pair in stated if set(pair) <= set(episode.names))
        both = encoded.pick(keys), mirrored.pick(keys)
        pack = learn_both_ways(detector, examples, pairs, *both, one_way=lone_sides(episode.names, pairs, stated))
        pack = replace(pack, pairs=pairs)
    return episode, pack, encoded.pick(query_keys(episode))


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
    with torch.no_grad():  # the backbone stays as it is
        prepared = model.prepare(*model.tensors(images))
    with fine_tuned(model, prepared, points, mask, steps):
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


def mark_view(view: View, episode: Episode, size: int) -> Example:
    """A support without its pixels: they are encoded already."""
    from salvit.data.views import select_keypoints

    fit = fit_square(view.window, size)
    points, visible = select_keypoints(view.record, episode.names)
    points_input = fit.to_input(points)
    inside = ((points_input >= -0.5) & (points_input <= size - 0.5)).all(-1)
    blank = FittedImage(np.zeros((0, 0, 3), dtype=np.uint8), fit, view.record.id)
    return Example(blank, episode.names, points_input, visible & inside)
