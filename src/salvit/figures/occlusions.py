"""Three occluders beside the clean picture, and what is found in each (paper Sec. 4.3)."""

from __future__ import annotations

from typing import get_args

from salvit.data.occlude import Occluder
from salvit.figures.ground import Asked, Ground
from salvit.figures.panels import NOTE, draw_asked, legend_of
from salvit.figures.sheet import Panel, Row, Sheet

HIDDEN = 0.3
"""The probability that a keypoint is hidden."""
PICTURES = 2
"""Of each kind."""


def occlusions(ground: Ground) -> Sheet:
    """A row for each query: clean, then the three occluders; a query of which nothing is hidden is not drawn."""
    rng, chosen = ground.rng("occlusions"), list[Asked]()
    for kind in ground.kinds:
        able = [asked for asked in ground.asked if asked.episode.kind == kind and _num_hidden(ground, asked)]
        chosen += [able[n] for n in sorted(rng.choice(len(able), min(PICTURES, len(able)), replace=False))]
    occluders: tuple[Occluder, ...] = get_args(Occluder)
    hidden = [ground.ask(chosen, occluder, HIDDEN) for occluder in occluders] if chosen else []
    rows = []
    for number, clean in enumerate(chosen):
        shown = [(one[number], occluder) for one, occluder in zip(hidden, occluders, strict=True)]
        panels = tuple(
            Panel(draw_asked(ground, asked, corner=not n), f"{name}: {_mean_error(asked)}")
            for n, (asked, name) in enumerate([(clean, "clean"), *shown])
        )
        heading = f"{clean.episode.kind}, {clean.episode.species}, {_num_hidden(ground, clean)} hidden"
        is_last = clean is chosen[-1] or chosen[number + 1].episode.names != clean.episode.names
        rows.append(Row(panels, heading, legend_of(clean.episode.names) if is_last else ()))
    title = ground.title(f"Each keypoint hidden with probability {HIDDEN}")
    return Sheet(title, tuple(rows), NOTE + " Errors are shares of the longer side of the object's box.")


def _num_hidden(ground: Ground, asked: Asked) -> int:
    """Keypoints that count and are hidden; 0 also where none counts."""
    blocks = ground.listed.blocks(asked.view.record.id, asked.episode.names)
    return int(((blocks.draws < HIDDEN) & asked.valid).sum())


def _mean_error(asked: Asked) -> str:
    return f"mean error {asked.errors[asked.valid].mean():.2f}"
