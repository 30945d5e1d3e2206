"""``salvit evaluate`` and ``salvit score``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from salvit.data.frozen import FrozenList
    from salvit.types import Detector


def evaluate(
    data: str = typer.Option(..., help="Name of the data set: animal_pose, cub, …"),
    root: Path = typer.Option(..., help="Its folder."),
    unseen: str | None = typer.Option(None, help="The unseen species (or list of species) to report on."),
    frozen: Path = typer.Option(..., "--list", help="The frozen list (`salvit data freeze`)."),
    model: str = typer.Option("match", help="Which detector."),
    out: Path = typer.Option(..., help="Write the predictions to this file (.jsonl)."),
    result: Path | None = typer.Option(None, help="Score them at once and write the result to this file."),
    finetune: int = typer.Option(0, min=0, help="Steps on each episode's supports before it is predicted."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or mps."),
    threads: int = typer.Option(0, min=0, help="Threads for the network; 0: as many as the machine has."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace files that exist."),
) -> None:
    """Predict on a frozen list of episodes, to a file; with --result, score that file too."""
    import torch

    from salvit.cli.progress import track
    from salvit.data.frozen import read_frozen
    from salvit.data.splits import open_problem
    from salvit.detections import check_output
    from salvit.evaluate import encode_list, predict_fine_tuned, predict_list
    from salvit.model.detector import SalViT
    from salvit.predict import load
    from salvit.priors import saliency_of_records

    for path in (out, *([result] if result else [])):
        check_output(path, overwrite)
    if threads:
        torch.set_num_threads(threads)
    problem = open_problem(data, root, unseen)
    listed = read_frozen(frozen, problem, purpose="report")
    detector = load(model, device=device)
    about = _about(detector, listed, finetune)
    saliency_of = saliency_of_records(detector)
    if finetune:
        if not isinstance(detector, SalViT):
            raise ValueError(f"--finetune needs a trained network; {detector.name} has no weights of its own")
        predict_fine_tuned(detector, listed, finetune, about, out, saliency_of=saliency_of, track=track)
    else:
        encoded = encode_list(detector, listed, saliency_of=saliency_of, track=track)
        predict_list(detector, listed, encoded, about, out, track=track)
    typer.echo(f"predictions: {out}")
    if result is not None:
        _score(out, listed, result)


def _about(detector: Detector, listed: FrozenList, finetune: int) -> dict[str, Any]:
    """What a prediction file says of how it was made."""
    from salvit.model.detector import SalViT
    from salvit.results import hardware

    values, problem = listed.values, listed.problem
    protocol = {
        "transductive": False,
        "crop": values["crop"],
        "bn": detector.settings.backbone.bn if isinstance(detector, SalViT) else "running",
        "saliency": detector.settings.saliency if isinstance(detector, SalViT) else "none",
        "queries": values["queries"],
        "finetune_steps": finetune,
        "input_size": detector.input_size,
        "notes": list(problem.notes),
    }
    return {
        "data": problem.name,
        "problem": problem.label,
        "shots": values["shots"],
        "seed": values["seed"],
        "protocol": protocol,
        "command": _command(values, detector.name, finetune),
        "hardware": hardware(),
    }


def score(
    predictions: Path = typer.Argument(help="A prediction file."),
    data: str = typer.Option(..., help="Name of the data set."),
    root: Path = typer.Option(..., help="Its folder."),
    unseen: str | None = typer.Option(None, help="The unseen species (or list of species)."),
    frozen: Path = typer.Option(..., "--list", help="The frozen list that the predictions were made on."),
    out: Path = typer.Option(..., help="Write the result to this file (.json)."),
    against: Path | None = typer.Option(None, help="Another run's predictions on the same list: compare the two."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a file that exists."),
) -> None:
    """Score a prediction file: ours or anybody's."""
    from salvit.data.frozen import read_frozen
    from salvit.data.splits import open_problem
    from salvit.detections import check_output

    check_output(out, overwrite)
    listed = read_frozen(frozen, open_problem(data, root, unseen), purpose="report")
    _score(predictions, listed, out)
    if against is not None:
        _compare(predictions, against, listed)


def _compare(one: Path, other: Path, listed: FrozenList) -> None:
    """Paired bootstrap of two runs on the same episodes."""
    from salvit.evaluate import read_predictions
    from salvit.metrics import paired_bootstrap
    from salvit.score import compare, episode_pck

    first, second = (compare(read_predictions(path), listed) for path in (one, other))
    for kind in dict.fromkeys(first.kind.tolist()):
        shares = [100 * episode_pck(run.where(run.kind == kind), 0.1) for run in (first, second)]
        found = paired_bootstrap(*shares)
        typer.echo(
            f"{kind}: {found['difference']:+.2f} PCK@0.1 against {other.name} (95 % interval {found['low']:+.2f} to "
            f"{found['high']:+.2f}; not above zero in {100 * found['p_not_above_zero']:.1f} % of draws)"
        )


def _score(predictions: Path, listed: FrozenList, out: Path) -> None:
    from salvit.evaluate import read_predictions
    from salvit.results import make_result, write_result
    from salvit.score import compare
    from salvit.score import score as score_outcomes

    made = read_predictions(predictions)
    figures = score_outcomes(compare(made, listed))
    result = make_result(made.about, figures, listed.hash)
    write_result(result, out)
    _print(result, figures)
    typer.echo(f"result: {out}")


def _print(result: dict[str, Any], figures: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    title = f"{result['model']} · {result['data']} {result['problem']} · {result['shots']}-shot"
    table = Table("keypoints", "PCK@0.05", "PCK@0.1", "± 95 %", "PCK@0.2", "AUC", "NE", "OKS", "episodes", title=title)
    for kind, pck in figures["pck"].items():
        similarity = figures["oks"][kind]
        table.add_row(
            kind,
            f"{pck['0.05']:.1f}",
            f"{pck['0.1']:.1f}",
            f"{figures['interval'][kind]['0.1']:.1f}",
            f"{pck['0.2']:.1f}",
            f"{figures['auc'][kind]:.1f}",
            f"{figures['ne'][kind]:.3f}",
            "—" if similarity is None else f"{similarity:.1f}",
            str(figures["episodes"][kind]),
        )
    console.print(table)
    if figures.get("harmonic") is not None:
        console.print(f"harmonic mean of novel and base PCK@0.1: {figures['harmonic']:.2f} ± {figures['ci95']:.2f}")
    calibration = figures["calibration"]
    within = ", ".join(f"{k} {value:.1f} %" for k, value in calibration["coverage"].items())
    console.print(f"coverage: {within} (a Gaussian: 39.3, 86.5, 98.9); NLL {calibration['nll']:.2f}")
    console.print(f"protocol: {result['protocol']}")


def _command(values: dict[str, Any], model: str, finetune: int) -> str:
    """The two commands that make the same figures again, without anybody's own paths."""
    episodes = len(values["episodes"]) // max(1, len({row["kind"] for row in values["episodes"]}))
    root, unseen = f"--root $SALVIT_DATA/{values['data']}", f"--unseen {values['unseen']}"
    freeze = (
        f"salvit data freeze {values['data']} {root} {unseen} --shots {values['shots']} --queries {values['queries']} "
        f"--crop {values['crop']} --episodes {episodes} --seed {values['seed']} --out list.json"
    )
    steps = f" --finetune {finetune}" if finetune else ""
    return (
        f"{freeze} && salvit evaluate --data {values['data']} {root} {unseen} --list list.json --model {model}{steps} "
        "--out predictions.jsonl --result result.json"
    )
