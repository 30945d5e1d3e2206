"""Saliency of several providers, and what the distance transform and the blur make of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from PIL import Image

from salvit.data.images import read_image
from salvit.figures.ground import Ground
from salvit.figures.panels import as_wide, draw_map
from salvit.figures.sheet import Panel, Row, Sheet
from salvit.saliency import Provider, build_provider
from salvit.saliency.cache import CachedProvider
from salvit.saliency.preprocess import preprocess_map

PICTURES, TILE = 4, 172
PROVIDERS = ("attentiveness", "learned", "rbd", "spectral_residual")


def saliency(ground: Ground, providers: Mapping[str, Provider] | None = None) -> Sheet:
    """A row for each picture: itself, then the map of each provider before and after; missing ones are named."""
    missing: list[str] = []
    made = _build(missing) if providers is None else providers
    values = ground.listed.values["episodes"]
    ids = sorted({record for row in values for record in (*row["supports"], *row["queries"])})
    drawn = ground.rng("saliency").choice(len(ids), min(PICTURES, len(ids)), replace=False)
    rows = []
    for number in ground.track(sorted(drawn), len(drawn), "saliency"):
        record = ground.listed.records[ids[number]]
        picture = np.asarray(read_image(record.path))
        panels = [Panel(as_wide(Image.fromarray(picture), TILE), record.species)]
        for name, provider in made.items():
            plain = provider(picture, record.path)
            panels.append(Panel(draw_map(plain, TILE), name.replace("_", " ")))
            panels.append(Panel(draw_map(preprocess_map(plain), TILE), "after"))
        rows.append(Row(tuple(panels)))
    note = "After: spread by the distance transform, then blurred. White: 1."
    if missing:
        note += f" Not drawn, for their weights are not here: {', '.join(missing)}."
    values = ground.listed.values
    title = f"Saliency: {values['data']}, {values['unseen']} · list {ground.of_list[:12]}, seed {ground.seed}"
    return Sheet(title, tuple(rows), note)


def _build(missing: list[str]) -> dict[str, Provider]:
    """Those whose weights are on this machine; the names of the others are added to ``missing``."""
    made: dict[str, Provider] = {}
    for name in PROVIDERS:
        try:
            made[name] = CachedProvider(build_provider(name))
        except FileNotFoundError:
            missing.append(name)
    return made
