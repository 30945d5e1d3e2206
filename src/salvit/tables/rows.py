"""What a table is made of: blocks of groups of lines; every figure of ours is looked up in one result file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from salvit.encoded_lists import Ways
from salvit.model.settings import Decoding
from salvit.transductive import TransductiveSettings

Metric = Literal["harmonic", "novel", "ne"]
"""Harmonic mean of novel and base PCK@0.1, PCK@0.1 of novel keypoints, or their normalised error."""
NOT_AT_HAND = {
    "nabirds": "NABirds is not at hand",
    "awa_pose": "of AwA only the annotations are at hand, not the images",
    "deepfashion2": "DeepFashion2 is not at hand",
}
"""Data sets that no run on this hardware can use, in words."""
LISTS = {"cub": "val", "nabirds": "test", "awa_pose": "test", "deepfashion2": "test"}
"""Data sets whose unseen species are a list, and which."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure, and its ± where there is one."""

    value: float
    spread: float | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """Where a line's model comes from: a recipe, or a detector that is not trained."""

    name: str
    """How its results and its runs are called."""
    recipe: str = ""
    """File name without its ending; empty: nothing is trained, ``detector`` is used."""
    changes: tuple[str, ...] = ()
    """``section.setting=value``: what the line sets beside its recipe."""
    detector: str = ""
    """A detector that :func:`salvit.predict.load` knows."""
    first: str = ""
    """The recipe of a training that it goes on from; empty: it goes on from none."""
    together: tuple[tuple[str, ...], ...] = ()
    """Unseen species that the first training holds back together: their second ones share it."""
    apart: tuple[tuple[str, str, str], ...] = ()
    """Data sets with recipes of their own: data set, recipe, recipe of the first training."""

    def on(self, data: str) -> Model:
        """The model as it is trained on one data set."""
        recipes = {name: replace(self, recipe=recipe, first=first, apart=()) for name, recipe, first in self.apart}
        return recipes.get(data, self)

    def held_back(self, unseen: str) -> tuple[str, ...]:
        """What the first training of a problem holds back."""
        return next((species for species in self.together if unseen in species), (unseen,))

    def first_changes(self, unseen: str) -> tuple[str, ...]:
        """``section.setting=value``: what the first training of a problem sets beside its recipe."""
        species, *others = self.held_back(unseen)
        kept = (f"data.dev_species={json.dumps(others)}",) if others else ()
        return (*self.changes, f"data.unseen={species}", *kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One evaluation of a model, trained with ``unseen`` held back."""

    data: str
    unseen: str
    """The unseen species, or the list of species."""
    shots: int = 1
    episodes: int = 1000
    """Of each kind."""
    queries: int = 5
    first_queries: int | None = None
    """Only the first so many of each episode: lists of fewer queries, nested in one another."""
    kind: str | None = None
    """``novel`` or ``base`` alone; None: both."""
    transductive: TransductiveSettings | None = None
    occluder: str | None = None
    hidden: int = 0
    """Percent of the queries' keypoints that the occluder hides."""
    failure: tuple[str, float] | None = None
    """Kind and strength of a failure of saliency."""
    finetune: int = 0
    """Steps on each episode's supports."""
    zoom: bool = False
    """Look twice, nearer where the keypoints were found at first."""
    ways: Ways = "one"
    """Supports, or supports and queries, mirrored too."""
    decoding: Decoding | None = None
    """How places are found, where that is not the model's own way."""
    seed: int = 0

    @property
    def problem(self) -> str:
        """The problem's name in results."""
        return "all" if self.data in LISTS else self.unseen

    @property
    def is_up_to(self) -> bool:
        """Lists of many queries take what a species has."""
        return self.queries > 5

    def name_for(self, model: str) -> str:
        """The result file, without its ending."""
        parts = [model, self.data, self.problem, f"{self.shots}shot"]
        if self.queries != 5:
            parts.append(f"{self.first_queries or self.queries}q")
        if self.transductive is not None:
            parts.append("T" if self.transductive.assignment == "soft" else f"T-{self.transductive.assignment}")
            if self.transductive.protocol == "paper":
                parts.append("authors")
        if self.occluder is not None and self.hidden:
            parts.append(f"{self.occluder}{self.hidden}")
        if self.kind is not None:
            parts.append(self.kind)
        if self.failure is not None:
            parts.append(self.failure[0] + (f"{self.failure[1]:g}" if self.failure[1] else ""))
        if self.finetune:
            parts.append(f"finetuned{self.finetune}")
        if self.zoom:
            parts.append("zoom")
        if self.ways != "one":
            parts.append({"supports": "mirrored", "both": "bothways"}[self.ways])
        if self.decoding is not None:
            parts.append(self.decoding)
        return "-".join(parts)


@dataclass(frozen=True, slots=True)
class Cell:
    """One place of a line: the mean over its evaluations (of one, mostly)."""

    asks: tuple[Ask, ...]
    is_here: bool = False
    """Meant to be run on this hardware (``salvit tables --run``)."""
    metric: Metric = "harmonic"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of ours."""

    label: str
    model: Model
    cells: Mapping[str, Cell]
    """By column."""
    family: str = ""
    """Lines of one family, in the groups of a block, differ in one thing alone: changes are told within it."""
    has_gap: bool = True
    """Whether its distance to the paper's figure is told; not where the two are of other species."""


@dataclass(frozen=True, slots=True)
class Group:
    """A line of the paper, and lines of ours that are to be read beside it."""

    lines: tuple[Line, ...]
    label: str = ""
    """The paper's line; empty: the paper has none."""
    paper: Mapping[str, Figure] = field(default_factory=dict)
    """By column."""
    is_baseline: bool = False
    """Changes in the other groups of the block are told against this one."""


@dataclass(frozen=True, slots=True)
class Block:
    """One rendered table."""

    title: str
    columns: tuple[str, ...]
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the paper, or one of ours."""

    name: str
    """For the command line."""
    title: str
    source: str
    """Where it is in the paper."""
    text: str
    blocks: tuple[Block, ...]
    command: str = ""
    """What makes all of it, where that is not ``salvit tables NAME --run``."""
    is_shown: bool = True
    """Part of the page that shows all tables."""


def figure_of(cell: Cell, model: Model, results: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """The mean over a cell's evaluations; None where one is missing. The ± of a mean is that of independent figures."""
    found = [results.get(ask.name_for(model.name)) for ask in cell.asks]
    figures = [_read(result, cell.metric) for result in found if result is not None]
    if not figures or len(figures) < len(found):
        return None
    spreads = [figure.spread for figure in figures if figure.spread is not None]
    mean = sum(figure.value for figure in figures) / len(figures)
    spread = sum(value**2 for value in spreads) ** 0.5 / len(figures) if len(spreads) == len(figures) else None
    return Figure(mean, spread)


def _read(result: Mapping[str, Any], metric: Metric) -> Figure:
    match metric:
        case "harmonic":
            return Figure(float(result["harmonic"]), float(result["ci95"]))
        case "novel":
            return Figure(float(result["pck"]["novel"]["0.1"]), float(result["interval"]["novel"]["0.1"]))
    return Figure(float(result["ne"]["novel"]), float(result["ne_interval"]["novel"]))


def asks_of(tables: Sequence[Table], *, is_full: bool = False) -> list[tuple[Model, Ask]]:
    """Every evaluation that tables want, once; without ``is_full`` only those meant for this hardware."""
    wanted: dict[str, tuple[Model, Ask]] = {}
    for table in tables:
        for line in (line for block in table.blocks for group in block.groups for line in group.lines):
            for cell in line.cells.values():
                for ask in cell.asks if cell.is_here or is_full else ():
                    wanted.setdefault(ask.name_for(line.model.name), (line.model.on(ask.data), ask))
    return list(wanted.values())
