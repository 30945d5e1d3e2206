"""``salvit teach-finder``."""

from __future__ import annotations

from pathlib import Path

import typer


def teach_finder(
    model: str = typer.Argument(help="A model without a finder: a checkpoint that `salvit train` wrote, lite or dino."),
    root: list[str] = typer.Option(
        [], help="Folder of the model's data set, or NAME=DIR for one of several. Creatures need none."
    ),
    out: Path = typer.Option(..., help="The same model with a finder (.safetensors)."),
    pictures: int = typer.Option(3000, min=16, help="At most so many training pictures of each data set."),
    epochs: int = typer.Option(6, min=1, help="How often each is shown."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Write over a file that is there."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or mps."),
    threads: int = typer.Option(0, min=0, help="Threads; 0: as many as the machine has."),
) -> None:
    """Teach a trained model to find the object first, and write a new model that looks near it.

    It learns from the boxes of the model's own training pictures; nothing else of the model changes, but it must be
    calibrated again, because it then looks at other windows. Report species are refused.
    """
    from dataclasses import replace

    import torch

    from salvit.checkpoint import load_checkpoint, own_weights, save_checkpoint
    from salvit.cli.progress import track
    from salvit.cli.train import roots_of
    from salvit.model.build import build_finder
    from salvit.predict import load_trained
    from salvit.provenance import finder_command
    from salvit.released import released_path
    from salvit.sources import open_problems
    from salvit.teach_finder import glance_at, judge, teach

    if out.suffix != ".safetensors":
        raise ValueError(f"--out {out}: expected a .safetensors file")
    if out.exists() and not overwrite:
        raise FileExistsError(f"{out} is there already; --overwrite writes over it")
    if threads:
        torch.set_num_threads(threads)
    path = released_path(model) or Path(model)
    saved = load_checkpoint(path)
    if saved.recipe.model.finder:
        raise ValueError(f"{model} has a finder already; take the model that it was taught to")
    recipe = replace(saved.recipe, model=replace(saved.recipe.model, finder=True))
    roots = roots_of(root, [data.name for data in recipe.datasets])
    problems = open_problems(recipe, roots)
    looking = load_trained(path, device=device)
    torch.manual_seed(recipe.train.seed)
    looking.finder = build_finder(looking).to(looking.device)
    kept = glance_at(looking, recipe, problems, "dev", max(1, pictures // 10), track=track)
    shown = glance_at(looking, recipe, problems, "train", pictures, track=track)
    teach(looking.finder, shown, looking.input_size, epochs=epochs, seed=recipe.train.seed, track=track)
    share = judge(looking.finder, kept, looking.input_size)
    command = finder_command(saved.command, path, list(roots), pictures, epochs, out)
    save_checkpoint(out, recipe, own_weights(looking), {}, saved.state, command=command)
    typer.echo(
        f"{len(share)} dev pictures: mean IoU {100 * float(share.mean()):.1f} %, above one half in "
        f"{100 * float((share > 0.5).float().mean()):.1f} %"
    )
    typer.echo(f"model: {out} (not calibrated: `salvit calibrate`)")
