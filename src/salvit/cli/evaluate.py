"""``salvit evaluate`` and ``salvit score``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

if TYPE_CHECKING:
    from salvit.data.frozen import FrozenList
    from salvit.encoded_lists import Ways
    from salvit.model.settings import Decoding
    from salvit.transductive import TransductiveSettings
    from salvit.types import Detector


_TRANSDUCTION = ("assignment", "selection", "eta", "rounds", "kappa", "protocol")
"""Options of ``salvit evaluate`` that say how queries help each other."""


def evaluate(
    context: typer.Context,
    data: str = typer.Option(..., help="Name of the data set: animal_pose, cub, …"),
    root: Path = typer.Option(..., help="Its folder."),
    unseen: str | None = typer.Option(None, help="The unseen species (or list of species) to report on."),
    frozen: Path = typer.Option(..., "--list", help="The frozen list (`salvit data freeze`)."),
    model: str = typer.Option("match", help="Which detector."),
    out: Path = typer.Option(..., help="Write the predictions to this file (.jsonl)."),
    result: Path | None = typer.Option(None, help="Score them at once and write the result to this file."),
    finetune: int = typer.Option(0, min=0, help="Steps on each episode's supports before it is predicted."),
    episodes: int | None = typer.Option(None, min=1, help="Only the first so many of each kind."),
    queries: int | None = typer.Option(None, min=1, help="Only the first so many of each episode."),
    kind: str | None = typer.Option(None, help="novel or base alone; else both, and their harmonic mean."),
    occluder: str | None = typer.Option(None, help="Hide keypoints of the queries: grey, average or background."),
    occlusion: float = typer.Option(1.0, min=0, max=1, help="With --occluder: the share of keypoints to hide."),
    transductive: bool = typer.Option(False, "--transductive", help="The queries of an episode help each other."),
    zoom: bool = typer.Option(False, "--zoom", help="Look twice: nearer where the keypoints were found at first."),
    ways: str = typer.Option("one", help="supports: learn them mirrored too; both: look at mirrored queries as well."),
    decoding: str | None = typer.Option(None, help="mean, agreed or gathered, uncalibrated; else the model's own."),
    assignment: str = typer.Option("soft", help="soft, average, or oracle (the truth selects: an upper bound)."),
    selection: str = typer.Option("score", help="score, or score+similarity."),
    eta: int | None = typer.Option(None, min=0, help="Pseudo labels of each keypoint; else a third of the queries."),
    rounds: int = typer.Option(1, min=1, help="How often the prototypes are refined."),
    kappa: float = typer.Option(0.8, min=0, max=1, help="Weight of the supports."),
    protocol: str = typer.Option("label-free", help="label-free, or paper (looks at the queries' visibility)."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or mps."),
    threads: int = typer.Option(0, min=0, help="Threads for the network; 0: as many as the machine has."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace files that exist."),
) -> None:
    """Predict on a frozen list of episodes, to a file; with --result, score that file too."""
    from salvit.config import from_mapping
    from salvit.formats.targets import check_output
    from salvit.recipes import decoding_of
    from salvit.transductive import TransductiveSettings

    for path in (out, *([result] if result else [])):
        check_output(path, overwrite)
    _refuse_unused(context, () if transductive else _TRANSDUCTION, "--transductive")
    _refuse_unused(context, () if occluder else ("occlusion",), "--occluder")
    chosen = {"assignment": assignment, "selection": selection, "rounds": rounds, "kappa": kappa, "protocol": protocol}
    settings = from_mapping(TransductiveSettings, {**chosen, "eta": eta}) if transductive else None
    _refuse_together(settings, finetune, zoom, ways)
    listed = open_list(data, root, unseen, frozen, occluder, occlusion, episodes, queries, kind)
    found_by = None if decoding is None else decoding_of(decoding)
    _predict(listed, model, device, threads, out, finetune, settings, zoom, cast("Ways", ways), found_by)
    typer.echo(f"predictions: {out}")
    if result is not None:
        _score(out, listed, result)


def _refuse_unused(context: typer.Context, names: tuple[str, ...], needed: str) -> None:
    """Options that were given and would be ignored are an error."""
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [f"--{name}" for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if given:
        raise ValueError(f"without {needed} nothing comes of {', '.join(given)}: add {needed}, or leave it out")


def _refuse_together(settings: TransductiveSettings | None, finetune: int, zoom: bool, ways: str) -> None:
    """Options that do not go together are an error."""
    if settings is not None and finetune:
        raise ValueError("--transductive and --finetune do not go together; choose one")
    if zoom and (finetune or (settings is not None and settings.needs_truth)):
        raise ValueError("--zoom goes neither with --finetune nor with ways that look at labels; leave one out")
    if ways not in ("one", "supports", "both"):
        raise ValueError(f"--ways {ways}: expected one, supports or both")
    if ways != "one" and (finetune or zoom):
        raise ValueError("--ways goes neither with --finetune nor with --zoom; leave one out")


def open_list(
    data: str,
    root: Path,
    unseen: str | None,
    path: Path,
    occluder: str | None = None,
    occlusion: float = 1.0,
    episodes: int | None = None,
    queries: int | None = None,
    kind: str | None = None,
) -> FrozenList:
    """A frozen list over its data, or the part of it that was asked for."""
    from salvit.data.frozen import read_frozen
    from salvit.data.occlude import OCCLUDERS, Occluder
    from salvit.data.splits import open_problem
    from salvit.evaluate import part_of_list

    if occluder is not None and occluder not in OCCLUDERS:
        raise ValueError(f"--occluder {occluder}: expected {', '.join(OCCLUDERS)}")
    listed = read_frozen(
        path,
        open_problem(data, root, unseen),
        purpose="report",
        occluder=cast("Occluder | None", occluder),
        probability=occlusion,
    )
    return part_of_list(listed, episodes=episodes, queries=queries, kind=kind)


def _predict(
    listed: FrozenList,
    model: str,
    device: str,
    threads: int,
    out: Path,
    finetune: int,
    transductive: TransductiveSettings | None,
    zoom: bool,
    ways: Ways,
    decoding: Decoding | None,
) -> None:
    import torch

    from salvit.cli.progress import track
    from salvit.encoded_lists import encode_list, encode_mirrored
    from salvit.evaluate import predict_fine_tuned, predict_list
    from salvit.evaluate_zoom import predict_zoomed
    from salvit.model.detector import SalViT
    from salvit.predict import decoded_by, load
    from salvit.priors import saliency_of_records
    from salvit.provenance import about_run, count_queries

    if threads:
        torch.set_num_threads(threads)
    detector = decoded_by(load(model, device=device), decoding)
    about = about_run(detector, listed, finetune, transductive, model=model, zoom=zoom, ways=ways, decoding=decoding)
    saliency_of = saliency_of_records(detector)
    if finetune:
        if not isinstance(detector, SalViT):
            raise ValueError(f"--finetune needs a trained network; {detector.name} has no weights of its own")
        predict_fine_tuned(detector, listed, finetune, about, out, saliency_of=saliency_of, track=track)
        return
    if transductive is not None:
        typer.echo(f"queries of an episode: {count_queries(listed)}")
    encoded = encode_list(detector, listed, saliency_of=saliency_of, track=track)
    if zoom:
        predict_zoomed(
            detector, listed, encoded, about, out, saliency_of=saliency_of, transductive=transductive, track=track
        )
        return
    mirrored = encode_mirrored(detector, listed, ways, saliency_of=saliency_of, near=encoded.near, track=track)
    predict_list(
        detector, listed, encoded, about, out, transductive=transductive, ways=ways, mirrored=mirrored, track=track
    )


def about_run(
    detector: Detector, listed: FrozenList, finetune: int = 0, transductive: TransductiveSettings | None = None
) -> dict[str, Any]:
    """What a prediction file says of how it was made, for a detector that came from no file."""
    from salvit.provenance import about_run as about

    return about(detector, listed, finetune, transductive)


def score(
    predictions: Path = typer.Argument(help="A prediction file."),
    data: str = typer.Option(..., help="Name of the data set."),
    root: Path = typer.Option(..., help="Its folder."),
    unseen: str | None = typer.Option(None, help="The unseen species (or list of species)."),
    frozen: Path = typer.Option(..., "--list", help="The frozen list that the predictions were made on."),
    out: Path = typer.Option(..., help="Write the result to this file (.json)."),
    episodes: int | None = typer.Option(None, min=1, help="As it was evaluated: only the first of each kind."),
    queries: int | None = typer.Option(None, min=1, help="As it was evaluated: only the first of each episode."),
    kind: str | None = typer.Option(None, help="As it was evaluated: novel or base alone."),
    against: Path | None = typer.Option(None, help="Another run's predictions on the same list: compare the two."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a file that exists."),
) -> None:
    """Score a prediction file: ours or anybody's."""
    from salvit.formats.targets import check_output

    check_output(out, overwrite)
    listed = open_list(data, root, unseen, frozen, episodes=episodes, queries=queries, kind=kind)
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
