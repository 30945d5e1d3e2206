"""``salvit info``: what a model, a checkpoint or a pack is made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from salvit.types import Pack


def info(
    model: str = typer.Argument(
        help="A model: lite, dino, match, salvit-resnet50, salvit-dino-s16, salvit-dinov2, salvit-lite0, "
        "salvit-joined, or a row of the paper's ablation table, such as cnn-only; methods: all compared ones, or one "
        "of them by name; or a .safetensors file: a pack or a checkpoint."
    ),
    narrow: bool = typer.Option(False, "--narrow", help="With the narrow head, for training on a CPU."),
) -> None:
    """Parameters of a model by part, beside the paper's, and its settings; what a pack or a checkpoint holds."""
    from salvit.model.settings import ABLATIONS, PRESETS
    from salvit.released import NAMES, released_path

    if narrow and model not in (*PRESETS, *ABLATIONS):
        raise ValueError(
            f"--narrow is for {', '.join(PRESETS)} and the rows of the ablation table; {model} has no other head: "
            "leave --narrow out"
        )
    if model in NAMES:
        path = released_path(model)
        if path is None:
            raise FileNotFoundError(f"the model {model!r} did not come with this installation")
        _show_released(path)
    elif model.endswith(".safetensors"):
        _show_file(Path(model))
    elif model.partition(":")[0] == "match":
        _show_match(model)
    elif model == "methods" or _is_method(model):
        _show_methods(model)
    else:
        _show_model(model, narrow)


def _is_method(name: str) -> bool:
    from salvit.baselines.build import METHODS

    return name in METHODS


def _show_methods(name: str) -> None:
    """All compared methods, or one: what it is, its parameters and the paper's."""
    from rich.console import Console
    from rich.table import Table

    from salvit.baselines.describe import describe_method, describe_methods

    table = Table("method", "what it does", "parameters (M)", "paper (M)", title="compared methods, on ResNet-50")
    for described in describe_methods() if name == "methods" else (describe_method(name),):
        stated = "" if described.paper is None else f"{described.paper:.1f}"
        table.add_row(described.name, described.what, f"{described.parameters / 1e6:.2f}", stated)
    console = Console()
    console.print(table)
    console.print("salvit compare RECIPE --method NAME trains and scores one, without --method all (docs/methods.md)")


def _show_file(path: Path) -> None:
    from salvit.tensor_files import format_of

    match format_of(path):
        case "salvit-pack-1":
            from salvit.packs import load_pack

            show_pack(path, load_pack(path))
        case "salvit-checkpoint-1":
            _show_checkpoint(path)
        case other:
            raise ValueError(f"{path} is neither a pack nor a checkpoint of salvit: its format is {other!r}")


def show_pack(path: Path, pack: Pack) -> None:
    """Keypoints of a pack: how many marked pictures teach each, its other side, and what is unknown."""
    from rich.console import Console
    from rich.table import Table

    shots = len(pack.mask)
    other = {a: b for pair in pack.pairs for a, b in (pair, pair[::-1])}
    table = Table("keypoint", f"learnt from, of {shots}", "other side", title=f"pack {path.name}", title_justify="left")
    for name, count in zip(pack.names, pack.mask.sum(0).tolist(), strict=True):
        table.add_row(name, str(count) if count else "unknown", other.get(name, ""), style=None if count else "dim")
    console = Console()
    console.print(table)
    console.print(f"made by {pack.model} of salvit {pack.version}, weights {pack.weights_sha256[:12]}", highlight=False)
    kind = "objects cropped to their boxes" if pack.is_cropped else "whole pictures"
    console.print(f"learnt from {kind}; {pack.vectors.shape[-1]} numbers for each keypoint", highlight=False)


def _show_released(path: Path) -> None:
    """How a released model was trained, what it never saw, then what any checkpoint says."""
    from rich.console import Console

    from salvit.released import released_facts

    facts = released_facts(path)
    console = Console()
    console.print(f"[bold]{facts['name']}[/bold] on {facts['backbone']}", highlight=False)
    console.print(f"trained by {facts['command'] or 'a command that was not kept'}", highlight=False, markup=False)
    for data in facts["data"]:
        never = ", ".join(data["never_seen"]) or "none"
        what = f"data {data['name']}, weight {data['weight']:g}, {data['keypoints']} keypoints"
        console.print(f"{what}; species never seen: {never}", highlight=False)
    console.print(facts["notice"], highlight=False)
    _show_checkpoint(path)


def _show_checkpoint(path: Path) -> None:
    from rich.console import Console

    from salvit.checkpoint import load_checkpoint
    from salvit.config import to_mapping
    from salvit.recipes import recipe_to_table

    saved = load_checkpoint(path)
    console = Console()
    count = sum(value.numel() for value in saved.weights.values())
    console.print(f"[bold]checkpoint {path.name}[/bold] of salvit {saved.version}", highlight=False)
    console.print(f"own weights: {count / 1e6:.2f} M in {len(saved.weights)} tensors", highlight=False)
    console.print(f"optimiser: {'kept, so training can go on' if saved.optimizer else 'not kept'}", highlight=False)
    for key, value in saved.state.items():
        console.print(f"{key}: {value}", highlight=False, markup=False)
    if saved.calibration is None:
        console.print("calibration: none; `salvit calibrate` fits one", highlight=False)
    else:
        console.print(f"calibration: {_join(to_mapping(saved.calibration))}", highlight=False, markup=False)
    for part, values in recipe_to_table(saved.recipe).items():
        console.print(f"[bold]{part}[/bold] {_join(values)}", highlight=False)


def _show_match(name: str) -> None:
    from rich.console import Console

    from salvit.predict import load

    detector = load(name, device="cpu")
    console = Console()
    console.print(f"[bold]{detector.name}[/bold]: nearest features of a frozen network, no training", highlight=False)
    console.print(f"input {detector.input_size} px, weights {detector.weights_sha256[:12]}", highlight=False)


def _show_model(name: str, is_narrow: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from salvit.config import to_mapping
    from salvit.model.describe import PROTONET_MILLIONS, describe_model, protonet_trunk_parameters

    described = describe_model(name, "narrow" if is_narrow else "paper")
    table = Table("part", "parameters (M)", "paper (M)", title=f"{name} at {described.settings.input_size} px")
    for part, count in described.parameters.items():
        stated = described.paper.get(part)
        table.add_row(part, f"{count / 1e6:.2f}", "" if stated is None else f"{stated:.1f}")
    table.add_row("of these trained", f"{described.trained / 1e6:.2f}", "")
    if described.settings.backbone.name == "resnet50":
        table.add_row("trunk of ProtoNet", f"{protonet_trunk_parameters() / 1e6:.2f}", f"{PROTONET_MILLIONS:.1f}")
    console = Console()
    console.print(table)
    for note in described.notes:
        console.print(note)
    console.print()
    for part, values in to_mapping(described.settings).items():
        console.print(f"[bold]{part}[/bold] {_join(values)}", highlight=False)


def _join(values: object) -> str:
    if not isinstance(values, dict):
        return str(values)
    return " · ".join(f"{key} {value}" for key, value in values.items())
