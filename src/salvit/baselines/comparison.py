"""All methods at one budget: the same recipe but for the method, one frozen list for each unseen species.

A method is trained once for each species and scored with several numbers of shots on the same queries. Cases that were
measured before are not measured again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from salvit.backbones import build_backbone
from salvit.baselines.build import METHODS
from salvit.baselines.describe import PAPER_NAMES
from salvit.baselines.match import Match
from salvit.data.episodes import EpisodeSettings
from salvit.data.frozen import FrozenList, freeze, read_frozen, write_frozen
from salvit.data.splits import Problem
from salvit.evaluate import EncodedList, part_of_list
from salvit.model.detector import SalViT
from salvit.model.settings import ModelSettings
from salvit.recipes import Recipe
from salvit.suites import Case, Study
from salvit.tables.paper import ANIMALS, COST, MAIN
from salvit.types import Detector

FLOOR = "match"
"""The method that is not trained."""
COMPARED = (FLOOR, *METHODS, "salvit")
QUERIES = 5


def recipe_of(recipe: Recipe, method: str, unseen: str) -> Recipe:
    """The recipe for one method and one unseen species; SalViT, which shapes its saliency, has no ``reweight``."""
    reweight = recipe.model.reweight and method != "salvit"
    model = replace(recipe.model, method=method, reweight=reweight)
    return replace(recipe, model=model, data=replace(recipe.data, unseen=unseen))


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
    """Every detector of a study with each number of shots; the result also holds its parameters."""
    for name, detector in study.detectors:
        kept: list[EncodedList] = []

        def encoded(detector: Detector = detector, kept: list[EncodedList] = kept) -> EncodedList:
            kept[:] = kept or [study.encode(detector, study.listed)]
            return kept[0]

        for number in shots:
            part = part_of_list(study.listed, shots=number)
            case = study.case({"method": name, "shots": float(number)}, detector, part, encoded)
            yield Case({**case.labels, "unseen": study.listed.problem.label}, {**case.result, **_sizes(detector)})


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
        stated = f"{COST[PAPER_NAMES[name]][0]:.1f}" if name in PAPER_NAMES else "—"
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
    row = MAIN.get((PAPER_NAMES.get(method, ""), shots))
    return row[ANIMALS.index(unseen)] if row is not None and unseen in ANIMALS else None


def _cell(case: Case | None, stated: float | None) -> str:
    if case is None:
        return "—"
    return "{:.1f} ± {:.1f}".format(*case.figure) + ("" if stated is None else f" ({stated:.1f})")


def _milliseconds(name: str, cases: Iterable[Case]) -> str:
    """Of learning and locating, the features given: with each number of shots, the mean over species (the paper's)."""
    times: dict[int, list[float]] = {}
    for case in cases:
        times.setdefault(int(case.labels["shots"]), []).append(case.result["timing"]["ms_per_query"])
    stated = dict(zip((1, 5), COST[PAPER_NAMES[name]][1:], strict=True)) if name in PAPER_NAMES else {}
    return " / ".join(
        f"{sum(values) / len(values):.0f}" + (f" ({stated[shots]:.1f})" if shots in stated else "")
        for shots, values in times.items()
    )


def _sizes(detector: Detector) -> dict[str, int]:
    """Parameters beside a result: all, and those that were trained."""
    if not isinstance(detector, SalViT):
        return {"parameters": 0, "trained_parameters": 0}
    weights = list(detector.parameters())
    trained = sum(weight.numel() for weight in weights if weight.requires_grad)
    return {"parameters": sum(weight.numel() for weight in weights), "trained_parameters": trained}
