"""``salvit calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from salvit.calibrate import Calibrated


def calibrate(
    checkpoint: Path = typer.Argument(help="A model that `salvit train` wrote."),
    root: list[str] = typer.Option(
        [], help="Folder of the model's data set, or NAME=DIR for one of several; those not named are left out."
    ),
    out: Path = typer.Option(..., help="The calibrated model (.safetensors); a reliability plot (.png) is put beside."),
    episodes: int = typer.Option(150, min=1, help="Dev episodes of each data set and kind of keypoints."),
    decoding: str | None = typer.Option(None, help="Find places by mean, agreed or gathered from now on."),
    raw: float = typer.Option(1.0, min=0, help="Let raw tokens' similarity count so many times as much as learnt."),
    filters: float | None = typer.Option(
        None, min=0, help="Let filters, made from the marked pictures alone, count so much from now on; 0: none."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Write over a file that is there."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or mps."),
    threads: int = typer.Option(0, min=0, help="Threads; 0: as many as the machine has."),
) -> None:
    """Fit what a model says of its own certainty to dev images, and write a new model that says it.

    Covariances, scores and presence then mean what they say; points stay where they were, unless --decoding asks for
    another way to find them, or --raw and --filters for more trust in what needs no learning: safer far from the
    training's pictures. Report species are refused.
    """
    plot = out.with_suffix(".png")
    if out.suffix != ".safetensors":
        raise ValueError(f"--out {out}: expected a .safetensors file")
    if taken := [path for path in (out, plot) if path.exists() and not overwrite]:
        raise FileExistsError(f"{taken[0]} is there already; --overwrite writes over it")
    import torch

    from salvit.calibrate import calibrate as fit
    from salvit.calibrate import dev_sources, restrict
    from salvit.calibration_report import draw_reliability
    from salvit.checkpoint import load_checkpoint, put_weights, save_checkpoint, with_raw_gain
    from salvit.cli.progress import track
    from salvit.cli.train import roots_of
    from salvit.predict import load_trained
    from salvit.priors import saliency_of_records
    from salvit.provenance import calibration_command
    from salvit.recipes import with_decoding, with_filter_gain
    from salvit.sources import open_problems

    if threads:
        torch.set_num_threads(threads)
    saved = load_checkpoint(checkpoint)
    checked = with_filter_gain(with_decoding(saved.recipe, decoding), filters)
    roots = roots_of(root, [data.name for data in saved.recipe.datasets])
    recipe = restrict(checked, list(roots))
    weights = with_raw_gain(saved.weights, raw)
    model = load_trained(checkpoint, device=device)
    model.settings = checked.model
    put_weights(model, weights)
    saliency_of = saliency_of_records(model, for_training=True)  # cached views are those of the training
    sources = dev_sources(recipe, open_problems(recipe, roots), model, saliency_of, track)
    result = fit(model, sources, episodes, track=track)
    command = calibration_command(saved.command, checkpoint, roots, episodes, out, decoding, raw, filters)
    save_checkpoint(out, checked, weights, {}, saved.state, command=command, calibration=result.calibration)
    draw_reliability(result, plot)
    _tell(result, out, plot)


def _tell(result: Calibrated, out: Path, plot: Path) -> None:
    """How the fit does, and where it was written."""
    from rich.console import Console

    from salvit.calibration_report import table_of

    console = Console()
    console.print(table_of(result))
    console.print("each image is judged by what was fitted on the other half; what is written is fitted on all")
    console.print(f"model: {out}", highlight=False)
    console.print(f"plot: {plot}", highlight=False)
