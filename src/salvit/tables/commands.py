"""What would be typed for a line that was not run: its training, and the ways in which a table evaluates."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from salvit.provenance import FIRST, RUN, evaluate_command, freeze_command
from salvit.tables.rows import Ask, Line, Model, Table

OWN_DATA = {"cub": "cub", "deepfashion2": "deepfashion2", "toy": "creatures"}
"""How the names of recipes begin that are not of Animal Pose, and their data sets."""


def training_of(model: Model, ask: Ask) -> str:
    """``salvit train`` for one problem."""
    own = OWN_DATA.get(model.recipe.partition("-")[0], "animal_pose")
    name = () if own == ask.data else (f"data.name={ask.data}",)
    root = "" if ask.data == "creatures" else f" --root $SALVIT_DATA/{ask.data}"
    settings = _settings((*model.changes, *name, f"data.unseen={ask.unseen}"))
    if not model.first:
        return f"salvit train recipes/{model.recipe}.toml{root} --out {RUN} {settings}"
    before = _settings((*name, *model.first_changes(ask.unseen)))
    first = f"salvit train recipes/{model.first}.toml{root} --out {FIRST} {before}"
    second = f"salvit train recipes/{model.recipe}.toml{root} --out {RUN} --start {FIRST}/last.safetensors {settings}"
    return f"{first} && {second}"


def _settings(changes: Sequence[str]) -> str:
    return " ".join(f"--set {shlex.quote(change)}" for change in changes)


def evaluation_of(ask: Ask, model: str = f"{RUN}/best.safetensors") -> str:
    """``salvit data freeze`` and ``salvit evaluate`` for one evaluation; files are named for what is in them."""
    many = "" if ask.queries == 5 else f"-{ask.queries}q"
    listed, name = f"list-{ask.shots}shot{many}.json", ask.name_for(RUN)
    freeze = freeze_command(
        ask.data,
        ask.unseen,
        shots=ask.shots,
        queries=ask.queries,
        is_up_to=ask.is_up_to,
        crop="gt-random",
        episodes=ask.episodes,
        seed=ask.seed,
        out=listed,
    )
    options: Mapping[str, object] = {
        "queries": ask.first_queries if ask.first_queries != ask.queries else None,
        "kind": ask.kind,
        "finetune": ask.finetune or None,
        "decoding": ask.decoding,
        "occluder": ask.occluder,
        "occlusion": f"{ask.hidden / 100:g}" if ask.occluder else None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    evaluate = evaluate_command(
        ask.data,
        ask.unseen,
        model,
        given,
        ask.transductive,
        zoom=ask.zoom,
        ways=ask.ways,
        listed=listed,
        predictions=f"{name}.jsonl",
        result=f"{name}.json",
    )
    return f"{freeze} && {evaluate}"


def failing_of(model: str) -> str:
    """``salvit tables`` for a model whose saliency fails on purpose, which ``salvit evaluate`` cannot make."""
    return f"salvit tables failures --run --root $SALVIT_DATA --model {model}"


def lines_of(table: Table) -> list[Line]:
    """All lines of ours."""
    return [line for block in table.blocks for group in block.groups for line in group.lines]


def ways_of(table: Table) -> list[Ask]:
    """The ways in which a table evaluates its models, each once, all for its first problem."""
    asks = [ask for line in lines_of(table) for cell in line.cells.values() for ask in cell.asks]
    usual = [ask for ask in asks if ask.failure is None]
    return list(dict.fromkeys(replace(ask, data=asks[0].data, unseen=asks[0].unseen) for ask in usual))
