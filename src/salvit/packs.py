"""Packs on disk: what was learnt from marked pictures, in one safetensors file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from salvit.formats.targets import check_output
from salvit.tensor_files import read_tensors, write_tensors
from salvit.types import Detector, Pack

_FORMAT = "salvit-pack-1"


def save_pack(pack: Pack, path: Path | str, *, overwrite: bool = False) -> Path:
    """Write a pack; an existing file is left alone unless ``overwrite``."""
    path = Path(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"a pack is a .safetensors file, got {path.name!r}")
    check_output(path, overwrite)
    about = {
        "names": pack.names,
        "model": pack.model,
        "weights_sha256": pack.weights_sha256,
        "skeleton": pack.skeleton,
        "pairs": pack.pairs,
        "version": pack.version,
        "is_cropped": pack.is_cropped,
    }
    tensors = {"vectors": pack.vectors, "mask": pack.mask, **pack.extra}
    write_tensors(path, tensors, _FORMAT, {"about": json.dumps(about)})
    return path


def load_pack(path: Path | str) -> Pack:
    """Read a pack."""
    tensors, facts = read_tensors(Path(path), _FORMAT, "a pack of salvit")
    about = json.loads(facts["about"])
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
        is_cropped=about.get("is_cropped", False),
    )


def fingerprint(pack: Pack) -> str:
    """SHA-256 of everything that decides what a pack finds: two packs of one fingerprint find the same."""
    digest = hashlib.sha256(json.dumps([pack.names, pack.weights_sha256, pack.pairs]).encode())
    for tensor in (pack.vectors, pack.mask, *(pack.extra[name] for name in sorted(pack.extra))):
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def check_pack(pack: Pack, detector: Detector) -> None:
    """Refuse a pack that was made by other weights: its vectors would mean nothing."""
    if pack.weights_sha256 != detector.weights_sha256:
        raise ValueError(
            f"this pack was made by {pack.model} with weights {pack.weights_sha256[:12]}, but {detector.name} has "
            f"weights {detector.weights_sha256[:12]}; load {pack.model}, or learn it again from its marked pictures"
        )
