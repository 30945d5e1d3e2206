"""``salvit bench``: figures of speed, measured as ratios in one run."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(help="Measure speed: ratios, interleaved in one run, medians.", no_args_is_help=True)


@app.command("detect")
def detect(json: Path | None = typer.Option(None, "--json", help="Write the figures to this file.")) -> None:
    """The whole of detection against the backbone's own forward."""
    from salvit.bench.detect import run

    _show(run(), json)


@app.command("model")
def model(json: Path | None = typer.Option(None, "--json", help="Write the figures to this file.")) -> None:
    """SalViT against its backbone and CNN-only, fast against plain attention, memory of an episode."""
    from salvit.bench.model import run

    _show(run(), json)


def _show(figures: dict[str, float], path: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("figure", "value")
    for name, value in figures.items():
        table.add_row(name, f"{value:.3f}")
    Console().print(table)
    if path is not None:
        import json

        path.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
