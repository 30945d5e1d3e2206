"""``salvit info``: what a model is made of."""

from __future__ import annotations

import typer


def info(
    model: str = typer.Argument(
        help="A model: salvit-resnet50, salvit-dino-s16, salvit-dinov2, salvit-lite0, or a row of "
        "the paper's ablation table, such as cnn-only."
    ),
    narrow: bool = typer.Option(False, "--narrow", help="With the narrow head, for training on a CPU."),
) -> None:
    """Parameters of a model by part, beside the paper's, and its settings."""
    _show_model(model, narrow)


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
        text = " · ".join(f"{key} {value}" for key, value in values.items()) if isinstance(values, dict) else values
        console.print(f"[bold]{part}[/bold] {text}", highlight=False)
