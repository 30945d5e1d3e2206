"""Cached tokens of frozen backbones: computed once for a few views of each record, read by every later run.

Letters: R records · V views of each · C, H, W of the tokens · S side of the input · N keypoints.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from salvit.backbones.files import hash_weights
from salvit.backbones.weights import cache_folder
from salvit.config import to_mapping
from salvit.data.augment import AugmentSettings, View, draw_view
from salvit.data.crops import Crop
from salvit.data.images import image_hw as read_image_hw
from salvit.data.splits import Problem
from salvit.data.views import LoadedView, load_view
from salvit.model.detector import SalViT
from salvit.model.encoder import EncoderInput
from salvit.types import BoolArray, FloatArray, Record

SaliencyOf = Callable[[Record], npt.NDArray[np.float32]]
Track = Callable[[Iterable[Any], int, str], Iterable[Any]]
_BATCH = 16


@dataclass(frozen=True, kw_only=True)
class ViewSettings:
    """Which views of each record are cached."""

    crop: Crop
    views: int
    seed: int
    augment: AugmentSettings | None
    """None: views differ in their window alone."""


@dataclass(frozen=True, slots=True)
class TokenCache:
    """Tokens and labels of some records, in memory-mapped files."""

    tokens: npt.NDArray[np.float16]
    """(R·V, C, H, W)."""
    pixels: npt.NDArray[np.uint8]
    """(R·V, S, S, 3): the saliency embedding looks at them."""
    saliency: npt.NDArray[np.uint8] | None
    """(R·V, S, S), where the model uses one."""
    rows: dict[str, int]
    """Record id → its first row."""
    views: int
    names: dict[str, tuple[str, ...]]
    points: dict[str, FloatArray]
    """Record id → (V, N, 2) in the input."""
    visible: dict[str, BoolArray]
    boxes: dict[str, FloatArray]
    """Record id → (V, 4)."""

    def encoder_input(self, picks: Sequence[tuple[str, int]], device: torch.device) -> EncoderInput:
        """What the encoder takes, for some (record id, view)."""
        rows = [self.rows[record_id] + view for record_id, view in picks]
        tokens = torch.from_numpy(np.stack([self.tokens[row] for row in rows])).to(device).float()
        pixels = torch.from_numpy(np.stack([self.pixels[row] for row in rows])).to(device)
        saliency = None
        if self.saliency is not None:
            saliency = torch.from_numpy(np.stack([self.saliency[row] for row in rows])).to(device).float() / 255.0
        return EncoderInput(tokens, pixels.permute(0, 3, 1, 2).float() / 255.0, saliency)

    def labels(self, record_id: str, view: int, names: tuple[str, ...]) -> tuple[FloatArray, BoolArray]:
        """Points (N, 2) and visibility (N,) of the named keypoints in one view."""
        own = self.names[record_id]
        columns = [own.index(name) if name in own else -1 for name in names]
        points = np.where(np.array(columns)[:, None] >= 0, self.points[record_id][view][columns], 0.0)
        return points, self.visible[record_id][view][columns] & (np.array(columns) >= 0)


def open_cache(
    model: SalViT,
    problem: Problem,
    records: Sequence[Record],
    settings: ViewSettings,
    *,
    saliency_of: SaliencyOf | None = None,
    track: Track,
) -> TokenCache:
    """The cache of these records, views and weights; what is missing of it is computed first.

    An interrupted computation goes on where it was. The folder is keyed by everything that the tokens depend on.
    """
    folder = cache_folder() / "tokens" / _key(model, problem, records, settings)
    folder.mkdir(parents=True, exist_ok=True)
    views = [
        draw_cached_view(record, problem, settings, number) for record in records for number in range(settings.views)
    ]
    cache = _map(folder, model, views, settings.views)
    done = _rows_done(folder)
    labels: list[dict[str, Any]] = _read_labels(folder)[:done]
    starts = list(range(done, len(views), _BATCH))
    for start in track(starts, len(starts), "caching tokens") if starts else ():
        labels += _fill(cache, model, views[start : start + _BATCH], start, problem, saliency_of)
        if (start // _BATCH) % 16 == 15 or start + _BATCH >= len(views):
            _save_progress(folder, cache, labels)
    return _with_labels(cache, records, labels, settings.views)


def draw_cached_view(record: Record, problem: Problem, settings: ViewSettings, number: int) -> View:
    """View ``number`` of a record; it depends on the seed, the record's id and the number alone."""
    digest = hashlib.sha256(record.id.encode()).digest()
    rng = np.random.default_rng(np.random.SeedSequence([settings.seed, number, int.from_bytes(digest[:8], "big")]))
    hw = record.image_hw or read_image_hw(record.path)
    return draw_view(record, hw, settings.crop, rng, settings.augment, can_flip=bool(problem.split.pairs))


def _fill(
    cache: TokenCache,
    model: SalViT,
    views: Sequence[View],
    start: int,
    problem: Problem,
    saliency_of: SaliencyOf | None,
) -> list[dict[str, Any]]:
    """Compute one batch of rows."""
    loaded = [_load(view, model.input_size, problem, saliency_of) for view in views]
    pixels = torch.from_numpy(np.stack([one.pixels for one in loaded])).to(model.device)
    planes = [one.saliency for one in loaded if one.saliency is not None]
    maps = torch.from_numpy(np.stack(planes)).to(model.device).float() / 255.0 if planes else None
    with torch.inference_mode():
        prepared = model.prepare(pixels.permute(0, 3, 1, 2).float() / 255.0, maps)
    rows = slice(start, start + len(views))
    cache.tokens[rows] = prepared.raw.half().cpu().numpy()
    cache.pixels[rows] = np.stack([one.pixels for one in loaded])
    if cache.saliency is not None and prepared.saliency is not None:
        cache.saliency[rows] = (prepared.saliency * 255.0).round().byte().cpu().numpy()
    return [
        {"points": one.points_input.tolist(), "visible": one.visible.tolist(), "box": list(one.box_input)}
        for one in loaded
    ]


def _load(view: View, size: int, problem: Problem, saliency_of: SaliencyOf | None) -> LoadedView:
    saliency = saliency_of(view.record) if saliency_of is not None else None
    return load_view(view, size, view.record.names, pairs=problem.split.pairs, saliency=saliency)


def _map(folder: Path, model: SalViT, views: Sequence[View], num_views: int) -> TokenCache:
    side, cells = model.input_size, model.encoder.grid_hw
    shapes: dict[str, tuple[Any, tuple[int, ...]]] = {
        "tokens": (np.float16, (len(views), model.backbone.channels, *cells)),
        "pixels": (np.uint8, (len(views), side, side, 3)),
    }
    if model.settings.saliency != "none":
        shapes["saliency"] = (np.uint8, (len(views), side, side))
    files = {}
    for name, (dtype, shape) in shapes.items():
        path = folder / f"{name}.bin"
        if not path.exists():
            np.memmap(path, dtype=dtype, mode="w+", shape=shape).flush()
        files[name] = np.memmap(path, dtype=dtype, mode="r+", shape=shape)
    return TokenCache(files["tokens"], files["pixels"], files.get("saliency"), {}, num_views, {}, {}, {}, {})


def _with_labels(cache: TokenCache, records: Sequence[Record], labels: list[dict[str, Any]], views: int) -> TokenCache:
    def stack(number: int, name: str, dtype: Any) -> Any:
        rows = [labels[number * views + view][name] for view in range(views)]
        return np.array(rows, dtype=dtype)

    numbered = list(enumerate(records))
    return TokenCache(
        cache.tokens,
        cache.pixels,
        cache.saliency,
        rows={record.id: number * views for number, record in numbered},
        views=views,
        names={record.id: record.names for record in records},
        points={record.id: stack(number, "points", np.float64).reshape(views, -1, 2) for number, record in numbered},
        visible={record.id: stack(number, "visible", bool) for number, record in numbered},
        boxes={record.id: stack(number, "box", np.float64) for number, record in numbered},
    )


def _rows_done(folder: Path) -> int:
    return len(_read_labels(folder))


def _read_labels(folder: Path) -> list[dict[str, Any]]:
    path = folder / "labels.json"
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else []


def _save_progress(folder: Path, cache: TokenCache, labels: list[dict[str, Any]]) -> None:
    """Rows first, then the labels that say that they are there."""
    for array in (cache.tokens, cache.pixels, cache.saliency):
        if isinstance(array, np.memmap):
            array.flush()
    partial = folder / f".labels.{os.getpid()}.part"
    partial.write_text(json.dumps(labels), encoding="utf-8")
    os.replace(partial, folder / "labels.json")


def _key(model: SalViT, problem: Problem, records: Sequence[Record], settings: ViewSettings) -> str:
    """A hash of everything that the cached values depend on."""
    parts = {
        "weights": hash_weights(model.backbone),
        "backbone": to_mapping(model.settings.backbone),
        "size": model.input_size,
        "saliency": model.settings.saliency,
        "data": problem.name,
        "records": [record.id for record in records],
        "views": to_mapping(settings),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]
