"""Frozen lists: episodes drawn once and kept in a file, so that every method is scored on the same ones.

Each record's crop window and occlusion blocks are drawn once for the whole list, so that its tokens can be cached. The
file's form is described in ``docs/formats.md``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from salvit.data.annotation_files import need_keys, read_json
from salvit.data.augment import View, draw_view
from salvit.data.crops import inner_window, near_window
from salvit.data.episodes import DrawnRecords, Episode, EpisodePool, EpisodeSettings, SaliencyOf
from salvit.data.images import image_hw as read_image_hw
from salvit.data.occlude import Blocks, Occluder, Occlusion, sample_blocks
from salvit.data.splits import Kind, Problem, Purpose, Role, check_allowed
from salvit.data.views import select_keypoints
from salvit.geometry import Window
from salvit.types import Record

SCHEMA = "salvit-frozen-list/1"
KEYS = (
    "schema", "data", "unseen", "role", "shots", "queries", "crop", "seed", "keypoint_sets", "records", "episodes",
    "hash",
)  # fmt: skip


def freeze(
    problem: Problem,
    settings: EpisodeSettings,
    *,
    episodes: int,
    seed: int,
    role: Role = "report",
    kinds: Sequence[Kind] | None = None,
    saliency_of: SaliencyOf | None = None,
) -> dict[str, Any]:
    """Draw a list: so many episodes of each kind, in turn.

    Args:
        problem: Divided data.
        settings: Shots (a single number), queries and crop; a frozen list has no augmentation.
        episodes: Of each kind.
        seed: The same seed and data give the same list and hash.
        role: The part to draw from.
        kinds: Which keypoints; None: novel and base, or what the part has where species have keypoints of their own.
        saliency_of: Needed by the crop ``saliency`` only.
    """
    if settings.augment is not None or not isinstance(settings.shots, int):
        raise ValueError("a frozen list has one number of shots and no augmentation")
    if kinds is None:
        own: tuple[Kind, ...] = ("novel",) if role == "report" else ("base",)
        kinds = own if problem.split.keypoints_by_species else ("novel", "base")
    purpose: Purpose = "report" if role == "report" else "tune"
    pools = [EpisodePool(problem, role, kind, settings, purpose=purpose, seed=seed) for kind in kinds]
    keypoint_sets: dict[str, list[str]] = {}
    drawn: dict[str, Record] = {}
    rows = []
    for index in range(episodes):
        for number, pool in enumerate(pools):
            rng = np.random.default_rng(np.random.SeedSequence([seed, number, index]))
            chosen = pool.draw_records(rng)
            key = f"{pool.kind}:{chosen.species}" if problem.split.keypoints_by_species else pool.kind
            keypoint_sets[key] = list(chosen.names)
            drawn.update((record.id, record) for record in chosen.supports + chosen.queries)
            rows.append(_episode_row(pool.kind, key, chosen))
    values: dict[str, Any] = {
        "schema": SCHEMA,
        "data": problem.name,
        "unseen": problem.unseen,
        "role": role,
        "shots": settings.shots,
        "queries": settings.queries,
        "crop": settings.crop,
        "seed": seed,
        "keypoint_sets": keypoint_sets,
        "records": {key: _freeze_record(drawn[key], settings, seed, saliency_of) for key in sorted(drawn)},
        "episodes": rows,
    }
    return {**values, "hash": list_hash(values)}


def list_hash(values: dict[str, Any]) -> str:
    """SHA-256 of a list as JSON with sorted keys and no spaces, without its own ``hash``."""
    kept = {key: value for key, value in values.items() if key != "hash"}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _episode_row(kind: Kind, key: str, chosen: DrawnRecords) -> dict[str, Any]:
    return {
        "kind": kind,
        "species": chosen.species,
        "keypoints": key,
        "supports": [record.id for record in chosen.supports],
        "queries": [record.id for record in chosen.queries],
    }


def _freeze_record(
    record: Record, settings: EpisodeSettings, seed: int, saliency_of: SaliencyOf | None
) -> dict[str, Any]:
    """Window and blocks of one record; its draws depend on the seed and its id alone."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, _seed_of(record.id)]))
    image_hw = record.image_hw or read_image_hw(record.path)
    saliency = saliency_of(record) if settings.crop == "saliency" and saliency_of is not None else None
    view = draw_view(record, image_hw, settings.crop, rng, saliency=saliency)
    box = inner_window(record, image_hw, "gt-tight")
    blocks = sample_blocks(record.points, record.visible, box, image_hw, rng)
    rows = [
        [*(round(float(side), 2) for side in sides), round(float(draw), 6)] if draw < 1 else None
        for sides, draw in zip(blocks.boxes, blocks.draws, strict=True)
    ]
    return {
        "image_hw": list(image_hw),
        "window": [round(float(side), 2) for side in view.window],
        "blocks": {name: row for name, row in zip(record.names, rows, strict=True) if row is not None},
    }


@dataclass(frozen=True, slots=True)
class FrozenList:
    """A frozen list over data: gives its episodes by index, as a pool does."""

    values: dict[str, Any]
    records: dict[str, Record]
    problem: Problem
    occluder: Occluder | None = None
    probability: float = 0.0
    """Each query keypoint is hidden with this probability, where there is an occluder."""
    near: dict[tuple[str, str], Window] = field(default_factory=dict)
    """(record id, what hides which of its keypoints) → window of a near look, where a detector found the object."""

    def __len__(self) -> int:
        return len(self.values["episodes"])

    @property
    def hash(self) -> str:
        """The list's hash, for results."""
        return str(self.values["hash"])

    def draw(self, index: int) -> Episode:
        """Episode number ``index``."""
        row = self.values["episodes"][index]
        names = tuple(self.values["keypoint_sets"][row["keypoints"]])
        occlusions = tuple(self._occlusion(record_id, names) for record_id in row["queries"])
        hidden = zip(row["queries"], occlusions, strict=True)
        return Episode(
            row["kind"],
            row["species"],
            names,
            tuple(self._holding(self.view(record_id), names) for record_id in row["supports"]),
            tuple(self.view(record_id, "" if one is None else one.key) for record_id, one in hidden),
            pairs=self.problem.split.pairs,
            occlusions=occlusions if self.occluder is not None else (),
            seed=index,
        )

    def view(self, record_id: str, hidden: str = "") -> View:
        """The one view of a record; its near window, where one was found in what ``hidden`` leaves to be seen."""
        x1, y1, x2, y2 = self.near.get((record_id, hidden)) or self.values["records"][record_id]["window"]
        return View(self.records[record_id], (x1, y1, x2, y2))

    def _holding(self, view: View, names: tuple[str, ...]) -> View:
        """A support, its near window widened to hold its marks: those that the list's own window holds."""
        if not self.near:
            return view
        x1, y1, x2, y2 = self.values["records"][view.record.id]["window"]
        points, visible = select_keypoints(view.record, names)
        edges = points[visible] + 0.5
        edges = edges[((edges >= (x1, y1)) & (edges <= (x2, y2))).all(-1)]
        return View(view.record, near_window(view.window, (x1, y1, x2, y2), edges, margin=0.0))

    def blocks(self, record_id: str, names: tuple[str, ...]) -> Blocks:
        """The blocks of some keypoints of a record."""
        rows = self.values["records"][record_id]["blocks"]
        none = [0.0, 0.0, 0.0, 0.0, 1.0]
        values = np.array([rows.get(name, none) for name in names], dtype=np.float64).reshape(-1, 5)
        return Blocks(values[:, :4], values[:, 4])

    def _occlusion(self, record_id: str, names: tuple[str, ...]) -> Occlusion | None:
        if self.occluder is None:
            return None
        boxes = self.blocks(record_id, names).chosen(self.probability)
        return Occlusion(self.occluder, boxes, _seed_of(record_id) % 2**31)


def write_frozen(values: dict[str, Any], path: Path, *, overwrite: bool = False) -> None:
    """Write a list as JSON; an existing file is kept unless asked."""
    if path.exists() and not overwrite:
        raise ValueError(f"{path} exists; choose another name, or give --overwrite")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values, separators=(",", ":")) + "\n", encoding="utf-8")


def read_frozen(
    path: Path,
    problem: Problem,
    *,
    purpose: Purpose,
    occluder: Occluder | None = None,
    probability: float = 0.0,
) -> FrozenList:
    """Read a list and join it to data.

    Args:
        path: The file.
        problem: The data that it was drawn from.
        purpose: What it is used for; a list of report species is refused for anything but a report.
        occluder: Hide query keypoints with this.
        probability: How often, in [0, 1].

    Raises:
        ValueError: The file is broken or changed, belongs to other data, or must not be used for the purpose.
    """
    values = read_json(path)
    need_keys(values, KEYS, str(path))
    if values["schema"] != SCHEMA:
        raise ValueError(f"{path}: its schema is {values['schema']!r}; this version reads {SCHEMA!r}")
    if list_hash(values) != values["hash"]:
        raise ValueError(f"{path}: the hash does not fit the content; the file was changed: freeze the list again")
    if (values["data"], values["unseen"]) != (problem.name, problem.unseen):
        raise ValueError(
            f"{path} is a list of {values['data']}/{values['unseen']}, not of {problem.name}/{problem.unseen}"
        )
    records = {record.id: record for record in problem.records[values["role"]] if record.id in values["records"]}
    for record_id, entry in values["records"].items():
        if record_id not in records:
            raise ValueError(f"{path}: the record {record_id} is not among the data; is this another copy of the set?")
        if records[record_id].image_hw not in (None, tuple(entry["image_hw"])):
            raise ValueError(
                f"{path}: the image of {record_id} was {entry['image_hw']} (height, width) and is "
                f"{list(records[record_id].image_hw or ())} here; a list belongs to one copy of the images"
            )
    check_allowed(problem, purpose, records.values())
    return FrozenList(values, records, problem, occluder, probability)


def _seed_of(record_id: str) -> int:
    return int.from_bytes(hashlib.sha256(record_id.encode()).digest()[:8], "big")
