"""All methods at one budget: the same recipe but for the method, one frozen list for each unseen species.

A method is trained once for each species and scored with several numbers of shots on the same queries. Cases that were
measured before are not measured again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from salvit.backbones import build_backbone
from salvit.baselines.build import METHODS
from salvit.baselines.describe import PAPER_NAMES
from salvit.baselines.match import Match
from salvit.data.episodes import EpisodeSettings
from salvit.data.frozen import FrozenList, freeze, read_frozen, write_frozen
from salvit.data.splits import Problem
from salvit.encoded_lists import EncodedList, encode_list_together
from salvit.evaluate import part_of_list
from salvit.model.detector import SalViT
from salvit.model.settings import ModelSettings, light
from salvit.recipes import Recipe
from salvit.suites import Case, Label, Study
from salvit.tables.paper import ANIMALS, COST, MAIN, rounded
from salvit.types import Detector, Encoded, FittedImage

FLOOR = "match"
"""The method that is not trained."""
VARIANTS = {"fskd_random": "fskd", "salvit_as_others": "salvit"}
"""Further rows: FSKD-R, and SalViT with the head and the training that the others have."""
COMPARED = (FLOOR, *METHODS, "fskd_random", "salvit_as_others", "salvit")
ROWS = {**PAPER_NAMES, "fskd_random": "FSKD-R"}
"""Name → row of the paper's main table."""
QUERIES = 5


def recipe_of(recipe: Recipe, method: str, unseen: str) -> Recipe:
    """The recipe for one method and one unseen species.

    SalViT, which shapes its saliency, has no ``reweight``, and all look at the same windows. What only SalViT can have,
    others go without: the dynamic head, instead of which those with a localisation net get the spatial one, its
    presence, and training all ways.
    """
    made = replace(recipe, data=replace(recipe.data, unseen=unseen))
    named = VARIANTS.get(method, method)
    reweight = recipe.model.reweight and named != "salvit"
    model = replace(recipe.model, method=named, reweight=reweight, finder=False)
    if method == "salvit":
        return replace(made, model=model)
    if model.head.kind == "dynamic":
        plain = light(ModelSettings()).head
        head = replace(model.head, kind=plain.kind, channels=plain.channels)
        model = replace(model, head=head, encoder=replace(model.encoder, keeps_raw=False))
    model = replace(model, head=replace(model.head, presence=False))
    train = replace(recipe.train, all_ways=False)
    if method == "fskd_random":
        train = replace(train, auxiliary="random")
    return replace(made, model=model, train=train)


def floor_of(settings: ModelSettings, device: str) -> Match:
    """``match`` on the backbone and input of the others."""
    return Match(build_backbone(settings.backbone.name).to(device), settings.input_size)


def open_list(problem: Problem, recipe: Recipe, shots: int, episodes: int, path: Path) -> FrozenList:
    """The frozen list at ``path``, drawn first where there is none; one that was drawn otherwise is refused."""
    if not path.exists():
        settings = EpisodeSettings(shots=shots, queries=QUERIES, crop=recipe.data.crop)
        write_frozen(freeze(problem, settings, episodes=episodes, seed=recipe.train.seed), path)
    listed = read_frozen(path, problem, purpose="report")
    kinds = [row["kind"] for row in listed.values["episodes"]]
    found = {"shots": listed.values["shots"], "episodes": max(map(kinds.count, kinds)), "crop": listed.values["crop"]}
    asked = {"shots": shots, "episodes": episodes, "crop": recipe.data.crop}
    if found != asked:
        raise ValueError(f"{path} was drawn with {found}, asked were {asked}; choose another folder")
    return listed


def measure(study: Study, shots: Sequence[int]) -> Iterator[Case]:
    """Every detector of a study with each number of shots; the result also holds its parameters.

    The detectors are of one recipe; their pictures are encoded together, once something is to be measured.
    """
    parts = {number: part_of_list(study.listed, shots=number) for number in shots}
    missing = {
        name: detector
        for name, detector in study.detectors
        if any(study.before(_labels(name, number), detector, part) is None for number, part in parts.items())
    }
    encoded = dict(zip(missing, _encode_together(study, list(missing.values())), strict=True)) if missing else {}
    for name, detector in study.detectors:
        for number, part in parts.items():
            case = study.case(_labels(name, number), detector, part, lambda name=name: encoded[name])  # type: ignore[misc]
            yield Case({**case.labels, "unseen": study.listed.problem.label}, {**case.result, **_sizes(detector)})


def _labels(name: str, shots: int) -> dict[str, Label]:
    return {"method": name, "shots": float(shots)}


def _encode_together(study: Study, detectors: Sequence[Detector]) -> list[EncodedList]:
    return encode_list_together(
        lambda images: encode_by_all(detectors, images),
        detectors[0].input_size,
        study.listed,
        saliency_of=next((given for one in detectors if (given := study.saliency_of(one)) is not None), None),
        track=study.track,
    )


def encode_by_all(detectors: Sequence[Detector], images: Sequence[FittedImage]) -> Iterator[Encoded]:
    """What each detector of one recipe makes of pictures; a backbone of which nothing is trained runs once for all."""
    first = next((one for one in detectors if isinstance(one, SalViT)), None)
    if first is None or first.backbone.trainable_parts():
        yield from (detector.encode(images) for detector in detectors)
        return
    pixels, saliency = first.tensors(images)
    with torch.no_grad():
        tokens = first.backbone(pixels)
        prepared = first.prepare(pixels, saliency, tokens)
    for detector in detectors:
        if isinstance(detector, SalViT):
            yield detector.encode_prepared(prepared, tuple(image.fit for image in images))
        else:
            assert isinstance(detector, Match)
            yield detector.encode(images, tokens)


def table_of(cases: Sequence[Case]) -> str:
    """Markdown: a row for each method: its size, its time, and for each species and number of shots ours (the paper's).

    The paper's figures are those of its main table: another backbone, 40,000 to 80,000 episodes.
    """
    places = list(dict.fromkeys((str(case.labels["unseen"]), int(case.labels["shots"])) for case in cases))
    columns = [f"{unseen}, {shots}-shot" for unseen, shots in places]
    lines = [
        "| " + " | ".join(["method", "parameters trained (M)", "paper (M)", "ms a query", *columns]) + " |",
        "|" + "---|" * (4 + len(columns)),
    ]
    for name in dict.fromkeys(str(case.labels["method"]) for case in cases):
        mine = {
            (str(case.labels["unseen"]), int(case.labels["shots"])): case
            for case in cases
            if case.labels["method"] == name
        }
        first = next(iter(mine.values())).result
        size = "—" if not first["trained_parameters"] else f"{first['trained_parameters'] / 1e6:.2f}"
        stated = rounded(COST[ROWS[name]][0]) if name in ROWS else "—"
        cells = [_cell(mine.get(place), paper_figure(name, *place)) for place in places]
        lines.append("| " + " | ".join([f"`{name}`", size, stated, _milliseconds(name, mine.values()), *cells]) + " |")
    first = cases[0].result
    episodes = ", ".join(f"{count} {kind}" for kind, count in first["episodes"].items())
    about = (
        f"{first['data']}; harmonic mean of novel and base PCK@0.1 ± half a 95 % interval over {episodes} episodes; in "
        "brackets the paper's (its time is that of the whole network on a GPU, ours that of all but the features, on "
        f"{first['hardware']})."
    )
    return "\n".join(lines) + f"\n\n{about}\n"


def paper_figure(method: str, unseen: str, shots: int) -> float | None:
    """What the paper's main table says, where it says it."""
    row = MAIN.get((ROWS.get(method, ""), shots))
    return row[ANIMALS.index(unseen)] if row is not None and unseen in ANIMALS else None


def _cell(case: Case | None, stated: float | None) -> str:
    if case is None:
        return "—"
    value, spread = case.figure
    return f"{rounded(value)} ± {rounded(spread)}" + ("" if stated is None else f" ({rounded(stated)})")


def _milliseconds(name: str, cases: Iterable[Case]) -> str:
    """Of learning and locating, the features given: with each number of shots, the mean over species (the paper's)."""
    times: dict[int, list[float]] = {}
    for case in cases:
        times.setdefault(int(case.labels["shots"]), []).append(case.result["timing"]["ms_per_query"])
    stated = dict(zip((1, 5), COST[ROWS[name]][1:], strict=True)) if name in ROWS else {}
    return " / ".join(
        f"{sum(values) / len(values):.0f}" + (f" ({rounded(stated[shots])})" if shots in stated else "")
        for shots, values in times.items()
    )


def _sizes(detector: Detector) -> dict[str, int]:
    """Parameters beside a result: all, and those that were trained."""
    if not isinstance(detector, SalViT):
        return {"parameters": 0, "trained_parameters": 0}
    weights = list(detector.parameters())
    trained = sum(weight.numel() for weight in weights if weight.requires_grad)
    return {"parameters": sum(weight.numel() for weight in weights), "trained_parameters": trained}
