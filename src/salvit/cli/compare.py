"""``salvit compare``: every method by one recipe on one list."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from salvit.data.splits import Problem
    from salvit.recipes import Recipe
    from salvit.suites import Case
    from salvit.types import Detector


def compare(
    recipe: Path = typer.Argument(help="The recipe (TOML); its method and unseen species are set by this command."),
    root: Path = typer.Option(..., help="The data set's folder."),
    out: Path = typer.Option(..., help="Folder for runs, lists, cases and the table; a stopped comparison goes on."),
    unseen: list[str] = typer.Option(..., help="Unseen species to report on; may be repeated."),
    method: list[str] = typer.Option([], help="A method (docs/methods.md); may be repeated. Else all of them."),
    shots: list[int] = typer.Option([1, 5], min=1, help="From one training each; may be repeated."),
    episodes: int = typer.Option(300, min=1, help="Test episodes of each kind (novel and base)."),
    change: list[str] = typer.Option([], "--set", help="section.setting=value; wins over the recipe; may be repeated."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or mps."),
    threads: int = typer.Option(0, min=0, help="Threads of the network; 0: as many as the machine has."),
) -> None:
    """Train every method by the same recipe and score them on the same lists: one table, the paper's figures beside."""
    import torch

    from salvit.baselines.comparison import COMPARED, FLOOR, table_of
    from salvit.fabric import need_training
    from salvit.recipes import read_recipe
    from salvit.results import write_result

    settings = read_recipe(recipe, change)
    methods = method or list(COMPARED)
    if unknown := [name for name in methods if name not in COMPARED]:
        raise ValueError(f"unknown method {unknown[0]!r}; known: {', '.join(COMPARED)}")
    if settings.also:
        names = ", ".join(data.name for data in settings.also)
        raise ValueError(
            f"{recipe} trains on several data sets ({settings.data.name}, {names}); compared methods train on one: "
            "give a recipe without [[also]], such as recipes/animal_pose-compared.toml"
        )
    if set(methods) != {FLOOR}:
        need_training()
    if threads:
        torch.set_num_threads(threads)
    numbers = sorted(set(shots))
    command = (
        f"salvit compare recipes/{recipe.name} --root $SALVIT_DATA/{settings.data.name} --out compared "
        + " ".join([*(f"--unseen {name}" for name in unseen), *(f"--shots {number}" for number in numbers)])
        + "".join(f" --set {text}" for text in change)
        + f" --episodes {episodes}"
    )
    done = [
        case
        for species in unseen
        for case in _compare_one(settings, root, out / species, species, methods, numbers, episodes, device, command)
    ]
    table = table_of(done)
    (out / "compared.md").write_text(table, encoding="utf-8")
    rows = [{"labels": case.labels, "result": case.result} for case in done]
    write_result({"suite": "compared", "rows": rows}, out / "compared.json")
    typer.echo(table)
    typer.echo(f"wrote {out / 'compared.md'} and {out / 'compared.json'}")


def _compare_one(
    settings: Recipe,
    root: Path,
    folder: Path,
    unseen: str,
    methods: list[str],
    shots: list[int],
    episodes: int,
    device: str,
    command: str,
) -> list[Case]:
    """All methods on one unseen species."""
    from salvit.baselines.comparison import FLOOR, floor_of, measure, open_list, recipe_of
    from salvit.cli.progress import track
    from salvit.data.splits import open_problem
    from salvit.predict import choose_device, load_trained
    from salvit.priors import saliency_of_records
    from salvit.provenance import about_run
    from salvit.suites import Study

    problem = open_problem(settings.data.name, root, unseen, dev_species=settings.data.dev_species)
    place = choose_device(device)
    listed = open_list(problem, settings, max(shots), episodes, folder / "list.json")
    (folder / "cases").mkdir(parents=True, exist_ok=True)
    trained = {
        name: _train(recipe_of(settings, name, unseen), problem, folder / name, device, command)
        for name in methods
        if name != FLOOR
    }
    detectors: list[tuple[str, Detector]] = [
        (name, load_trained(trained[name], device=device) if name in trained else floor_of(settings.model, place))
        for name in methods
    ]
    study = Study(
        listed,
        tuple(detectors),
        saliency_of_records,
        lambda model, part, _: {**about_run(model, part), "command": command},
        folder,
        track,
    )
    done: list[Case] = []
    for case in measure(study, shots):
        done.append(case)
        figure = "{:.2f} ± {:.2f}".format(*case.figure)
        typer.echo(f"{unseen} {case.labels['method']} {case.labels['shots']:g}-shot: {figure}")
    return done


def _train(recipe: Recipe, problem: Problem, folder: Path, device: str, command: str) -> Path:
    """Train one method, or go on with it; gives the best on dev."""
    from salvit.checkpoint import load_checkpoint
    from salvit.cli.progress import track
    from salvit.cli.train import _reporter
    from salvit.fabric import open_fabric
    from salvit.train import train

    last, best = folder / "last.safetensors", folder / "best.safetensors"
    if last.exists():
        saved = load_checkpoint(last)
        if saved.recipe == recipe and saved.state["episode"] >= recipe.train.episodes:
            return best if best.exists() else last
    typer.echo(f"training {folder.name}, {recipe.data.unseen} unseen", err=True)
    return train(
        recipe,
        [problem],
        folder,
        open_fabric(recipe.train, device),
        resume=last.exists(),
        command=command,
        track=track,
        report=_reporter(folder, True),
    )
