"""``salvit suite``: studies of trained models, each one command that leaves a table and a plot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from salvit.encoded_lists import SaliencyOf
    from salvit.suites import Case, Study
    from salvit.types import Detector

app = typer.Typer(
    help="Studies of trained models on a frozen list: a table and a plot each. A stopped study goes on where it was.",
    no_args_is_help=True,
)
DATA = typer.Option(..., "--data", help="Name of the data set: animal_pose, cub, …")
ROOT = typer.Option(..., "--root", help="Its folder.")
UNSEEN = typer.Option(None, "--unseen", help="The unseen species (or list of species) to report on.")
LIST = typer.Option(..., "--list", help="The frozen list (`salvit data freeze`).")
MODEL = typer.Option(..., "--model", help="NAME=MODEL or MODEL; may be repeated.")
OUT = typer.Option(..., "--out", help="Folder for the table, the plot, the results and the cases done so far.")
EPISODES = typer.Option(None, "--episodes", min=1, help="Only the first so many of each kind.")
KIND = typer.Option(None, "--kind", help="novel or base alone; else both, and their harmonic mean.")
DEVICE = typer.Option("auto", "--device", help="auto, cpu, cuda or mps.")
THREADS = typer.Option(0, "--threads", min=0, help="Threads for the network; 0: as many as the machine has.")


@app.command("occlusion")
def occlusion(
    data: str = DATA,
    root: Path = ROOT,
    unseen: str | None = UNSEEN,
    frozen: Path = LIST,
    model: list[str] = MODEL,
    out: Path = OUT,
    episodes: int | None = EPISODES,
    kind: str | None = KIND,
    hidden: list[float] = typer.Option([0, 10, 30, 50, 70, 100], help="Percent of keypoints to hide; may be repeated."),
    device: str = DEVICE,
    threads: int = THREADS,
) -> None:
    """Three kinds of occluders, each hiding more and more of the queries' keypoints."""
    from salvit.suites import occlusion as run

    study = _open(data, root, unseen, frozen, model, out, episodes, kind, device, threads)
    _finish("occlusion", run(study, [percent / 100 for percent in hidden]), "hidden", out)


@app.command("saliency")
def saliency(
    data: str = DATA,
    root: Path = ROOT,
    unseen: str | None = UNSEEN,
    frozen: Path = LIST,
    model: list[str] = MODEL,
    out: Path = OUT,
    episodes: int | None = EPISODES,
    kind: str | None = KIND,
    provider: str = typer.Option("learned", help="Maps for models without saliency, whose features they weigh."),
    device: str = DEVICE,
    threads: int = THREADS,
) -> None:
    """Saliency that fails: thresholds, reversed, empty, shifted."""
    from salvit.suites import saliency as run

    study = _open(data, root, unseen, frozen, model, out, episodes, kind, device, threads, provider)
    _finish("saliency", run(study), "strength", out)


@app.command("shots")
def shots(
    data: str = DATA,
    root: Path = ROOT,
    unseen: str | None = UNSEEN,
    frozen: Path = LIST,
    model: list[str] = MODEL,
    out: Path = OUT,
    episodes: int | None = EPISODES,
    kind: str | None = KIND,
    most: int = typer.Option(5, min=1, help="From 1 to so many; the list must have as many."),
    device: str = DEVICE,
    threads: int = THREADS,
) -> None:
    """One support to five, the queries always the same."""
    from salvit.suites import shots as run

    study = _open(data, root, unseen, frozen, model, out, episodes, kind, device, threads)
    _finish("shots", run(study, most), "shots", out)


@app.command("pseudo-labels")
def pseudo_labels(
    data: str = DATA,
    root: Path = ROOT,
    unseen: str | None = UNSEEN,
    frozen: Path = LIST,
    model: list[str] = MODEL,
    out: Path = OUT,
    episodes: int | None = EPISODES,
    kind: str | None = KIND,
    pair: list[str] = typer.Option(["15:6", "30:10", "45:15", "60:20"], help="QUERIES:ETA; may be repeated."),
    device: str = DEVICE,
    threads: int = THREADS,
) -> None:
    """Transduction with more and more queries and pseudo labels."""
    from salvit.suites import pseudo_labels as run

    try:
        pairs = [(int(queries), int(eta)) for queries, _, eta in (text.partition(":") for text in pair)]
    except ValueError:
        raise ValueError(f"--pair {' '.join(pair)}: expected QUERIES:ETA, as 60:20") from None
    study = _open(data, root, unseen, frozen, model, out, episodes, kind, device, threads)
    _finish("pseudo-labels", run(study, pairs), "queries", out)


@app.command("exponents")
def exponents(
    data: str = DATA,
    root: Path = ROOT,
    unseen: str | None = UNSEEN,
    frozen: Path = LIST,
    model: list[str] = MODEL,
    out: Path = OUT,
    episodes: int | None = EPISODES,
    kind: str | None = KIND,
    exponent: list[float] = typer.Option([0.2, 0.5, 0.7, 0.8, 1.0, 2.0], help="Powers of saliency; may be repeated."),
    device: str = DEVICE,
    threads: int = THREADS,
) -> None:
    """The exponent of saliency set by hand in inference, beside what the model was trained with."""
    from salvit.suites import exponents as run

    study = _open(data, root, unseen, frozen, model, out, episodes, kind, device, threads)
    _finish("exponents", run(study, exponent), "exponent", out)


@app.command("assignments")
def assignments(
    data: str = DATA,
    root: Path = ROOT,
    unseen: str | None = UNSEEN,
    frozen: Path = LIST,
    model: list[str] = MODEL,
    out: Path = OUT,
    episodes: int | None = EPISODES,
    kind: str | None = KIND,
    eta: int | None = typer.Option(None, min=0, help="Pseudo labels of each keypoint; else a third of the queries."),
    rounds: int = typer.Option(1, min=1, help="How often the prototypes are refined."),
    device: str = DEVICE,
    threads: int = THREADS,
) -> None:
    """Inductive, simple average, soft assignment and oracle on the same list."""
    from salvit.suites import assignments as run
    from salvit.transductive import TransductiveSettings

    study = _open(data, root, unseen, frozen, model, out, episodes, kind, device, threads)
    _finish("assignments", run(study, TransductiveSettings(eta=eta, rounds=rounds)), "assignment", out)


def _open(
    data: str,
    root: Path,
    unseen: str | None,
    frozen: Path,
    models: list[str],
    out: Path,
    episodes: int | None,
    kind: str | None,
    device: str,
    threads: int,
    provider: str | None = None,
) -> Study:
    """A study of some models on a list; ``provider`` brings maps to those without saliency."""
    import torch

    from salvit.cli.evaluate import about_run, open_list
    from salvit.cli.progress import track
    from salvit.predict import load
    from salvit.suites import Study

    if threads:
        torch.set_num_threads(threads)
    listed = open_list(data, root, unseen, frozen, episodes=episodes, kind=kind)
    named = dict(_named(text) for text in models)
    if len(named) < len(models):
        raise ValueError(f"two of the models have one name ({', '.join(named)}); say --model NAME=MODEL")
    detectors = tuple((name, load(path, device=device)) for name, path in named.items())
    (out / "cases").mkdir(parents=True, exist_ok=True)
    return Study(
        listed,
        detectors,
        lambda detector: _maps_for(detector, provider),
        lambda detector, part, settings: about_run(detector, part, 0, settings),
        out,
        track,
    )


def _named(text: str) -> tuple[str, str]:
    """``NAME=MODEL``, or a model that is called by its file and folder."""
    name, equals, path = text.partition("=")
    if equals:
        return name, path
    return "-".join(Path(text).with_suffix("").parts[-2:]) if text.endswith(".safetensors") else text, text


def _maps_for(detector: Detector, provider: str | None) -> SaliencyOf | None:
    """Saliency of records: what the model wants, or the maps that weigh the features of one that wants none."""
    from salvit.model.detector import SalViT
    from salvit.priors import saliency_of_records
    from salvit.spoiled import inner

    real = inner(detector)
    if (wanted := saliency_of_records(real)) is not None or provider is None:
        return wanted
    if isinstance(real, SalViT) and real.encoder.uses_saliency:
        return None  # from the backbone in the same pass
    import numpy as np

    from salvit.data.images import read_image
    from salvit.saliency import build_provider
    from salvit.saliency.cache import CachedProvider

    kept = CachedProvider(build_provider(provider))
    return lambda record: kept(np.asarray(read_image(record.path)), record.path)


def _finish(name: str, cases: Iterator[Case], along: str, out: Path) -> None:
    from salvit.suite_report import write_report

    done = []
    for case in cases:
        done.append(case)
        figure, spread = case.figure
        typer.echo(f"{' '.join(map(str, case.labels.values()))}: {figure:.2f} ± {spread:.2f}")
    paths = write_report(name, done, along, out)
    typer.echo(paths[1].read_text(encoding="utf-8"))
    typer.echo("wrote " + ", ".join(str(path) for path in paths))
