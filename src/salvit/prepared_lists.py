"""What a frozen backbone makes of the pictures of frozen lists, on disk: every model that reads it shares it.

Tables compare many models on the same tokens and the same pictures; the backbone's pass is most of what looking at a
picture costs, and here it is run once for all of them. Rows are those of training's caches (:mod:`salvit.features`):
tokens in float16, pixels and saliency in 8 bits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from filelock import FileLock

from salvit.backbones.files import hash_weights
from salvit.backbones.weights import cache_folder
from salvit.config import to_mapping
from salvit.features import TokenCache, Track, is_cut, map_cache, put_rows, read_labels, save_rows
from salvit.model.detector import SalViT
from salvit.near import finder_of
from salvit.types import Detector, FittedImage

_BATCH = 16


def shares_backbone(detector: Detector) -> bool:
    """Whether other models see the same as this one: its backbone is frozen, and it looks at the list's own windows."""
    return isinstance(detector, SalViT) and not is_cut(detector) and finder_of(detector) is None


def open_prepared(
    model: SalViT, names: Sequence[str], load: Callable[[Sequence[int]], Sequence[FittedImage]], *, track: Track
) -> TokenCache:
    """Rows of these pictures; what is missing of them is computed first, and an interrupted computation goes on.

    ``names`` tell a picture from every other, with its window and what hides it; ``load`` gives some of them by number.
    """
    folder = cache_folder() / "lists" / _key(model)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        labels = read_labels(folder)
        there = {label["name"] for label in labels}
        missing = [number for number, name in enumerate(names) if name not in there]
        cache = map_cache(folder, model, len(labels) + len(missing), 1)
        starts = range(0, len(missing), _BATCH)
        for start in track(starts, len(starts), "encoding") if missing else ():
            part = missing[start : start + _BATCH]
            images = load(part)
            with torch.inference_mode():
                prepared = model.prepare(*model.tensors(images))
            put_rows(cache, len(labels), prepared, np.stack([image.pixels for image in images]))
            labels += save_rows(
                folder, (cache.tokens, cache.pixels, cache.saliency), [{"name": names[number]} for number in part]
            )
    rows = {(label["name"], 0): row for row, label in enumerate(labels)}
    return replace(cache, rows=rows, saliency=cache.saliency if _has_saliency(model) else None)


def _has_saliency(model: SalViT) -> bool:
    """Whether the model is given a map, from outside or from its backbone's own pass."""
    return model.encoder.uses_saliency or model.settings.saliency == "attentiveness"


def _key(model: SalViT) -> str:
    """A hash of everything that a row depends on beside its picture."""
    parts = {
        "weights": hash_weights(model.backbone),
        "backbone": to_mapping(model.settings.backbone),
        "size": model.input_size,
        "saliency": model.settings.saliency if _has_saliency(model) else None,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]
