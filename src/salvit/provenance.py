"""How a figure was made: the commands that make it again, and what a result says of its run.

Commands hold nobody's own paths: data sets stand in ``$SALVIT_DATA/NAME``, recipes in ``recipes/``, a run in ``run``.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from salvit.checkpoint import load_checkpoint
from salvit.config import to_mapping
from salvit.data.frozen import FrozenList
from salvit.encoded_lists import Ways
from salvit.model.detector import SalViT
from salvit.model.settings import Decoding
from salvit.near import finder_of
from salvit.recipes import Recipe
from salvit.results import hardware
from salvit.transductive import TransductiveSettings
from salvit.types import Detector

RUN = "run"
"""The folder of a run, in commands."""
FIRST = "first"
"""The folder of the run that another goes on from."""


def training_command(
    recipe: Path, settings: Recipe, given: Collection[str], changes: Sequence[str] = (), start: str | None = None
) -> str:
    """``salvit train`` of a recipe file; ``given`` names the data sets whose folder was given."""
    names = [data.name for data in settings.datasets]
    roots = _root_options([name for name in names if name in given], len(names) > 1)
    set_by = [f"--set {shlex.quote(change)}" for change in changes]
    begun = [] if start is None else [f"--start {_started_with(Path(start))}"]
    return " ".join(["salvit train", f"recipes/{recipe.name}", *roots, f"--out {RUN}", *begun, *set_by])


def going_on(first: str, start: Path, command: str) -> str:
    """The command of a training that begins with a model, after what made that model, where it is known."""
    if not first:
        return command
    return f"{first.replace(f'--out {RUN}', f'--out {FIRST}') if _is_of_run(start) else first} && {command}"


def _started_with(start: Path) -> str:
    """What commands call the model that a training begins with."""
    return f"{FIRST}/{start.name}" if _is_of_run(start) else start.name


def _is_of_run(model: Path) -> bool:
    """Whether a model is as a training left it."""
    return model.name in ("last.safetensors", "best.safetensors")


def finder_command(trained: str, model: Path, roots: Collection[str], pictures: int, epochs: int, out: Path) -> str:
    """What trained a model, then ``salvit teach-finder`` of it; empty where the first is not known."""
    if not trained:
        return ""
    given = _root_options(roots, len(roots) > 1)
    taught = f"--pictures {pictures} --epochs {epochs} --out {out.name}"
    return f"{trained} && {' '.join(['salvit teach-finder', f'{RUN}/{model.name}', *given, taught])}"


def calibration_command(
    trained: str,
    checkpoint: Path,
    roots: Collection[str],
    episodes: int,
    out: Path,
    decoding: str | None = None,
    raw: float = 1.0,
    filters: float | None = None,
) -> str:
    """What trained a checkpoint, then ``salvit calibrate`` of it; empty where the first is not known."""
    if not trained:
        return ""
    given = _root_options(roots, len(roots) > 1)
    words = [
        "salvit calibrate",
        f"{RUN}/{checkpoint.name}",
        *given,
        f"--episodes {episodes}",
        *([f"--decoding {decoding}"] if decoding else []),
        *([f"--raw {raw:g}"] if raw != 1 else []),
        *([f"--filters {filters:g}"] if filters is not None else []),
        f"--out {RUN}/{out.name}",
    ]
    return f"{trained} && {' '.join(words)}"


def about_run(
    detector: Detector,
    listed: FrozenList,
    finetune: int = 0,
    transductive: TransductiveSettings | None = None,
    *,
    model: str = "",
    zoom: bool = False,
    ways: Ways = "one",
    decoding: Decoding | None = None,
) -> dict[str, Any]:
    """What a prediction file says of how it was made.

    ``model`` is what was loaded, a name or a checkpoint; ``decoding`` how places are found, if not in its own way.
    """
    values, problem = listed.values, listed.problem
    protocol: dict[str, Any] = {
        "transductive": transductive is not None,
        "crop": values["crop"],
        "bn": detector.settings.backbone.bn if isinstance(detector, SalViT) else "running",
        "saliency": detector.settings.saliency if isinstance(detector, SalViT) else "none",
        "queries": values["queries"],
        "finetune_steps": finetune,
        "input_size": detector.input_size,
        **({"finder": True} if finder_of(detector) is not None else {}),
        "notes": list(problem.notes),
    }
    if transductive is not None:
        protocol |= {"transduction": to_mapping(transductive)}
        protocol |= {"queries_of_an_episode": count_queries(listed)}
    if zoom:
        protocol |= {"zoom": True}
    if ways != "one":
        protocol |= {"ways": ways}
    if decoding is not None:
        protocol |= {"decoding": decoding}
    if listed.occluder is not None:
        protocol |= {"occluder": listed.occluder, "occlusion": listed.probability}
    return {
        "data": problem.name,
        "problem": problem.label,
        "model": detector.name + ("+T" if transductive is not None else ""),
        "shots": values["shots"],
        "seed": values["seed"],
        "protocol": protocol,
        "command": evaluation_command(
            listed, model or detector.name, finetune, transductive, zoom=zoom, ways=ways, decoding=decoding
        ),
        "hardware": hardware(),
    }


def count_queries(listed: FrozenList) -> str:
    """How many queries the episodes of a list have, in words."""
    counts = [len(row["queries"]) for row in listed.values["episodes"]]
    few, many = min(counts), max(counts)
    return str(few) if few == many else f"{few} to {many}, {sum(counts) / len(counts):.1f} on average"


def evaluation_command(
    listed: FrozenList,
    model: str,
    finetune: int = 0,
    transductive: TransductiveSettings | None = None,
    *,
    zoom: bool = False,
    ways: Ways = "one",
    decoding: Decoding | None = None,
) -> str:
    """The commands that make the same figures again: train (for a checkpoint that knows how), freeze, evaluate."""
    values = listed.values
    part = values.get("part", {})
    kinds = [row["kind"] for row in values["episodes"]]
    whole = part.get("of", {"queries": values["queries"], "episodes": max(map(kinds.count, kinds))})
    name, trained = _named(model)
    commands = [trained] if trained else []
    commands.append(
        freeze_command(
            values["data"],
            values["unseen"],
            shots=whole.get("shots", values["shots"]),
            queries=whole["queries"],
            is_up_to=whole.get("is_up_to", any(len(row["queries"]) < whole["queries"] for row in values["episodes"])),
            crop=values["crop"],
            episodes=whole["episodes"],
            seed=values["seed"],
        )
    )
    more = {name: part[name] for name in ("episodes", "queries", "kind") if name in part}
    more |= {"finetune": finetune} if finetune else {}
    if listed.occluder is not None:
        more |= {"occluder": listed.occluder, "occlusion": f"{listed.probability:g}"}
    more |= {"decoding": decoding} if decoding is not None else {}
    commands.append(evaluate_command(values["data"], values["unseen"], name, more, transductive, zoom=zoom, ways=ways))
    return " && ".join(commands)


def freeze_command(
    data: str,
    unseen: str,
    *,
    shots: int,
    queries: int,
    is_up_to: bool,
    crop: str,
    episodes: int,
    seed: int,
    out: str = "list.json",
) -> str:
    """``salvit data freeze``."""
    return (
        f"salvit data freeze {data} --root $SALVIT_DATA/{data} --unseen {unseen} --shots {shots} --queries {queries}"
        f"{' --up-to' if is_up_to else ''} --crop {crop} --episodes {episodes} --seed {seed} --out {out}"
    )


def evaluate_command(
    data: str,
    unseen: str,
    model: str,
    options: Mapping[str, object],
    transductive: TransductiveSettings | None = None,
    *,
    zoom: bool = False,
    ways: Ways = "one",
    listed: str = "list.json",
    predictions: str = "predictions.jsonl",
    result: str = "result.json",
) -> str:
    """``salvit evaluate`` with further options."""
    more = "".join(f" --{name} {value}" for name, value in options.items()) + (" --zoom" if zoom else "")
    more += "" if ways == "one" else f" --ways {ways}"
    if transductive is not None:
        eta = "" if transductive.eta is None else f" --eta {transductive.eta}"
        more += (
            f" --transductive --assignment {transductive.assignment} --selection {transductive.selection}{eta} "
            f"--rounds {transductive.rounds} --kappa {transductive.kappa:g} --protocol {transductive.protocol}"
        )
    return (
        f"salvit evaluate --data {data} --root $SALVIT_DATA/{data} --unseen {unseen} --list {listed} --model {model}"
        f"{more} --out {predictions} --result {result}"
    )


def _root_options(names: Collection[str], is_named: bool) -> list[str]:
    """``--root`` of each data set, by name where there are several."""
    return [f"--root {name + '=' if is_named else ''}$SALVIT_DATA/{name}" for name in names]


def _named(model: str) -> tuple[str, str]:
    """What commands call a model, and the command that trained it, where it is a checkpoint that knows."""
    path = Path(model)
    if path.suffix != ".safetensors":
        return model, ""
    trained = load_checkpoint(path).command
    return (f"{RUN}/{path.name}", trained) if trained else (path.name, "")
