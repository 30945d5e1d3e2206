"""``salvit bench``: figures of speed, measured as ratios in one run."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(help="Measure speed: ratios, interleaved in one run, medians.", no_args_is_help=True)

JSON = typer.Option(None, "--json", help="Write the figures to this file.")


@app.command("detect")
def detect(json: Path | None = JSON) -> None:
    """The whole of detection against the backbone's own forward."""
    from salvit.bench.detect import run

    _show(run(), json)


@app.command("data")
def data(json: Path | None = JSON) -> None:
    """Episodes a second with 0, 1 and 2 workers, and all work on an image against one warp."""
    from salvit.bench.data import run

    _show(run(), json)


@app.command("model")
def model(json: Path | None = JSON) -> None:
    """SalViT against its backbone and against the model without it; fast against plain attention."""
    from salvit.bench.model import run

    _show(run(), json)


@app.command("saliency")
def saliency(json: Path | None = JSON) -> None:
    """Saliency from a backbone's own features against the backbone alone."""
    from salvit.bench.saliency import run

    _show(run(), json)


@app.command("train")
def train(json: Path | None = JSON) -> None:
    """Training episodes a second on cached tokens against training that runs the backbone."""
    from salvit.bench.train import run

    _show(run(), json)


@app.command("transductive")
def transductive(json: Path | None = JSON) -> None:
    """A folder whose pictures help each other against the same pictures alone."""
    from salvit.bench.transductive import run

    _show(run(), json)


@app.command("page")
def page(json: Path | None = JSON) -> None:
    """Finding a corrected keypoint again in a project against encoding its pictures."""
    from salvit.bench.page import run

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
