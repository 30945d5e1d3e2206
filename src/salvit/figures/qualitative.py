"""Queries drawn by the seed: a row for novel keypoints and one for base ones."""

from __future__ import annotations

from salvit.figures.ground import Asked, Ground
from salvit.figures.panels import NOTE, draw_asked, legend_of
from salvit.figures.sheet import Panel, Row, Sheet

COLUMNS = 5


def qualitative(ground: Ground) -> Sheet:
    """A sheet of queries; those of which no keypoint counts are not drawn."""
    rng, rows = ground.rng("qualitative"), []
    for kind in ground.kinds:
        able = [asked for asked in ground.asked if asked.episode.kind == kind and asked.valid.any()]
        drawn = rng.choice(len(able), min(COLUMNS, len(able)), replace=False)
        chosen = [able[number] for number in sorted(drawn)]
        if chosen:
            panels = tuple(Panel(draw_asked(ground, asked), _caption(asked)) for asked in chosen)
            names = chosen[0].episode.names if len({asked.episode.names for asked in chosen}) == 1 else ()
            rows.append(Row(panels, f"{kind} keypoints", legend_of(names)))
    return Sheet(ground.title("Queries drawn by the seed"), tuple(rows), NOTE)


def _caption(asked: Asked) -> str:
    near = int((asked.errors[asked.valid] <= 0.1).sum())
    return f"{asked.episode.species}: {near} of {int(asked.valid.sum())} within 0.1"
