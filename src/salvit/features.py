"""Cached tokens of frozen backbones: computed once for a few views of each record, read by every later run.

A backbone of which a part is trained is cached up to that part, which then runs on the cached rows in every step.

Letters: R rows, one for each view of a record · C, H, W of the tokens · S side of the input · N keypoints.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from filelock import FileLock
from torch import Tensor, nn

from salvit.backbones import Backbone
from salvit.backbones.files import hash_weights
from salvit.backbones.weights import cache_folder
from salvit.config import to_mapping
from salvit.data.augment import AugmentSettings, View, draw_view
from salvit.data.crops import Crop
from salvit.data.images import image_hw as read_image_hw
from salvit.data.splits import Problem
from salvit.data.views import LoadedView, load_view
from salvit.geometry import fit_square
from salvit.model.detector import SalViT
from salvit.model.encoder import EncoderInput
from salvit.near import finder_of, near_windows
from salvit.types import BoolArray, FittedImage, FloatArray, Record

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
    is_near: bool = False
    """Each view is brought near the object that the model finds in it; without ``augment`` only."""

    def __post_init__(self) -> None:
        if self.is_near and self.augment is not None:
            raise ValueError("views near what a model finds are not augmented; leave out one of the two")


@dataclass(frozen=True, slots=True)
class TokenCache:
    """Tokens and labels of views of records, in memory-mapped files; a row for each view."""

    tokens: npt.NDArray[np.float16]
    """(R, C, H, W); where a part of the backbone is trained, what that part takes (:func:`begin`)."""
    pixels: npt.NDArray[np.uint8]
    """(R, S, S, 3): the saliency embedding looks at them."""
    saliency: npt.NDArray[np.uint8] | None
    """(R, S, S), where the model uses one."""
    rows: dict[tuple[str, int], int]
    """(Record id, view) → its row."""
    views: int
    """How many views of each record were asked for."""
    names: dict[str, tuple[str, ...]]
    points: list[FloatArray]
    """(N, 2) in the input, for each row."""
    visible: list[BoolArray]
    """(N,) for each row."""
    boxes: list[FloatArray]
    """(4,) in the input, for each row."""
    finish: Callable[[Tensor], Tensor]
    """Cached rows (B, …) to raw tokens (B, C, H, W), through the backbone's trained part where there is one."""

    def encoder_input(self, picks: Sequence[tuple[str, int]], device: torch.device) -> EncoderInput:
        """What the encoder takes, for some (record id, view)."""
        rows = [self.rows[pick] for pick in picks]
        tokens = torch.from_numpy(np.stack([self.tokens[row] for row in rows])).to(device).float()
        pixels = torch.from_numpy(np.stack([self.pixels[row] for row in rows])).to(device)
        saliency = None
        if self.saliency is not None:
            saliency = torch.from_numpy(np.stack([self.saliency[row] for row in rows])).to(device).float() / 255.0
        return EncoderInput(self.finish(tokens), pixels.permute(0, 3, 1, 2).float() / 255.0, saliency)

    def labels(self, record_id: str, view: int, names: tuple[str, ...]) -> tuple[FloatArray, BoolArray]:
        """Points (N, 2) and visibility (N,) of the named keypoints in one view."""
        own = self.names[record_id]
        columns = [own.index(name) if name in own else -1 for name in names]
        row, has = self.rows[record_id, view], np.array(columns) >= 0
        return np.where(has[:, None], self.points[row][columns], 0.0), self.visible[row][columns] & has


def is_cut(model: SalViT) -> bool:
    """Whether cached rows end before a part of the backbone that is trained.

    Not with ``attentiveness``: that map is made of finished tokens, so these are cached, and the part is not trained.
    """
    return bool(model.backbone.trainable_parts()) and model.settings.saliency != "attentiveness"


def begin(model: SalViT, images: Tensor, saliency: Tensor | None = None) -> EncoderInput:
    """What :meth:`SalViT.prepare` gives, its ``raw`` as it is cached."""
    if not is_cut(model):
        return model.prepare(images, saliency)
    return EncoderInput(model.backbone.begin(images), images, saliency)


def finish(model: SalViT, begun: Tensor) -> Tensor:
    """Cached rows (B, …) to the raw tokens (B, C, H, W) that :meth:`SalViT.prepare` gives."""
    if not is_cut(model):
        return begun
    rows = begun.contiguous(memory_format=torch.channels_last) if begun.ndim == 4 else begun  # two thirds of the time
    tokens = model.backbone.finish(rows)
    return tokens.scaled() if model.settings.backbone.is_normalised else tokens.joined()


def row_shape(model: SalViT) -> tuple[int, ...]:
    """The shape of what :func:`begin` gives for one image."""
    if not is_cut(model):
        return (model.backbone.channels, *model.encoder.grid_hw)
    blank = torch.zeros(1, 3, model.input_size, model.input_size, device=model.device)
    with torch.inference_mode():
        return tuple(model.backbone.begin(blank).shape[1:])


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

    The folder is keyed by everything that a row depends on, but not by which rows are asked for: problems of one data
    set share the rows of their common records, a run with more views adds to those that are there, and an interrupted
    computation goes on where it was. Rows of a record that has changed are made anew.
    """
    folder = token_folder(model, problem, settings)
    folder.mkdir(parents=True, exist_ok=True)
    stamps = {record.id: stamp_of(record) for record in records}
    with FileLock(folder / "lock"):
        labels = read_labels(folder)
        there = {(label["id"], label["view"]) for label in labels if is_of(label, stamps)}
        asked = [(record, number) for number in range(settings.views) for record in records]
        missing = [(record, number) for record, number in asked if (record.id, number) not in there]
        cache = map_cache(folder, model, len(labels) + len(missing), settings.views)
        starts = range(0, len(missing), _BATCH)
        for start in track(starts, len(starts), "caching tokens") if missing else ():
            part = missing[start : start + _BATCH]
            views = [draw_cached_view(record, problem, settings, number) for record, number in part]
            views = near_views(model, views) if settings.is_near else views
            made = _fill(cache, model, views, len(labels), problem, saliency_of)
            keys = [{"id": record.id, "view": number, "stamp": stamps[record.id]} for record, number in part]
            made = [key | label for key, label in zip(keys, made, strict=True)]
            labels += save_rows(folder, (cache.tokens, cache.pixels, cache.saliency), made)
    return _with_labels(cache, records, labels, stamps)


def stamp_of(record: Record) -> str:
    """Tells a record from another of the same name: a hash of its labels and of its picture's size in bytes.

    So another folder with a data set of the same name, or one that was corrected, does not get the rows of the first,
    as far as labels and size tell.
    """
    facts = [record.path.stat().st_size, record.names, record.points.tolist(), record.v.tolist(), record.box]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def is_of(label: dict[str, Any], stamps: dict[str, str]) -> bool:
    """Whether a row was made of one of these records, as it is now."""
    return bool(label.get("stamp", "") == stamps.get(label["id"]))


def draw_cached_view(record: Record, problem: Problem, settings: ViewSettings, number: int) -> View:
    """View ``number`` of a record; it depends on the seed, the record's id and the number alone."""
    rng = np.random.default_rng(seed_of_view(record.id, settings, number))
    hw = record.image_hw or read_image_hw(record.path)
    return draw_view(record, hw, settings.crop, rng, settings.augment, can_flip=bool(problem.split.pairs))


def near_views(model: SalViT, views: Sequence[View]) -> list[View]:
    """Views of records, near the object that the model finds in each."""
    size = model.input_size
    loaded = [load_view(view, size, ()) for view in views]
    images = [FittedImage(one.pixels, fit_square(view.window, size)) for one, view in zip(loaded, views, strict=True)]
    find = finder_of(model)
    if find is None:
        raise ValueError(f"{model.name} has no finder; `salvit teach-finder` gives it one")
    windows = near_windows(find, images)
    return [replace(view, window=window) for view, window in zip(views, windows, strict=True)]


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
        prepared = begin(model, pixels.permute(0, 3, 1, 2).float() / 255.0, maps)
    put_rows(cache, start, prepared, np.stack([one.pixels for one in loaded]))
    return [
        {"points": one.points_input.tolist(), "visible": one.visible.tolist(), "box": list(one.box_input)}
        for one in loaded
    ]


def put_rows(cache: TokenCache, start: int, prepared: EncoderInput, pixels: npt.NDArray[np.uint8]) -> None:
    """Write what was made of B pictures (B, S, S, 3) to the rows from ``start`` on."""
    rows = slice(start, start + len(pixels))
    cache.tokens[rows] = prepared.raw.half().cpu().numpy()
    cache.pixels[rows] = pixels
    if cache.saliency is not None and prepared.saliency is not None:
        cache.saliency[rows] = (prepared.saliency * 255.0).round().byte().cpu().numpy()


def _load(view: View, size: int, problem: Problem, saliency_of: SaliencyOf | None) -> LoadedView:
    saliency = saliency_of(view.record) if saliency_of is not None else None
    return load_view(view, size, view.record.names, pairs=problem.split.pairs, saliency=saliency)


def map_cache(folder: Path, model: SalViT, num_rows: int, num_views: int) -> TokenCache:
    """The files, made long enough for so many rows."""
    side = model.input_size
    shapes: dict[str, tuple[Any, tuple[int, ...]]] = {
        "tokens": (np.float16, row_shape(model)),
        "pixels": (np.uint8, (side, side, 3)),
    }
    if model.settings.saliency != "none":
        shapes["saliency"] = (np.uint8, (side, side))
    files = {name: map_rows(folder / f"{name}.bin", num_rows, *kind) for name, kind in shapes.items()}
    arrays = (files["tokens"], files["pixels"], files.get("saliency"))
    return TokenCache(*arrays, {}, num_views, {}, [], [], [], finish=partial(finish, model))


def map_rows(path: Path, num_rows: int, dtype: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """A file of rows of that shape, made long enough."""
    size = num_rows * math.prod(shape) * np.dtype(dtype).itemsize
    if not path.exists() or path.stat().st_size < size:
        with path.open("ab") as file:
            file.truncate(size)
    return np.memmap(path, dtype=dtype, mode="r+", shape=(num_rows, *shape))


def _with_labels(
    cache: TokenCache, records: Sequence[Record], labels: list[dict[str, Any]], stamps: dict[str, str]
) -> TokenCache:
    return TokenCache(
        cache.tokens,
        cache.pixels,
        cache.saliency,
        rows={(label["id"], label["view"]): row for row, label in enumerate(labels) if is_of(label, stamps)},
        views=cache.views,
        names={record.id: record.names for record in records},
        points=[np.array(label["points"], dtype=np.float64).reshape(-1, 2) for label in labels],
        visible=[np.array(label["visible"], dtype=bool) for label in labels],
        boxes=[np.array(label["box"], dtype=np.float64) for label in labels],
        finish=cache.finish,
    )


def read_labels(folder: Path) -> list[dict[str, Any]]:
    """The labels of the rows that are there; a line that was cut off by a crash is taken away."""
    path = folder / "labels.jsonl"
    if not path.is_file():
        return []
    content = path.read_text(encoding="utf-8")
    whole = content[: content.rfind("\n") + 1]
    if whole != content:
        path.write_text(whole, encoding="utf-8")
    return [json.loads(line) for line in whole.splitlines()]


def save_rows(folder: Path, arrays: Sequence[Any], labels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows first, then the labels that say that they are there."""
    for array in arrays:
        if isinstance(array, np.memmap):
            array.flush()
    with (folder / "labels.jsonl").open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(label) + "\n" for label in labels))
    return labels


def token_folder(model: SalViT, problem: Problem, settings: ViewSettings) -> Path:
    """The folder of all cached views of a data set that were made in the same way."""
    return cache_folder() / "tokens" / _key(model, problem, settings)


def seed_of_view(record_id: str, settings: ViewSettings, *numbers: int) -> np.random.SeedSequence:
    """A seed for the draws of one view of a record."""
    digest = hashlib.sha256(record_id.encode()).digest()
    return np.random.SeedSequence([settings.seed, *numbers, int.from_bytes(digest[:8], "big")])


def _key(model: SalViT, problem: Problem, settings: ViewSettings) -> str:
    """A hash of everything that a row depends on beside its record and view; so not of weights that are trained."""
    backbone = to_mapping(model.settings.backbone)
    backbone.pop("trained_blocks")  # the weights before them tell
    views = to_mapping(replace(settings, views=0))
    views.pop("is_near")  # the finder tells
    parts = {
        "weights": _hash_begin(model.backbone) if is_cut(model) else hash_weights(model.backbone),
        "backbone": backbone,
        "size": model.input_size,
        "saliency": model.settings.saliency,
        "data": problem.name,
        "pairs": problem.split.pairs,
        "views": views,
    }
    if settings.is_near and model.finder is not None:
        parts["finder"] = [hash_weights(model.finder), hash_weights(model.backbone)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def _hash_begin(backbone: Backbone) -> str:
    """SHA-256 over the weights of a backbone but those of its trained parts."""
    trained = {tensor.data_ptr() for part in backbone.trainable_parts() for tensor in part.state_dict().values()}
    kept = nn.Module()
    for key, tensor in backbone.state_dict().items():
        if tensor.data_ptr() not in trained:
            kept.register_buffer(key.replace(".", "/"), tensor)
    return hash_weights(kept)
