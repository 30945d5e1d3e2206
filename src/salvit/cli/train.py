"""``salvit train``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from salvit.train import Progress, Report


def train(
    recipe: Path = typer.Argument(help="The recipe (TOML)."),
    root: list[str] = typer.Option(
        [], help="The data set's folder, or NAME=DIR for one of several; may be repeated. Creatures need none."
    ),
    out: Path = typer.Option(..., help="The run's folder: checkpoints, log, TensorBoard events."),
    change: list[str] = typer.Option([], "--set", help="section.setting=value; wins over the recipe; may be repeated."),
    start: str | None = typer.Option(
        None, help="A model of the same kind whose weights to begin with: a checkpoint, lite or dino."
    ),
    resume: bool = typer.Option(False, "--resume", help="Go on with the run in that folder."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or mps."),
    devices: int = typer.Option(
        1, min=1, help="Processes on this machine (under torchrun: leave it, torchrun decides)."
    ),
    threads: int = typer.Option(0, min=0, help="Threads of each process; 0: as many as the machine has."),
) -> None:
    """Train a model from a recipe."""
    import os

    import torch

    from salvit.cli.progress import track
    from salvit.fabric import open_fabric
    from salvit.provenance import training_command
    from salvit.recipes import read_recipe
    from salvit.released import released_path
    from salvit.sources import open_problems
    from salvit.train import train as run

    settings = read_recipe(recipe, change)
    if threads:
        torch.set_num_threads(threads)
    world = int(os.environ.get("WORLD_SIZE", devices))
    if settings.train.episodes_per_step % world:
        raise ValueError(
            f"train.episodes_per_step ({settings.train.episodes_per_step}) must be a multiple of the number of "
            f"processes ({world})"
        )
    # A model without saliency does not use its morphology learner: some parameters then get no gradient.
    strategy = "ddp_find_unused_parameters_true" if world > 1 else "auto"
    fabric = open_fabric(settings.train, device, devices=devices, strategy=strategy)
    fabric.launch()
    roots = roots_of(root, [data.name for data in settings.datasets])
    best = run(
        settings,
        open_problems(settings, roots),
        out,
        fabric,
        resume=resume,
        start=None if start is None else released_path(start) or Path(start),
        command=training_command(recipe, settings, roots, change, start),
        track=track,
        report=_reporter(out, fabric.is_global_zero),
    )
    if fabric.is_global_zero:
        typer.echo(f"model: {best}")


def roots_of(texts: list[str], names: list[str]) -> dict[str, Path]:
    """Name → folder; a folder without a name is that of the first data set."""
    roots: dict[str, Path] = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        is_named = bool(equals) and name.isidentifier()
        name, folder = (name, folder) if is_named else (names[0], text)
        if name in roots:
            raise ValueError(f"--root {text}: {name} has a folder already; say --root NAME=DIR for each data set")
        roots[name] = Path(folder)
    return roots


def _reporter(folder: Path, is_first: bool) -> Report:
    """A line that is written anew with the losses, the last look at dev and the time left; TensorBoard beside it."""
    import time

    if not is_first:
        return lambda progress: None
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder / "tensorboard"))
    began: dict[str, float] = {}
    seen: dict[str, float] = {}

    def report(progress: Progress) -> None:
        now = time.monotonic()
        began.setdefault("time", now)
        began.setdefault("episode", progress.episode)
        for name, value in progress.losses.items():
            seen[name] = 0.98 * seen.get(name, value) + 0.02 * value
        if progress.episode % 25 and progress.episode != progress.episodes:
            return
        for name, value in seen.items():
            writer.add_scalar(f"train/{name}", value, progress.episode)
        for name, value in progress.dev.items():
            writer.add_scalar(f"dev/{name}", value, progress.episode)
        done = max(progress.episode - began["episode"], 1)
        left = (now - began["time"]) / done * (progress.episodes - progress.episode)
        terms = " ".join(f"{name} {value:.3f}" for name, value in seen.items())
        dev = f" · dev {progress.dev['harmonic']:.1f} (best {progress.best:.1f})" if progress.dev else ""
        place = f"episode {progress.episode}/{progress.episodes}"
        typer.echo(f"{place} · {terms}{dev} · {int(left // 60)}:{int(left % 60):02d} left", err=True)

    return report
