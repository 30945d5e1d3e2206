"""The short table of the README: Animal Pose, every model of ours that was scored, then the paper's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from salvit.tables import paper
from salvit.tables.main import MAIN
from salvit.tables.paper import ANIMALS
from salvit.tables.rows import Line, figure_of

PAPERS = ("ProtoNet", "SalViT (default)")
"""Rows of the paper that stand below ours."""
TRANSDUCTIVE = "+T: 200 episodes of each kind and up to 60 queries, not 1,000 and 5; queries help each other."


def animal_pose_table(results: Mapping[str, Mapping[str, Any]], shots: int = 1) -> str:
    """Harmonic PCK@0.1 on the unseen species of Animal Pose: the main table's lines that were run, then the paper's."""
    (block,) = (block for block in MAIN.blocks if block.title.startswith(f"{shots} shot"))
    lines = ["| model | " + " | ".join(ANIMALS) + " | mean |", "|---|" + "---|" * (len(ANIMALS) + 1)]
    for line in sorted((line for group in block.groups for line in group.lines), key=_order):
        if row := _row(line, results):
            lines.append(row)
    for name in PAPERS:
        figures = " | ".join(paper.rounded(figure) for figure in paper.MAIN[name, shots][: len(ANIMALS) + 1])
        lines.append(f"| {name}, trained, the paper's | {figures} |")
    if any("+T" in line for line in lines):
        lines += ["", TRANSDUCTIVE]
    return "\n".join(lines) + "\n"


def _order(line: Line) -> bool:
    """What is not trained comes first."""
    return bool(line.model.recipe)


def _row(line: Line, results: Mapping[str, Mapping[str, Any]]) -> str:
    """A line of ours; empty where nothing of it was run."""
    found = [figure_of(line.cells[column], line.model, results) for column in (*ANIMALS, "mean")]
    if not any(found):
        return ""
    cells = ["—" if figure is None else f"{figure.value:.1f} ± {figure.spread:.1f}" for figure in found[:-1]]
    mean = "—" if found[-1] is None else f"{found[-1].value:.1f}"
    label = f"SalViT on {line.label}" if line.label.startswith(("Lite0", "DINO", "ResNet")) else line.label
    return f"| {label}, ours | {' | '.join(cells)} | {mean} |"


def put_into(document: str, marker: str, table: str) -> str:
    """The document with the table between ``<!-- results: MARKER -->`` and ``<!-- end of results -->``."""
    pattern = rf"(<!-- results: {re.escape(marker)} -->\n).*?(<!-- end of results -->)"
    if not re.search(pattern, document, flags=re.S):
        raise ValueError(f"the document has no place '<!-- results: {marker} -->' … '<!-- end of results -->'")
    return re.sub(pattern, lambda match: match.group(1) + table + match.group(2), document, flags=re.S)
