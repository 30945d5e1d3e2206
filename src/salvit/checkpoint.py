"""Checkpoints: weights, optimiser, settings and version in one safetensors file, written in one atomic step.

Frozen weights of the backbone are not kept: they are named by the settings and come from their own file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import salvit
from salvit.backbones.files import hash_weights
from salvit.config import from_mapping, to_mapping
from salvit.model.certainty import Calibration
from salvit.model.detector import SalViT
from salvit.recipes import Recipe, recipe_from_table, recipe_to_table
from salvit.tensor_files import read_tensors, write_tensors

FORMAT = "salvit-checkpoint-1"


_LITE0_LEVELS = 2
_READ_RAW = ("encoder.to_tokens.0.weight", "encoder.reduce.project.weight")
"""Weights whose first columns read raw tokens as they are."""
_READ_NORMED = ("prior.tokens.weight", "prior.context.weight")
"""Weights that read them at variance 1."""
GAIN = "descriptor.gain"
"""How much the similarity of raw tokens counts (``encoder.keeps_raw``)."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a file holds."""

    recipe: Recipe
    weights: dict[str, Tensor]
    """The model's own weights."""
    optimizer: dict[str, Tensor]
    """Its optimiser's state, ``NUMBER.NAME``; empty in a model that is only used."""
    state: dict[str, Any]
    """Episode, best dev score, hash of the frozen backbone and the like: plain values."""
    version: str
    command: str = ""
    """What was typed to train it, without anybody's own paths; empty where that is not known."""
    calibration: Calibration | None = None
    """What `salvit calibrate` fitted; None in a model that was never calibrated."""


def own_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights that training changes, and buffers of those parts: everything but the frozen backbone."""
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    parts = {name.rpartition(".")[0] for name in trained}
    state = model.state_dict()
    return {
        name: value
        for name, value in state.items()
        if not name.startswith("backbone.") or name.rpartition(".")[0] in parts
    }


def frozen_sha256(model: SalViT) -> str:
    """SHA-256 of what the backbone's own file gave: its frozen weights."""
    trained = own_weights(model)
    state = {f"backbone.{key}": value for key, value in model.backbone.state_dict().items()}
    frozen = nn.Module()
    for number, key in enumerate(sorted(set(state) - set(trained))):
        frozen.register_buffer(f"w{number}", state[key])
    return hash_weights(frozen)


def check_backbone(model: SalViT, saved: Checkpoint, path: Path) -> None:
    """Refuse a model whose frozen backbone is not the very one that it was trained on, where the file says which."""
    needed, found = saved.state.get("backbone_sha256"), frozen_sha256(model)
    if needed is not None and needed != found:
        raise ValueError(
            f"{path} was trained on {model.backbone.name} with weights {needed[:12]}, this machine has {found[:12]}: "
            "another file of that network; bring the one it was trained on (`salvit weights list`)"
        )


def save_checkpoint(
    path: Path,
    recipe: Recipe,
    weights: dict[str, Tensor],
    optimizer: dict[str, Tensor],
    state: dict[str, Any],
    command: str = "",
    calibration: Calibration | None = None,
) -> None:
    """Write a checkpoint; if that fails (a full disk), the one before is still there, whole."""
    facts = {
        "version": salvit.__version__,
        "recipe": json.dumps(recipe_to_table(recipe)),
        "state": json.dumps(state),
        "command": command,
    }
    if calibration is not None:
        facts["calibration"] = json.dumps(to_mapping(calibration))
    tensors = {f"model.{name}": value for name, value in weights.items()}
    tensors |= {f"optimizer.{name}": value for name, value in optimizer.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        write_tensors(path, tensors, FORMAT, facts)
    except OSError as problem:
        kept = f"the checkpoint before it, {path}, is whole" if path.exists() else "there is none before it"
        raise OSError(
            f"could not write the checkpoint {path} ({problem}); {kept}: free some space, then --resume"
        ) from problem


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint."""
    tensors, facts = read_tensors(path, FORMAT, "a checkpoint made by `salvit train`")
    return Checkpoint(
        recipe=recipe_from_table(json.loads(facts["recipe"])),
        weights={key.removeprefix("model."): value for key, value in tensors.items() if key.startswith("model.")},
        optimizer={key.removeprefix("optimizer."): v for key, v in tensors.items() if key.startswith("optimizer.")},
        state=json.loads(facts["state"]),
        version=facts["version"],
        command=facts.get("command", ""),
        calibration=from_mapping(Calibration, json.loads(facts["calibration"])) if "calibration" in facts else None,
    )


def put_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Put own weights into a model; anything missing or left over is an error that names it."""
    expected = set(own_weights(model))
    if problem := sorted(expected ^ set(weights)):
        what = "lacks" if problem[0] in expected else "has, and the model does not,"
        raise ValueError(f"the checkpoint {what} {problem[0]!r}: it belongs to another model")
    with torch.no_grad():
        state = model.state_dict()
        for name, value in weights.items():
            state[name].copy_(value)


def begin_with(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Put the weights of an earlier training into a model that may train more of its backbone than that one did.

    The trained blocks that the earlier one kept frozen, the prior that comes with them, and a finder that it did not
    have, stay as they are; weights of a model on Lite0 fit one on Lite0 and DINOv2 (:func:`beside_others`); anything
    else that is missing, left over or of another shape is an error that names it.
    """
    own = own_weights(model)
    weights = beside_others(weights, own)
    later = {name for name in own if name.startswith(("backbone.", "prior.", "finder."))}
    for name in sorted((set(own) - later) ^ (set(weights) - later)):
        what = "lacks" if name in own else "has, and this model does not,"
        raise ValueError(f"the model to start from {what} {name!r}: it is of another kind")
    for name in sorted(weights):
        if weights[name].shape != own[name].shape:
            raise ValueError(
                f"{name!r} has the shape {tuple(weights[name].shape)} in the model to start from, and "
                f"{tuple(own[name].shape)} here: it is of another kind"
            )
    put_weights(model, own | {name: value.to(own[name]) for name, value in weights.items()})


def beside_others(weights: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights of a model on Lite0 for one that reads DINOv2's tokens after Lite0's; others as they are.

    What it reads of the new channels counts nothing at first. Raw tokens have a root mean square of 1 over all levels,
    so the weights of the old channels make up for their new size.
    """
    name = _READ_RAW[0]
    if name not in weights or name not in own or weights[name].shape == own[name].shape:
        return weights
    if not any(name.startswith("backbone.lite0.") for name in own):
        return weights
    weights = {
        f"backbone.lite0.{name.removeprefix('backbone.')}" if name.startswith("backbone.") else name: value
        for name, value in weights.items()
    }
    old, new = (table[_READ_RAW[0]].shape[1] for table in (weights, own))
    scale = (old / _LITE0_LEVELS) / (new / (_LITE0_LEVELS + 1))  # of the squares of the old channels
    wider = {}
    for name in (*_READ_RAW, *_READ_NORMED):
        if name in weights:
            first, rest = weights[name].float().split([old, weights[name].shape[1] - old], dim=1)
            first = first * scale**0.5 if name in _READ_RAW else first
            wider[name] = torch.cat([first, first.new_zeros(len(first), new - old, *first.shape[2:]), rest], dim=1)
    for name, factor, start in (
        ("prior.norm.running_mean", scale**-0.5, 0.0),
        ("prior.norm.running_var", 1 / scale, 1.0),
    ):
        if name in weights:
            before = weights[name].float() * factor
            wider[name] = torch.cat([before, torch.full((new - old,), start)])
    return weights | wider


def with_raw_gain(weights: dict[str, Tensor], factor: float) -> dict[str, Tensor]:
    """The weights of a model in which the similarity of raw tokens counts so many times as much."""
    if factor == 1:
        return weights
    if GAIN not in weights:
        raise ValueError("this model compares no raw tokens (encoder.keeps_raw); leave out --raw")
    return {**weights, GAIN: weights[GAIN] * factor}


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's state as named tensors."""
    state = optimizer.state_dict()["state"]
    return {f"{number}.{name}": value for number, values in state.items() for name, value in values.items()}


def put_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put named tensors back into an optimiser."""
    whole = optimizer.state_dict()
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({**whole, "state": state})
