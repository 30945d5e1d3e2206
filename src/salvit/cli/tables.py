"""``salvit tables``: results as tables."""

from __future__ import annotations

from pathlib import Path

import typer


def tables(
    results: Path = typer.Option(Path("results"), help="The folder of results."),
    into: Path | None = typer.Option(None, help="Put the table into this document, at its marker."),
) -> None:
    """Render results as a Markdown table, the paper's figures beside ours."""
    from salvit.results import read_results
    from salvit.tables import animal_pose_table, put_into

    table = animal_pose_table(read_results(results))
    if into is None:
        typer.echo(table)
        return
    into.write_text(put_into(into.read_text(encoding="utf-8"), "animal_pose", f"\n{table}\n"), encoding="utf-8")
    typer.echo(f"wrote the table into {into}")
