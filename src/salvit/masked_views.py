"""Masked views of training queries: patches of the foreground are hidden from picture, saliency and raw tokens.

Masks of saliency and tokens are drawn anew for every episode. A mask of the picture changes what the backbone sees, so
on cached tokens a few masked copies of each cached view are encoded once; the copy brings its mask with it.

Letters: Q queries · G patches of a side · H, W cells of the tokens · S side of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from filelock import FileLock
from torch import Tensor

from salvit.data.occlude import hide_patches, sample_patch_mask
from salvit.data.splits import Problem
from salvit.features import (
    TokenCache,
    Track,
    ViewSettings,
    begin,
    finish,
    is_of,
    map_rows,
    read_labels,
    row_shape,
    save_rows,
    seed_of_view,
    stamp_of,
    token_folder,
)
from salvit.geometry import MEAN_COLOUR
from salvit.model.detector import SalViT
from salvit.model.encoder import EncoderInput
from salvit.recipes import MaskingSettings
from salvit.types import BoolArray, Record

PATCHES = 12
"""The authors' masks lie on a grid of so many patches a side."""
_BATCH = 16


@dataclass(frozen=True, slots=True)
class MaskedQueries:
    """The masked view of an episode's queries."""

    query: EncoderInput
    hidden: Tensor
    """(Q, H, W) True where a cell is masked."""


@dataclass(frozen=True, slots=True)
class MaskedTokens:
    """Tokens of masked copies of cached views, in a memory-mapped file; a row for each copy."""

    tokens: npt.NDArray[np.float16]
    """(R, C, H, W); as in :class:`salvit.features.TokenCache`."""
    masks: list[BoolArray]
    """(G, G) for each row, True = hidden."""
    rows: dict[tuple[str, int, int], int]
    """(Record id, view, copy) → its row."""
    views: int
    """Copies of each view."""


class Masker(Protocol):
    """Draws the masked view of queries; ``picks`` are their (record id, view) where they come from a cache."""

    def draw(
        self, query: EncoderInput, rng: np.random.Generator, picks: Sequence[tuple[str, int]] = ()
    ) -> MaskedQueries | None:
        """The masked view; None in episodes that are not masked (``MaskingSettings.share``)."""
        ...


def cells_of_patch(grid: int) -> int:
    """Cells along the side of a masked patch, where the tokens have ``grid`` of them.

    Choice: whole cells, as near to a twelfth of the input (the authors' patch) as the grid divides: 1 of 12, 2 of 20
    or 24.
    """
    return min(
        (cells for cells in range(1, grid + 1) if grid % cells == 0), key=lambda cells: abs(cells - grid / PATCHES)
    )


def check_masking(model: SalViT, settings: MaskingSettings) -> None:
    """Refuse masks for a model that they cannot be drawn for."""
    if settings.is_on and model.settings.saliency == "none":
        raise ValueError(
            "train.masking hides patches of the foreground, and this model has no saliency that says where it is; "
            "set model.saliency, or train without masking"
        )


class FreshMasker:
    """Draws every mask anew; where the picture is masked, the backbone runs on it."""

    def __init__(self, model: SalViT, settings: MaskingSettings) -> None:
        self._model, self._settings = model, settings

    def draw(
        self, query: EncoderInput, rng: np.random.Generator, picks: Sequence[tuple[str, int]] = ()
    ) -> MaskedQueries | None:
        """The masked view."""
        if _is_spared(self._settings, rng):
            return None
        patches = _draw_patches(query, rng, self._model, self._settings.probability)
        raw = query.raw
        if self._settings.rgb and patches.any():
            raw = self._model.prepare(_grey(query, _cells(patches, query)), query.saliency).raw
        return hide(query, _cells(patches, query), self._settings, raw)


class CachedMasker:
    """Masks for cached queries."""

    def __init__(self, model: SalViT, settings: MaskingSettings, masked: MaskedTokens | None = None) -> None:
        self._model, self._settings, self._masked = model, settings, masked

    def draw(
        self, query: EncoderInput, rng: np.random.Generator, picks: Sequence[tuple[str, int]] = ()
    ) -> MaskedQueries | None:
        """The masked view."""
        if _is_spared(self._settings, rng):
            return None
        if self._masked is None:
            patches = _draw_patches(query, rng, self._model, self._settings.probability)
            return hide(query, _cells(patches, query), self._settings, query.raw)
        raw, masks, copies = query.raw.clone(), [], {}
        for number, (record_id, view) in enumerate(picks):
            row = self._masked.rows[record_id, view, int(rng.integers(self._masked.views))]
            is_masked = bool(rng.random() < self._settings.probability)
            mask = self._masked.masks[row]
            masks.append(mask if is_masked else np.zeros_like(mask))
            if is_masked:
                copies[number] = torch.from_numpy(np.array(self._masked.tokens[row]))
        if copies:
            raw[list(copies)] = finish(self._model, torch.stack(list(copies.values())).to(raw))
        return hide(query, _cells(np.stack(masks), query), self._settings, raw)


def hide(query: EncoderInput, hidden: Tensor, settings: MaskingSettings, raw: Tensor) -> MaskedQueries:
    """Queries whose hidden cells (Q, H, W) are masked in whatever the settings name; ``raw`` are their tokens."""
    images, saliency = query.images, query.saliency
    if settings.rgb:
        images = _grey(query, hidden)
    if settings.saliency and saliency is not None:
        saliency = torch.where(_pixels(hidden, saliency.shape[-1]), torch.zeros_like(saliency), saliency)
    if settings.features:
        raw = torch.where(hidden[:, None], torch.zeros_like(raw), raw)
    return MaskedQueries(EncoderInput(raw, images, saliency), hidden)


def _is_spared(settings: MaskingSettings, rng: np.random.Generator) -> bool:
    """Whether the queries of this episode are not masked; nothing is drawn where all episodes are."""
    return settings.share < 1 and bool(rng.random() >= settings.share)


def _grey(query: EncoderInput, hidden: Tensor) -> Tensor:
    assert query.images is not None
    colour = torch.tensor(MEAN_COLOUR, device=query.images.device, dtype=query.images.dtype).view(1, 3, 1, 1) / 255.0
    return torch.where(_pixels(hidden, query.images.shape[-1])[:, None], colour, query.images)


def _pixels(hidden: Tensor, size: int) -> Tensor:
    """(Q, H, W) to (Q, S, S)."""
    side = size // hidden.shape[-1]
    return hidden.repeat_interleave(side, 1).repeat_interleave(side, 2)


def _cells(patches: BoolArray, query: EncoderInput) -> Tensor:
    """(Q, G, G) to cells (Q, H, W)."""
    side = query.raw.shape[-1] // patches.shape[-1]
    return torch.from_numpy(patches.repeat(side, 1).repeat(side, 2)).to(query.raw.device)


def _draw_patches(query: EncoderInput, rng: np.random.Generator, model: SalViT, probability: float) -> BoolArray:
    assert query.saliency is not None
    planes = (query.saliency * 255.0).round().byte().cpu().numpy()
    patch = cells_of_patch(model.encoder.grid_hw[0]) * model.backbone.stride
    return np.stack([sample_patch_mask(plane, rng, patch=patch, probability=probability) for plane in planes])


def open_masked_tokens(
    model: SalViT,
    problem: Problem,
    records: Sequence[Record],
    clean: TokenCache,
    settings: ViewSettings,
    copies: int,
    *,
    track: Track,
) -> MaskedTokens:
    """Masked copies of all cached views of these records; what is missing is computed first, as in the cache itself."""
    cells = cells_of_patch(model.encoder.grid_hw[0])
    folder = token_folder(model, problem, settings) / f"masked-{cells}"
    folder.mkdir(parents=True, exist_ok=True)
    stamps = {record.id: stamp_of(record) for record in records}
    with FileLock(folder / "lock"):
        labels = read_labels(folder)
        there = {(label["id"], label["view"], label["copy"]) for label in labels if is_of(label, stamps)}
        asked = [(r.id, view, copy) for copy in range(copies) for view in range(clean.views) for r in records]
        missing = [key for key in asked if key not in there]
        tokens = map_rows(folder / "tokens.bin", len(labels) + len(missing), np.float16, row_shape(model))
        starts = range(0, len(missing), _BATCH)
        for start in track(starts, len(starts), "caching masked tokens") if missing else ():
            made = _fill(tokens, model, clean, missing[start : start + _BATCH], len(labels), settings)
            labels += save_rows(folder, (tokens,), [{**row, "stamp": stamps[row["id"]]} for row in made])
    rows = {
        (label["id"], label["view"], label["copy"]): row for row, label in enumerate(labels) if is_of(label, stamps)
    }
    return MaskedTokens(tokens, [np.array(label["mask"], dtype=bool) for label in labels], rows, copies)


def _fill(
    tokens: npt.NDArray[Any],
    model: SalViT,
    clean: TokenCache,
    keys: Sequence[tuple[str, int, int]],
    start: int,
    settings: ViewSettings,
) -> list[dict[str, Any]]:
    """Compute one batch of rows. A mask depends on the seed, the record, the view and the copy alone."""
    assert clean.saliency is not None
    patch = cells_of_patch(model.encoder.grid_hw[0]) * model.backbone.stride
    pixels, labels = [], []
    for record_id, view, copy in keys:
        rng = np.random.default_rng(seed_of_view(record_id, settings, view, copy, 1))
        row = clean.rows[record_id, view]
        mask = sample_patch_mask(np.asarray(clean.saliency[row]), rng, patch=patch, probability=1.0)
        pixels.append(hide_patches(np.asarray(clean.pixels[row]), None, mask)[0])
        labels.append({"id": record_id, "view": view, "copy": copy, "mask": mask.astype(int).tolist()})
    batch = torch.from_numpy(np.stack(pixels)).to(model.device).permute(0, 3, 1, 2).float() / 255.0
    with torch.inference_mode():
        tokens[start : start + len(keys)] = begin(model, batch).raw.half().cpu().numpy()
    return labels
