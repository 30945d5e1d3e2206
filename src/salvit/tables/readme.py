"""The short table of the README: Animal Pose, models of ours that were scored on all five species, then the paper's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from salvit.tables import paper
from salvit.tables.main import MAIN
from salvit.tables.paper import ANIMALS
from salvit.tables.rows import Line, figure_of

PAPERS = ("ProtoNet", "SalViT (default)", "SalViT (default)+T")
"""Rows of the paper that stand below ours."""
TRANSDUCTIVE = "+T: 200 episodes of each kind and up to 60 queries, not 1,000 and 5; queries help each other."
_MEANS = ("mean", "mean, 5 shots")


def animal_pose_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Harmonic PCK@0.1 on the unseen species of Animal Pose: lines that were run on all five, then the paper's.

    With one shot, and beside it the mean with five, where that was run too.
    """
    lines = [f"| {' | '.join(('model', *ANIMALS, *_MEANS))} |", "|---|" + "---|" * (len(ANIMALS) + len(_MEANS))]
    with_five = {line.label: line for line in _lines(5)}
    for line in sorted(_lines(1), key=_order):
        if row := _row(line, with_five[line.label], results):
            lines.append(row)
    is_refined = any("+T" in line for line in lines)
    for name in PAPERS:
        figures = (*paper.MAIN[name, 1][: len(ANIMALS) + 1], paper.MAIN[name, 5][len(ANIMALS)])
        lines.append(f"| {name}, trained, the paper's | {' | '.join(paper.rounded(figure) for figure in figures)} |")
    return "\n".join([*lines, *(["", TRANSDUCTIVE] if is_refined else [])]) + "\n"


def _lines(shots: int) -> list[Line]:
    (block,) = (block for block in MAIN.blocks if block.title.startswith(f"{shots} shot"))
    return [line for group in block.groups for line in group.lines]


def _order(line: Line) -> bool:
    """What is not trained comes first."""
    return bool(line.model.recipe)


def _row(line: Line, with_five: Line, results: Mapping[str, Mapping[str, Any]]) -> str:
    """A line of ours; empty where it was not run on all species."""
    found = [figure_of(line.cells[column], line.model, results) for column in (*ANIMALS, "mean")]
    figures = [figure for figure in found if figure is not None]
    if len(figures) < len(found):
        return ""
    five = figure_of(with_five.cells["mean"], line.model, results)
    cells = [f"{paper.rounded(figure.value)} ± {paper.rounded(figure.spread or 0.0)}" for figure in figures[:-1]]
    means = [paper.rounded(figures[-1].value), "—" if five is None else paper.rounded(five.value)]
    label = f"SalViT on {line.label}" if line.label.startswith(("Lite0", "DINO", "ResNet")) else line.label
    return f"| {' | '.join((f'{label}, ours', *cells, *means))} |"


def put_into(document: str, marker: str, table: str) -> str:
    """The document with the table between ``<!-- results: MARKER -->`` and ``<!-- end of results -->``."""
    pattern = rf"(<!-- results: {re.escape(marker)} -->\n).*?(<!-- end of results -->)"
    if not re.search(pattern, document, flags=re.S):
        raise ValueError(f"the document has no place '<!-- results: {marker} -->' … '<!-- end of results -->'")
    return re.sub(pattern, lambda match: match.group(1) + table + match.group(2), document, flags=re.S)
