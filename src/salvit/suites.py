"""Studies of models on one frozen list: occlusion, failures of saliency, shots, pseudo labels, exponents, assignments.

Each gives cases: labels and a result (the form of ``results/*.json``). A case that was done before is not done again,
so a study that was stopped goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import salvit
from salvit.data.frozen import FrozenList
from salvit.data.occlude import OCCLUDERS, Occluder
from salvit.encoded_lists import EncodedList, SaliencyOf, Track, encode_list
from salvit.evaluate import (
    learn_episode,
    part_of_list,
    predict_list,
    read_predictions,
    rows_of,
    stated_ellipses,
    truth_of,
    write_predictions,
)
from salvit.model.detector import SalViT
from salvit.model.encoder import SalViTBlock
from salvit.model.morphology import MorphologyLearner
from salvit.predict import conclusions_of
from salvit.results import make_result, write_result
from salvit.saliency.failures import failure_sweep
from salvit.score import compare, score
from salvit.spoiled import inner, reweighted, spoiled
from salvit.transductive import TransductiveSettings, find_candidates, refine_pack
from salvit.types import Detector, Prediction

PROBABILITIES = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
"""Shares of hidden keypoints of the occlusion study."""
PSEUDO_LABELS = ((15, 6), (30, 10), (45, 15), (60, 20))
"""(Queries, η) of the paper's study."""
EXPONENTS = (0.2, 0.5, 0.7, 0.8, 1.0, 2.0)
ASSIGNMENTS = ("inductive", "average", "soft", "oracle")
About = Callable[[Detector, FrozenList, TransductiveSettings | None], dict[str, Any]]
"""What a result says of how it was made."""
Label = str | float


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement of a study."""

    labels: dict[str, Label]
    result: dict[str, Any]

    @property
    def figure(self) -> tuple[float, float]:
        """The harmonic mean of novel and base PCK@0.1, or the PCK@0.1 of the one kind that there is, and its ±."""
        if self.result["harmonic"] is not None:
            return float(self.result["harmonic"]), float(self.result["ci95"])
        (kind,) = self.result["pck"]
        return float(self.result["pck"][kind]["0.1"]), float(self.result["interval"][kind]["0.1"])


@dataclass(frozen=True, slots=True)
class Study:
    """What all studies share."""

    listed: FrozenList
    detectors: tuple[tuple[str, Detector], ...]
    """Labels and detectors."""
    saliency_of: Callable[[Detector], SaliencyOf | None]
    about: About
    folder: Path
    """Where cases and passing predictions are kept."""
    track: Track

    def encode(self, detector: Detector, listed: FrozenList, known: EncodedList | None = None) -> EncodedList:
        """Every image of a list."""
        return encode_list(detector, listed, saliency_of=self.saliency_of(detector), known=known, track=self.track)

    def case(
        self,
        labels: dict[str, Label],
        detector: Detector,
        listed: FrozenList,
        encoded: Callable[[], EncodedList],
        transductive: TransductiveSettings | None = None,
    ) -> Case:
        """Measure one case, or read it where it was measured before with the same weights on the same list."""
        if (before := self.before(labels, detector, listed, transductive)) is not None:
            return before
        about = self.about(detector, listed, transductive)
        predictions = self.path_of(labels).with_suffix(".jsonl")
        predict_list(detector, listed, encoded(), about, predictions, transductive=transductive, track=self.track)
        return self.keep(labels, predictions, detector, listed)

    def keep(self, labels: dict[str, Label], predictions: Path, detector: Detector, listed: FrozenList) -> Case:
        """Score predictions, keep the result, and take the predictions away."""
        made = read_predictions(predictions)
        result = make_result(made.about, score(compare(made, listed)), listed.hash)
        values = {"labels": labels, **_made_by(detector), "result": result}
        write_result(values, self.path_of(labels))
        predictions.unlink()
        return Case(labels, result)

    def path_of(self, labels: dict[str, Label]) -> Path:
        """Where a case is kept."""
        text = "-".join(f"{value:g}" if isinstance(value, float) else str(value) for value in labels.values())
        return self.folder / "cases" / ("".join(c if c.isalnum() or c in "-.+" else "_" for c in text) + ".json")

    def before(
        self,
        labels: dict[str, Label],
        detector: Detector,
        listed: FrozenList,
        transductive: TransductiveSettings | None = None,
    ) -> Case | None:
        """A case that was measured before, by the same model in the same way on the same list."""
        path = self.path_of(labels)
        if not path.is_file():
            return None
        values = json.loads(path.read_text(encoding="utf-8"))
        result = values.pop("result")
        protocol = json.loads(json.dumps(self.about(detector, listed, transductive)["protocol"]))
        is_same = values == {"labels": labels, **_made_by(detector)} and result["protocol"] == protocol
        return Case(labels, result) if is_same and result["list_hash"] == listed.hash else None


def _made_by(detector: Detector) -> dict[str, str]:
    """What tells a model and its way to conclude from others."""
    concludes = conclusions_of(inner(detector))
    return {"weights": detector.weights_sha256, "concludes": concludes, "version": salvit.__version__}


def occlusion(study: Study, probabilities: Sequence[float] = PROBABILITIES) -> Iterator[Case]:
    """Three kinds of occluders, each hiding more and more of the queries' keypoints (paper Sec. 4.3)."""
    for name, detector in study.detectors:
        clean = _Once(lambda d=detector: study.encode(d, study.listed))  # type: ignore[misc]
        unhidden: dict[str, Any] | None = None
        for occluder in OCCLUDERS:
            for probability in probabilities:
                labels: dict[str, Label] = {"model": name, "occluder": occluder, "hidden": 100 * probability}
                if probability == 0 and unhidden is not None:  # all kinds are the same there
                    yield Case(labels, unhidden)
                    continue
                hidden = replace(study.listed, occluder=cast(Occluder, occluder), probability=probability)
                case = study.case(
                    labels,
                    detector,
                    hidden,
                    lambda d=detector, h=hidden, c=clean: study.encode(d, h, c()),  # type: ignore[misc]
                )
                unhidden = case.result if probability == 0 else unhidden
                yield case


def saliency(study: Study) -> Iterator[Case]:
    """Every failure of the saliency map: SalViT masks attention with it, others weigh their features with it."""
    for name, detector in study.detectors:
        model = detector if isinstance(detector, SalViT) and detector.encoder.uses_saliency else None
        label = f"{name}, re-weighted" if model is None else name
        for kind, strength in (("none", 0.0), *failure_sweep()):
            wrap = reweighted(detector, kind, strength) if model is None else spoiled(model, kind, strength)
            labels: dict[str, Label] = {"model": label, "failure": kind, "strength": strength}
            yield study.case(labels, wrap, study.listed, lambda d=wrap: study.encode(d, study.listed))  # type: ignore[misc]


def shots(study: Study, most: int = 5) -> Iterator[Case]:
    """One support to as many as the list has, the queries always the same."""
    if study.listed.values["shots"] < most:
        raise ValueError(f"the list has {study.listed.values['shots']} shots; freeze one with --shots {most}")
    for name, detector in study.detectors:
        encoded = _Once(lambda d=detector: study.encode(d, study.listed))  # type: ignore[misc]
        for number in range(1, most + 1):
            labels: dict[str, Label] = {"model": name, "shots": float(number)}
            yield study.case(labels, detector, part_of_list(study.listed, shots=number), encoded)


def pseudo_labels(study: Study, pairs: Sequence[tuple[int, int]] = PSEUDO_LABELS) -> Iterator[Case]:
    """More queries and more pseudo labels (paper supplement), beside the inductive result on the same queries."""
    for name, detector in study.detectors:
        encoded = _Once(lambda d=detector: study.encode(d, study.listed))  # type: ignore[misc]
        for queries, eta in pairs:
            part = part_of_list(study.listed, queries=queries)
            for way in ("inductive", "soft"):
                labels: dict[str, Label] = {"model": f"{name}, {way}", "queries": f"{queries} (η {eta})"}
                settings = TransductiveSettings(eta=eta) if way == "soft" else None
                yield study.case(labels, detector, part, encoded, settings)


def exponents(study: Study, values: Sequence[float] = EXPONENTS) -> Iterator[Case]:
    """The exponent of saliency set by hand in inference, beside what the model was trained with."""
    for name, detector in study.detectors:
        if not isinstance(detector, SalViT) or not detector.encoder.uses_saliency or detector.encoder.join == "raw":
            raise ValueError(f"{name} does not shape any saliency; this study is for SalViT")
        labels: dict[str, Label] = {"model": name, "exponent": "as trained"}
        yield study.case(labels, detector, study.listed, lambda d=detector: study.encode(d, study.listed))  # type: ignore[misc]
        for value in values:
            with fixed_exponent(detector, value):
                yield study.case(
                    {"model": name, "exponent": value},
                    detector,
                    study.listed,
                    lambda d=detector: study.encode(d, study.listed),  # type: ignore[misc]
                )


def assignments(study: Study, settings: TransductiveSettings | None = None) -> Iterator[Case]:
    """Inductive, simple average, soft assignment, oracle (the paper's table); the first search is shared by all."""
    settings = settings or TransductiveSettings()
    for name, detector in study.detectors:
        ways = {way: _assigned(settings, way) for way in ASSIGNMENTS}
        labels: dict[str, dict[str, Label]] = {way: {"model": name, "assignment": way} for way in ways}
        paths = {way: study.path_of(labels[way]).with_suffix(".jsonl") for way in ways}
        done = {way: study.before(labels[way], detector, study.listed, ways[way]) for way in ways}
        missing = [way for way in ways if done[way] is None]
        if missing:
            abouts = {way: study.about(detector, study.listed, ways[way]) for way in missing}
            _predict_ways(study, detector, {way: ways[way] for way in missing}, abouts, paths)
        for way in ways:
            yield done[way] or study.keep(labels[way], paths[way], detector, study.listed)


def _assigned(settings: TransductiveSettings, way: str) -> TransductiveSettings | None:
    return None if way == "inductive" else replace(settings, assignment=cast(Any, way))


def _predict_ways(
    study: Study,
    detector: Detector,
    ways: dict[str, TransductiveSettings | None],
    abouts: dict[str, dict[str, Any]],
    paths: dict[str, Path],
) -> None:
    """Predict every episode in all ways at once, then write a file for each."""
    encoded = study.encode(detector, study.listed)
    found: dict[str, list[Prediction]] = {way: [] for way in ways}
    number = len(study.listed)
    for index in study.track(range(number), number, "predicting"):
        episode, pack, asked = learn_episode(detector, study.listed, index, encoded)
        searched = [settings for settings in ways.values() if settings is not None]
        first = find_candidates(detector, pack, [asked], searched[0].candidates) if searched else None
        for way, settings in ways.items():
            refined = pack
            if settings is not None:
                truth = truth_of(episode, detector.input_size) if settings.needs_truth else None
                refined = refine_pack(detector, pack, [asked], settings, truth=truth, first=first)
            found[way].append(detector.locate(refined, asked))
    for way in ways:
        about = {"list_hash": study.listed.hash, "model": detector.name, **abouts[way], **stated_ellipses(detector)}
        write_predictions(
            lambda index, made=found[way]: rows_of(index, study.listed.draw(index), made[index]),  # type: ignore[misc]
            number,
            about,
            paths[way],
            track=lambda items, total, what: items,
            timing={},
        )


@contextmanager
def fixed_exponent(model: SalViT, value: float) -> Iterator[SalViT]:
    """Inside the block the model raises saliency to that power, whatever it has learnt; afterwards it is as before."""
    blocks = [block for block in model.encoder.blocks if isinstance(block, SalViTBlock)]
    before = [block.morphology for block in blocks]
    try:
        for block in blocks:
            settings = replace(block.morphology.settings, mode="fixed", exponent=value)
            block.morphology = MorphologyLearner(model.settings.encoder.token_channels, settings)
        yield model
    finally:
        for block, learner in zip(blocks, before, strict=True):
            block.morphology = learner


class _Once:
    """Computes something at its first call and keeps it."""

    def __init__(self, make: Callable[[], EncodedList]) -> None:
        self._make, self._made = make, cast(EncodedList | None, None)

    def __call__(self) -> EncodedList:
        if self._made is None:
            self._made = self._make()
        return self._made
