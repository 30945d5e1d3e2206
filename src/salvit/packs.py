"""Packs on disk: what was learnt from marked pictures, in one safetensors file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from salvit.types import Detector, Pack

_FORMAT = "salvit-pack-1"


def save_pack(pack: Pack, path: Path | str, *, overwrite: bool = False) -> Path:
    """Write a pack; an existing file is left alone unless ``overwrite``."""
    from safetensors.torch import save_file

    path = Path(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"a pack is a .safetensors file, got {path.name!r}")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; choose another name, or allow it to be overwritten")
    about = {
        "names": pack.names,
        "model": pack.model,
        "weights_sha256": pack.weights_sha256,
        "skeleton": pack.skeleton,
        "pairs": pack.pairs,
        "version": pack.version,
    }
    tensors = {"vectors": pack.vectors.contiguous(), "mask": pack.mask.contiguous(), **pack.extra}
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    save_file(tensors, partial, metadata={"format": _FORMAT, "about": json.dumps(about)})
    os.replace(partial, path)
    return path


def load_pack(path: Path | str) -> Pack:
    """Read a pack."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; expected a pack made by salvit")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                raise ValueError(f"{path} is not a pack of salvit: its format is {metadata.get('format')!r}")
            tensors = {key: file.get_tensor(key) for key in file.keys()}
    except SafetensorError as problem:
        raise ValueError(f"{path} is not a pack of salvit: {problem}") from problem
    about = json.loads(metadata["about"])
    return Pack(
        vectors=tensors.pop("vectors"),
        mask=tensors.pop("mask"),
        names=tuple(about["names"]),
        model=about["model"],
        weights_sha256=about["weights_sha256"],
        skeleton=tuple((a, b) for a, b in about["skeleton"]),
        pairs=tuple((a, b) for a, b in about["pairs"]),
        extra=tensors,
        version=about["version"],
    )


def check_pack(pack: Pack, detector: Detector) -> None:
    """Refuse a pack that was made by other weights: its vectors would mean nothing."""
    if pack.weights_sha256 != detector.weights_sha256:
        raise ValueError(
            f"this pack was made by {pack.model} with weights {pack.weights_sha256[:12]}, but {detector.name} has "
            f"weights {detector.weights_sha256[:12]}; load {pack.model}, or learn it again from its marked pictures"
        )
