"""``salvit serve``: the page."""

from __future__ import annotations

from pathlib import Path

import typer


def serve(
    folder: Path = typer.Argument(Path("salvit-project"), help="The project: a folder, perhaps with pictures in it."),
    host: str = typer.Option("127.0.0.1", help="Address to listen on; beyond this machine a token is needed."),
    port: int = typer.Option(8700, min=0, max=65535, help="Port; 0: any free one."),
    token: str | None = typer.Option(
        None, envvar="SALVIT_TOKEN", help="What others must know to enter; `new` makes one."
    ),
    add: list[Path] = typer.Option([], help="Pictures or a folder elsewhere that stay there; may be given again."),
    models: list[Path] = typer.Option([], help="A folder with models that you trained; may be given again."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or mps."),
    max_megapixels: float = typer.Option(100.0, min=0.01, help="Refuse larger pictures."),
    max_megabytes: float = typer.Option(64.0, min=0.01, help="Refuse larger files."),
    open_page: bool = typer.Option(False, "--open", help="Open the page in the browser."),
) -> None:
    """Mark points on one picture, see them in all others, correct, teach: on a page in the browser."""
    try:
        from salvit.web.limits import Limits
        from salvit.web.server import serve as serve_project
    except ModuleNotFoundError as missing:
        raise ValueError(f"the page needs {missing.name!r}; install it with `pip install 'salvit[web]'`") from None

    def ready(address: str) -> None:
        typer.echo(f"salvit is at {address}  (project {folder.resolve()}; Ctrl-C ends it)")
        if open_page:
            typer.launch(address)

    limits = Limits(pixels=int(max_megapixels * 1e6), file_bytes=int(max_megabytes * 2**20))
    serve_project(
        folder, host=host, port=port, token=token, add=add, models=models, device=device, limits=limits, ready=ready
    )
