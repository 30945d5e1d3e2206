"""All tables, in the order of the page."""

from __future__ import annotations

from collections.abc import Sequence

from salvit.tables.ablations import ABLATION, EXPONENTS, OURS, SEEDS
from salvit.tables.main import COMPARED_TABLE, DEEPFASHION2_TABLE, MAIN
from salvit.tables.rows import Table
from salvit.tables.studies import ALIGNMENT, FAILURES, OCCLUSION, PSEUDO_LABELS, REFINEMENT, SALIENCY, TOY

TABLES = (
    MAIN,
    COMPARED_TABLE,
    DEEPFASHION2_TABLE,
    ABLATION,
    SEEDS,
    EXPONENTS,
    REFINEMENT,
    PSEUDO_LABELS,
    SALIENCY,
    FAILURES,
    OCCLUSION,
    ALIGNMENT,
    OURS,
    TOY,
)
MEASURED_ELSEWHERE = ("priors", "cost")
"""Tables whose figures come from `salvit saliency compare` and from building the networks, not from episodes."""


def find_tables(names: Sequence[str]) -> list[Table]:
    """The tables of these names, those of the page where none is named; an unknown name is an error."""
    known = {table.name: table for table in TABLES}
    if unknown := [name for name in names if name not in known and name not in MEASURED_ELSEWHERE]:
        raise ValueError(f"unknown table {unknown[0]!r}; known: {', '.join((*known, *MEASURED_ELSEWHERE))}")
    return [known[name] for name in names if name in known] if names else [t for t in TABLES if t.is_shown]
