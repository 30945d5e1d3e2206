"""Renders results as Markdown tables: the paper's figures beside ours, also where ours are worse."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

ANIMALS = ("cat", "dog", "cow", "horse", "sheep")
PAPER_ANIMAL_POSE_1_SHOT = {
    "ProtoNet, trained": (27.53, 23.01, 20.37, 18.03, 20.55),
    "SalViT (default), trained": (57.00, 50.94, 48.13, 47.87, 42.36),
}
"""Table 2 of the paper, 1-shot, Animal Pose: cat, dog, cow, horse, sheep."""


def animal_pose_table(results: Mapping[str, dict[str, Any]], shots: int = 1) -> str:
    """Harmonic PCK@0.1 on the unseen species of Animal Pose: a row for each model of ours, then the paper's."""
    found = [r for r in results.values() if _is_plain(r) and r["data"] == "animal_pose" and r["shots"] == shots]
    models = list(dict.fromkeys(result["model"] for result in found))
    lines = ["| model | " + " | ".join(ANIMALS) + " | mean |", "|---|" + "---|" * (len(ANIMALS) + 1)]
    for model in sorted(models):
        by_species = {result["problem"]: result for result in found if result["model"] == model}
        cells = [_cell(by_species.get(species)) for species in ANIMALS]
        have = [by_species[species]["harmonic"] for species in ANIMALS if species in by_species]
        mean = f"{sum(have) / len(have):.1f}" if len(have) == len(ANIMALS) else "—"
        lines.append(f"| `{model}`, ours | " + " | ".join(cells) + f" | {mean} |")
    for name, figures in PAPER_ANIMAL_POSE_1_SHOT.items() if shots == 1 else ():
        average = sum(figures) / len(figures)
        lines.append(f"| {name}, the paper's | " + " | ".join(f"{f:.1f}" for f in figures) + f" | {average:.1f} |")
    return "\n".join(lines) + "\n"


def _is_plain(result: Mapping[str, Any]) -> bool:
    """Whether it is a result on a frozen list, in the usual protocol: not transductive, nothing hidden."""
    protocol = result.get("protocol", {})
    return "pck" in result and not protocol.get("transductive") and "occluder" not in protocol


def put_into(document: str, marker: str, table: str) -> str:
    """The document with the table between ``<!-- results: MARKER -->`` and ``<!-- end of results -->``."""
    pattern = rf"(<!-- results: {re.escape(marker)} -->\n).*?(<!-- end of results -->)"
    if not re.search(pattern, document, flags=re.S):
        raise ValueError(f"the document has no place '<!-- results: {marker} -->' … '<!-- end of results -->'")
    return re.sub(pattern, lambda match: match.group(1) + table + match.group(2), document, flags=re.S)


def _cell(result: dict[str, Any] | None) -> str:
    return "—" if result is None else f"{result['harmonic']:.1f} ± {result['ci95']:.1f}"
