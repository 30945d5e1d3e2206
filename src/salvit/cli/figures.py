"""``salvit figures``."""

from __future__ import annotations

from pathlib import Path

import typer


def figures(
    names: list[str] = typer.Argument(
        None, metavar="[NAME]...", help="qualitative, worst, occlusions, saliency, powers; else all that the model has."
    ),
    data: str = typer.Option(..., help="Name of the data set: animal_pose, cub, …"),
    root: Path = typer.Option(..., help="Its folder."),
    unseen: str | None = typer.Option(None, help="The unseen species (or list of species) to report on."),
    frozen: Path = typer.Option(..., "--list", help="The frozen list (`salvit data freeze`)."),
    model: str = typer.Option("match", help="Which detector: a checkpoint, a released model or match."),
    out: Path = typer.Option(Path("figures"), help="Folder for the figures, NAME.jpg each."),
    seed: int = typer.Option(0, min=0, help="Draws episodes, queries and pictures: nothing is chosen by its outcome."),
    episodes: int = typer.Option(20, min=1, help="So many of each kind are drawn."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or mps."),
    threads: int = typer.Option(0, min=0, help="Threads for the network; 0: as many as the machine has."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace files that exist."),
) -> None:
    """Draw what a model finds on a frozen list: queries, worst errors, occlusions, saliency, powers of saliency."""
    import torch

    from salvit.cli.evaluate import open_list
    from salvit.cli.progress import track
    from salvit.figures import FIGURES, Ground, make_figure, save_sheet, why_not
    from salvit.formats.targets import check_output
    from salvit.predict import load
    from salvit.priors import saliency_of_records

    if unknown := sorted(set(names or ()) - set(FIGURES)):
        raise ValueError(f"unknown figure {unknown[0]!r}; known: {', '.join(FIGURES)}")
    if threads:
        torch.set_num_threads(threads)
    detector = load(model, device=device)
    missing = {name: reason for name in names or FIGURES if (reason := why_not(name, detector)) is not None}
    for name, reason in missing.items():
        if names:
            raise ValueError(f"{name}: {reason}; choose another model, or leave this figure out")
        typer.echo(f"{name} is left out: {reason}")
    paths = {name: out / f"{name}.jpg" for name in dict.fromkeys(names or FIGURES) if name not in missing}
    for path in paths.values():
        check_output(path, overwrite)
    listed = open_list(data, root, unseen, frozen)
    ground = Ground(
        detector, listed, saliency_of=saliency_of_records(detector), seed=seed, episodes=episodes, track=track
    )
    for name, path in paths.items():
        save_sheet(make_figure(name, ground), path)
        typer.echo(f"wrote {path}")
