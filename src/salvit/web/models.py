"""Which models and sources of saliency are on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

OWN = "model"
"""The source of saliency that the model was made for; ``learned`` in the views of models that use none."""
SALIENCY = (OWN, "learned", "rbd", "spectral_residual", "none")
"""Sources of saliency that need nothing more than salvit itself."""


def present_models(folders: Sequence[Path]) -> list[dict[str, str]]:
    """Models that can be loaded: released ones, ``match`` on backbones that are here, trained files in the folders."""
    from salvit.backbones.weights import KNOWN, weights_path
    from salvit.released import BACKBONES, usable_models

    models = [
        {"name": name, "title": f"salvit {name}: trained, on {BACKBONES[name]}", "kind": "released"}
        for name in usable_models()
    ]
    for known in KNOWN:
        if weights_path(known.name) is not None:
            name = "match" if known.name == "lite0" else f"match:{known.name}"
            models.append({"name": name, "title": f"Nearest features on {known.name}", "kind": "match"})
    for folder in folders:
        for file in sorted(folder.glob("*.safetensors")):
            if _is_checkpoint(file):
                models.append({"name": str(file), "title": f"Trained: {file.stem}", "kind": "trained"})
    return models


def present_saliency() -> list[str]:
    """Sources of saliency that can be used."""
    from salvit.backbones.weights import weights_path

    return [*SALIENCY, "attentiveness"] if weights_path("dinov2-s14") is not None else list(SALIENCY)


def _is_checkpoint(file: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    from salvit.checkpoint import FORMAT

    try:
        with safe_open(file, framework="pt") as opened:
            return bool((opened.metadata() or {}).get("format") == FORMAT)
    except (SafetensorError, OSError):
        return False
