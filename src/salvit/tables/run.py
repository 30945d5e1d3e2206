"""Runs what tables are missing: train, freeze the list, evaluate, write the result; what is there is not run again.

A run that was stopped goes on where it was: finished results are kept, and an interrupted training resumes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from filelock import FileLock

from salvit.checkpoint import load_checkpoint
from salvit.data.episodes import EpisodeSettings
from salvit.data.frozen import FrozenList, freeze, read_frozen, write_frozen
from salvit.data.occlude import Occluder
from salvit.data.splits import Problem
from salvit.encoded_lists import EncodedList, Track, encode_list, encode_mirrored
from salvit.evaluate import part_of_list, predict_fine_tuned, predict_list, read_predictions
from salvit.evaluate_zoom import predict_zoomed
from salvit.fabric import open_fabric
from salvit.model.detector import SalViT
from salvit.predict import decoded_by, load
from salvit.priors import saliency_of_records
from salvit.provenance import about_run, training_command
from salvit.recipes import Recipe, read_recipe
from salvit.results import make_result, write_result
from salvit.score import compare, score
from salvit.sources import open_problems
from salvit.spoiled import spoiled
from salvit.tables.commands import failing_of
from salvit.tables.rows import Ask, Model, Table, asks_of
from salvit.train import Report, train
from salvit.types import Detector

_EPISODE_SECONDS = {"dynamic": 0.5, "spatial": 0.4, "flat": 2.0}
"""A training episode on two cores with the swift, the light and the paper's head, about: to order jobs by size."""
_QUERY_SECONDS = 0.01
_ENCODE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything is."""

    data: Path
    """Holds the data sets, each in a folder of its name."""
    recipes: Path
    runs: Path
    """Trained models, lists and predictions."""
    results: Path


@dataclass(frozen=True, slots=True)
class Job:
    """One model with one thing unseen, and the evaluations of it that are missing."""

    model: Model
    asks: tuple[Ask, ...]
    recipe: Recipe | None
    """None: the model is not trained."""
    changes: tuple[str, ...]
    """Everything that is set beside the recipe file."""
    train_seconds: float
    evaluate_seconds: float
    episodes: int = 0
    """Of its training, that of the one that it goes on from included."""

    @property
    def name(self) -> str:
        """Its folder among the runs."""
        return f"{self.model.name}-{self.asks[0].data}-{self.asks[0].unseen}"

    @property
    def seconds(self) -> float:
        """About how long it takes."""
        return self.train_seconds + self.evaluate_seconds


def plan(
    tables: Sequence[Table],
    places: Places,
    *,
    is_full: bool = False,
    models: Collection[str] = (),
    unseen: Collection[str] = (),
) -> list[Job]:
    """Jobs for all results that are missing, the smallest first.

    Args:
        tables: Which.
        places: Where results and runs are.
        is_full: Also what is not meant for this hardware.
        models: Only these, whether meant for this hardware or not; none: all.
        unseen: Only with these unseen; none: all.
    """
    grouped: dict[tuple[Model, str, str], list[Ask]] = {}
    for model, ask in asks_of(tables, is_full=is_full or bool(models)):
        if (models and model.name not in models) or (unseen and ask.unseen not in unseen):
            continue
        if not (places.results / f"{ask.name_for(model.name)}.json").exists():
            grouped.setdefault((model, ask.data, ask.unseen), []).append(ask)
    jobs = [_job(model, tuple(asks), places) for (model, _, _), asks in grouped.items()]
    return sorted(jobs, key=lambda job: job.seconds)


def _job(model: Model, asks: tuple[Ask, ...], places: Places) -> Job:
    counts = [ask.episodes * (1 if ask.kind else 2) * (ask.first_queries or ask.queries) for ask in asks]
    evaluate_seconds = sum(_ENCODE_SECONDS + _QUERY_SECONDS * count for count in counts)
    if not model.recipe:
        return Job(model, asks, None, (), 0.0, evaluate_seconds)
    path = places.recipes / f"{model.recipe}.toml"
    usual = read_recipe(path)
    name = () if usual.data.name == asks[0].data else (f"data.name={asks[0].data}",)
    changes = (*model.changes, *name, f"data.unseen={asks[0].unseen}")
    recipe = read_recipe(path, changes)
    job = Job(model, asks, recipe, changes, 0.0, evaluate_seconds)
    before = read_recipe(places.recipes / f"{model.first}.toml").train.episodes if model.first else 0
    left = max(0, recipe.train.episodes - _episodes_done(places.runs / job.name))
    if left and model.first:
        left += max(0, before - _episodes_done(_first_folder(job, places)))
    seconds = left * _EPISODE_SECONDS[recipe.model.head.kind]
    return replace(job, train_seconds=seconds, episodes=before + recipe.train.episodes)


def _first_folder(job: Job, places: Places) -> Path:
    """The run that a job's training goes on from: one for all problems that hold back the same."""
    ask = job.asks[0]
    return places.runs / f"{job.model.first}-{ask.data}-{'+'.join(job.model.held_back(ask.unseen))}"


def _episodes_done(folder: Path) -> int:
    last = folder / "last.safetensors"
    return int(load_checkpoint(last).state["episode"]) if last.exists() else 0


def run_job(
    job: Job,
    places: Places,
    paper: dict[str, float],
    *,
    device: str,
    track: Track,
    report: Report,
    done: Callable[[str, dict[str, Any]], None],
) -> None:
    """Train, then evaluate; ``done`` is told each result's name and what it says.

    Args:
        job: What.
        places: Where.
        paper: The paper's figure, by result name.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        track: Shows progress.
        report: Is told of each training episode.
        done: Is called after each result.
    """
    recipe = job.recipe or Recipe()
    if job.recipe is None:
        changed = replace(recipe.data, name=job.asks[0].data, unseen=job.asks[0].unseen)
        recipe = replace(recipe, data=changed)
    roots = {data.name: places.data / data.name for data in recipe.datasets}
    roots = {name: root for name, root in roots.items() if name != "creatures" or root.exists()}
    problems = open_problems(recipe, roots)
    model = job.model.detector
    if job.recipe is not None:
        start = _first(job, places, roots, device, track, report) if job.model.first else None
        training = _Training(recipe, problems, places.recipes / f"{job.model.recipe}.toml", job.changes, start)
        model = str(_trained(training, places.runs / job.name, roots, device, track, report))
    detector = load(model, device=device)
    evaluation = _Evaluation(job, places, problems[0], detector, model, track)
    for ask in job.asks:
        name = ask.name_for(job.model.name)
        result = evaluation.measure(ask, name, paper.get(name))
        write_result(result, places.results / f"{name}.json")
        done(name, result)


@dataclass(frozen=True, slots=True)
class _Training:
    """One run of ``salvit train``."""

    recipe: Recipe
    problems: Sequence[Problem]
    file: Path
    changes: tuple[str, ...]
    start: Path | None = None


def _first(job: Job, places: Places, roots: Mapping[str, Path], device: str, track: Track, report: Report) -> Path:
    """The model that a job's training goes on from; problems that hold back the same share it."""
    ask, file = job.asks[0], places.recipes / f"{job.model.first}.toml"
    name = tuple(change for change in job.changes if change.startswith("data.name="))
    changes = (*name, *job.model.first_changes(ask.unseen))
    recipe = read_recipe(file, changes)
    folder = _first_folder(job, places)
    training = _Training(recipe, open_problems(recipe, roots), file, changes)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):  # its other problem may be waiting for it in another process
        return _trained(training, folder, roots, device, track, report)


def _trained(
    training: _Training, folder: Path, roots: Mapping[str, Path], device: str, track: Track, report: Report
) -> Path:
    """The best model on dev; an interrupted training goes on, a finished one is only used."""
    last, best, recipe = folder / "last.safetensors", folder / "best.safetensors", training.recipe
    if last.exists():
        saved = load_checkpoint(last)
        if saved.recipe == recipe and saved.state["episode"] >= recipe.train.episodes:
            return best if best.exists() else last
    start = None if training.start is None else str(training.start)
    return train(
        recipe,
        training.problems,
        folder,
        open_fabric(recipe.train, device),
        resume=last.exists(),
        start=training.start,
        command=training_command(training.file, recipe, roots, training.changes, start),
        track=track,
        report=report,
    )


class _Evaluation:
    """All evaluations of one model on one problem; pictures that two of them share are encoded once."""

    def __init__(
        self, job: Job, places: Places, problem: Problem, detector: Detector, loaded: str, track: Track
    ) -> None:
        self._job, self._places, self._problem = job, places, problem
        self._detector, self._loaded, self._track = detector, loaded, track
        self._saliency_of = saliency_of_records(detector)
        self._known: EncodedList | None = None
        self._mirrored: EncodedList | None = None

    def measure(self, ask: Ask, name: str, paper: float | None) -> dict[str, Any]:
        """Predict to a file, score it."""
        listed = self._listed(ask)
        about = about_run(
            self._detector,
            listed,
            ask.finetune,
            ask.transductive,
            model=self._loaded,
            zoom=ask.zoom,
            ways=ask.ways,
            decoding=ask.decoding,
        )
        about |= {"model": self._job.model.name + ("+T" if ask.transductive is not None else ""), "paper": paper}
        if self._job.recipe is not None:
            about["protocol"]["training_episodes"] = self._job.episodes
        if ask.failure is not None:
            about["protocol"]["failure"] = list(ask.failure)
            about["command"] = failing_of(self._job.model.name)
        predictions = self._places.runs / self._job.name / "predictions" / f"{name}.jsonl"
        self._predict(ask, listed, about, predictions)
        made = read_predictions(predictions)
        return make_result(made.about, score(compare(made, listed)), listed.hash)

    def _predict(self, ask: Ask, listed: FrozenList, about: dict[str, Any], path: Path) -> None:
        detector = decoded_by(self._detector, ask.decoding)
        shown = {"saliency_of": self._saliency_of, "track": self._track}
        if ask.finetune:
            if not isinstance(detector, SalViT):
                raise ValueError(f"{detector.name} has no weights of its own to fine-tune")
            predict_fine_tuned(detector, listed, ask.finetune, about, path, **shown)  # type: ignore[arg-type]
            return
        if ask.failure is not None:
            if not isinstance(detector, SalViT) or not detector.encoder.uses_saliency:
                raise ValueError(f"{detector.name} uses no saliency that could fail")
            detector = spoiled(detector, *ask.failure)
            encoded = encode_list(detector, listed, **shown)  # type: ignore[arg-type]
        else:
            known = encode_list(detector, listed, known=self._known, is_shared=True, **shown)  # type: ignore[arg-type]
            encoded = self._known = known
        if ask.zoom:
            predict_zoomed(detector, listed, encoded, about, path, transductive=ask.transductive, **shown)  # type: ignore[arg-type]
            return
        mirrored = self._encode_mirrored(detector, listed, ask, encoded)
        predict_list(
            detector,
            listed,
            encoded,
            about,
            path,
            transductive=ask.transductive,
            ways=ask.ways,
            mirrored=mirrored,
            track=self._track,
        )

    def _encode_mirrored(
        self, detector: Detector, listed: FrozenList, ask: Ask, encoded: EncodedList
    ) -> EncodedList | None:
        """The pictures that are wanted mirrored; where saliency fails on purpose, none that were encoded before."""
        known = self._mirrored if ask.failure is None else None
        mirrored = encode_mirrored(
            detector,
            listed,
            ask.ways,
            near=encoded.near,
            known=known,
            saliency_of=self._saliency_of,
            track=self._track,
        )
        self._mirrored = self._mirrored if mirrored is None or ask.failure is not None else mirrored
        return mirrored

    def _listed(self, ask: Ask) -> FrozenList:
        """The frozen list, drawn where it is not there yet, or the part of it that is asked for."""
        name = f"{ask.data}-{ask.problem}-{ask.shots}shot-{ask.queries}q-{ask.episodes}"
        path = self._places.runs / "lists" / f"{name}.json"
        if not path.exists():
            settings = EpisodeSettings(shots=ask.shots, queries=ask.queries, is_up_to=ask.is_up_to)
            partial = path.with_suffix(f".{os.getpid()}.part")
            write_frozen(freeze(self._problem, settings, episodes=ask.episodes, seed=ask.seed), partial, overwrite=True)
            os.replace(partial, path)
        occluder = cast("Occluder | None", ask.occluder)
        listed = read_frozen(
            path, self._problem, purpose="report", occluder=occluder, probability=ask.hidden / 100 if occluder else 0.0
        )
        return part_of_list(listed, queries=ask.first_queries, kind=ask.kind)


def paper_figures(tables: Sequence[Table]) -> dict[str, float]:
    """The paper's figure by result name, where a cell is one evaluation of harmonic means."""
    found: dict[str, float] = {}
    for group in (group for table in tables for block in table.blocks for group in block.groups):
        for line in group.lines:
            for column, cell in line.cells.items():
                if column in group.paper and len(cell.asks) == 1 and cell.metric == "harmonic":
                    found.setdefault(cell.asks[0].name_for(line.model.name), group.paper[column].value)
    return found
