"""A study as a table and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from salvit.results import write_result
from salvit.suites import Case, Label


def write_report(name: str, cases: Sequence[Case], along: str, folder: Path) -> tuple[Path, Path, Path]:
    """Write ``NAME.json`` (labels and results), ``NAME.md`` (the table) and ``NAME.png`` (the plot)."""
    folder.mkdir(parents=True, exist_ok=True)
    facts, table, plot = (folder / f"{name}.{ending}" for ending in ("json", "md", "png"))
    write_result({"suite": name, "rows": [{"labels": case.labels, "result": case.result} for case in cases]}, facts)
    table.write_text(table_of(cases, along), encoding="utf-8")
    draw_plot(name, cases, along, plot)
    return facts, table, plot


def table_of(cases: Sequence[Case], along: str) -> str:
    """Markdown: a row for each line of the plot, a column for each place along it; figure ± half a 95 % interval."""
    columns = list(dict.fromkeys(case.labels[along] for case in cases))
    names = [name for name in cases[0].labels if name != along]
    lines = [
        "| " + " | ".join([*names, *(f"{along} {_text(value)}" for value in columns)]) + " |",
        "|" + "---|" * (len(names) + len(columns)),
    ]
    for key, group in _lines(cases, along).items():
        found = {case.labels[along]: case.figure for case in group}
        cells = ["—" if value not in found else "{:.1f} ± {:.1f}".format(*found[value]) for value in columns]
        lines.append("| " + " | ".join([*map(_text, key), *cells]) + " |")
    first = cases[0].result
    what = (
        "harmonic mean of novel and base PCK@0.1"
        if first["harmonic"] is not None
        else f"{next(iter(first['pck']))} PCK@0.1"
    )
    episodes = ", ".join(f"{count} {kind}" for kind, count in first["episodes"].items())
    about = f"{first['data']}, {first['problem']} unseen; {what}, {episodes} episodes; list {first['list_hash'][:12]}."
    return "\n".join(lines) + f"\n\n{about}\n"


def draw_plot(name: str, cases: Sequence[Case], along: str, path: Path) -> None:
    """A line for each model and kind, with its intervals."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("plots need matplotlib: pip install 'salvit[train]'") from None
    places = list(dict.fromkeys(case.labels[along] for case in cases))
    is_scale = all(isinstance(place, float) for place in places)
    figure = Figure(figsize=(7.2, 4.5), dpi=130, layout="constrained")
    axes = figure.subplots()
    for number, (key, group) in enumerate(_lines(cases, along).items()):
        xs: list[Any] = [case.labels[along] if is_scale else places.index(case.labels[along]) for case in group]
        ys, spreads = zip(*(case.figure for case in group), strict=True)
        style = "o-" if len(group) > 1 and along != "assignment" else "o"  # ways are no scale
        axes.errorbar(
            xs,
            ys,
            yerr=spreads,
            fmt=style,
            capsize=3,
            markersize=4,
            color=f"C{number}",
            label=" ".join(map(_text, key)),
        )
    if not is_scale:
        axes.set_xticks(range(len(places)), [_text(place) for place in places])
    axes.set_xlabel(along + (" (% of the queries' keypoints)" if along == "hidden" else ""))
    axes.set_ylabel("PCK@0.1, %")
    axes.set_title(f"{name}: {cases[0].result['data']}, {cases[0].result['problem']} unseen", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    figure.savefig(path)


def _lines(cases: Sequence[Case], along: str) -> dict[tuple[Label, ...], list[Case]]:
    """Cases by all their labels but one."""
    lines: dict[tuple[Label, ...], list[Case]] = {}
    for case in cases:
        key = tuple(value for name, value in case.labels.items() if name != along)
        lines.setdefault(key, []).append(case)
    return lines


def _text(value: Label) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
