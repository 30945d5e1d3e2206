"""The command line: parse, call, print; no logic.

Nothing heavy is imported before a command needs it, so that ``salvit --help`` answers at once.
"""

from __future__ import annotations

import sys

import typer

from salvit.cli import (
    bench,
    calibrate,
    compare,
    data,
    detect,
    evaluate,
    figures,
    info,
    learn,
    saliency,
    serve,
    suite,
    tables,
    teach_finder,
    train,
    weights,
)
from salvit.cli.exit_codes import INTERRUPTED, NOTHING_DONE
from salvit.memory import keep_freed_memory

app = typer.Typer(
    name="salvit",
    help="Find any keypoints in any pictures from one to five marked examples.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("detect")(detect.detect)
app.command("demo")(detect.demo)
app.command("learn")(learn.learn)
app.command("evaluate")(evaluate.evaluate)
app.command("score")(evaluate.score)
app.command("info")(info.info)
app.command("train")(train.train)
app.command("teach-finder")(teach_finder.teach_finder)
app.command("calibrate")(calibrate.calibrate)
app.command("compare")(compare.compare)
app.command("tables")(tables.tables)
app.command("figures")(figures.figures)
app.command("serve")(serve.serve)
app.add_typer(saliency.app, name="saliency")
app.add_typer(data.app, name="data")
app.add_typer(weights.app, name="weights")
app.add_typer(bench.app, name="bench")
app.add_typer(suite.app, name="suite")


def _show_version(asked: bool) -> None:
    if asked:
        from salvit import __version__

        typer.echo(f"salvit {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Print the version."),
) -> None:
    """Find any keypoints in any pictures from one to five marked examples."""


def main() -> None:
    """Run a command; an error that a user can mend is one line on stderr and exit code 1, Ctrl-C is exit code 130."""
    keep_freed_memory()
    try:
        app()
    except KeyboardInterrupt:
        typer.secho("interrupted", fg="yellow", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.exit(1)
    except (ValueError, OSError) as problem:
        typer.secho(f"error: {problem}", fg="red", err=True)
        sys.exit(NOTHING_DONE)
