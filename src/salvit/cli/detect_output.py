"""What ``salvit detect`` shows: drawings, tables, warnings, suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from salvit.cli.exit_codes import NOTHING_DONE, SOME_FAILED

if TYPE_CHECKING:
    from salvit.data.support import Support
    from salvit.queries import Query
    from salvit.suggest import Candidate
    from salvit.types import Detection, Example, Failure, Pack

_WARNINGS_SHOWN = 20


class Artist:
    """Draws results into a folder; each query has a name of its own there, the same in every run of a command."""

    def __init__(self, folder: Path, queries: Sequence[Query], example: Example | None, overwrite: bool) -> None:
        self._folder, self._example, self._overwrite = folder, example, overwrite
        self._names: dict[tuple[Path, int], str] = {}
        taken: set[str] = set()
        for query in queries:
            stem, number = query.path.stem, 1
            while f"{stem}.jpg" in taken:
                number += 1
                stem = f"{query.path.stem}-{number}"
            taken.add(f"{stem}.jpg")
            self._names[query.path, query.index] = f"{stem}.jpg"

    def draw(self, result: Detection) -> list[Failure]:
        """Draw one result; files from before are left alone unless asked."""
        from salvit.data.images import read_image
        from salvit.draw import draw_detection
        from salvit.types import Failure

        target = self._folder / self._names[result.path, result.index]
        if target.exists() and not self._overwrite:
            return [Failure(result.path, f"{target} exists, so {result.path} was not drawn; --overwrite replaces it")]
        self._folder.mkdir(parents=True, exist_ok=True)
        draw_detection(read_image(result.path), result, self._example).save(target, quality=90)
        return []


def print_table(shown: list[Detection], total: int, known: Sequence[bool]) -> None:
    """The first results as a table; a keypoint that no example has is said to be unknown."""
    from rich.console import Console
    from rich.table import Table

    if not shown:
        return
    table = Table("picture", "keypoint", "x", "y", "± px", "score", title="points found", title_justify="left")
    for column in table.columns[2:]:
        column.justify = "right"
    for found in shown:
        for n, name in enumerate(found.names):
            label = f"{found.path.name}{f' #{found.index + 1}' if found.index else ''}" if n == 0 else ""
            if not found.located[n]:
                score = f"{found.scores[n]:.2f}" if known[n] else "unknown"
                table.add_row(label, name, "—", "—", "—", score, style="dim")
                continue
            x, y = found.points[n]
            spread = float((found.covariances[n].trace() / 2) ** 0.5)
            table.add_row(label, name, f"{x:.1f}", f"{y:.1f}", f"{spread:.0f}", f"{found.scores[n]:.2f}")
        table.add_section()
    Console().print(table)
    if len(shown) < total:
        typer.echo(f"({len(shown)} of {total} shown)")


def print_warnings(warned: list[Detection]) -> None:
    """Left and right that may be swapped, by picture."""
    lines = [f"{found.path.name}: {warning}" for found in warned for warning in found.warnings]
    for line in lines[:_WARNINGS_SHOWN]:
        typer.secho(f"warning: {line}", fg="yellow", err=True)
    if len(lines) > _WARNINGS_SHOWN:
        typer.secho(f"warning: and {len(lines) - _WARNINGS_SHOWN} more like these", fg="yellow", err=True)


def print_suggestions(candidates: Sequence[Candidate], pack: Pack, count: int) -> None:
    """Pictures that are worth marking next, best first."""
    from rich.console import Console
    from rich.table import Table

    from salvit.suggest import suggest

    table = Table("picture", "uncertainty", "novelty", title="worth marking next", title_justify="left")
    for suggestion in suggest(candidates, pack, count):
        table.add_row(str(suggestion.path), f"{suggestion.uncertainty:.3f}", f"{suggestion.novelty:.3f}")
    Console().print(table)


def warn(pack: Pack, marked: Support | None, is_cropped: bool) -> None:
    """Say beforehand what a pack cannot do."""
    unknown = [name for name, known in zip(pack.names, pack.known.tolist(), strict=True) if not known]
    if unknown:
        typer.secho(f"unknown: no marked picture has {', '.join(unknown)}; not looked for", fg="yellow", err=True)
    if marked is None and pack.is_cropped != is_cropped:
        learnt, asked = ("cropped", "whole") if pack.is_cropped else ("whole", "cropped")
        advice = "give boxes" if pack.is_cropped else "learn it with --cropped"
        typer.secho(
            f"warning: the pack was learnt from {learnt} pictures and looks in {asked} ones; {advice}, or expect worse",
            fg="yellow",
            err=True,
        )


def report(
    marked: Support | None, failures: list[Failure], out: Path | None, draw: Path | None, has_found: bool
) -> None:
    """Say what could not be used and where everything is; exit code 3 where something failed, 1 where all did."""
    problems = [] if marked is None else marked.problems
    for problem in problems:
        typer.secho(f"support: {problem}", fg="yellow", err=True)
    for failure in failures:
        typer.secho(f"failed: {failure.reason}", fg="red", err=True)
    if not has_found:
        where = "" if out is None else f", so {out} holds no detection"
        typer.secho(f"error: no picture could be read{where}", fg="red", err=True)
        raise typer.Exit(NOTHING_DONE)
    if out is not None:
        typer.echo(f"detections: {out.resolve()}")
    if draw is not None:
        typer.echo(f"pictures: {draw.resolve()}")
    if failures or problems:
        raise typer.Exit(SOME_FAILED)
