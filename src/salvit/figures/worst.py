"""The worst errors among the episodes that the seed drew."""

from __future__ import annotations

import numpy as np

from salvit.figures.ground import Asked, Ground
from salvit.figures.panels import NOTE, draw_asked
from salvit.figures.sheet import Panel, Row, Sheet

COUNT, COLUMNS = 20, 5


def worst(ground: Ground) -> Sheet:
    """A panel for each of the twenty worst errors, the worst first."""
    panels = []
    for asked, n in worst_errors(ground.asked):
        keep = np.arange(len(asked.valid)) == n
        name = asked.episode.names[n].replace("_", " ")
        caption = f"{name}, off by {asked.errors[n]:.2f}\n{asked.episode.kind}, {asked.episode.species}"
        panels.append(Panel(draw_asked(ground, asked, keep), caption))
    rows = tuple(Row(tuple(panels[start : start + COLUMNS])) for start in range(0, len(panels), COLUMNS))
    count = sum(int(asked.valid.sum()) for asked in ground.asked)
    title = ground.title(f"The {len(panels)} worst of {count} errors in {len(ground.listed)} episodes")
    return Sheet(title, rows, NOTE + " Errors are shares of the longer side of the object's box.")


def worst_errors(asked: list[Asked], count: int = COUNT) -> list[tuple[Asked, int]]:
    """Query and number of the keypoint of the largest errors that count, the largest first; equal ones in order."""
    pairs = [(one, int(n)) for one in asked for n in np.flatnonzero(one.valid)]
    return sorted(pairs, key=lambda pair: -float(pair[0].errors[pair[1]]))[:count]
