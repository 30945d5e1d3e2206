"""A data set by its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from salvit.data.animal_pose import read_animal_pose
from salvit.data.ap10k import read_ap10k
from salvit.data.awa_pose import read_awa_pose
from salvit.data.coco import read_coco
from salvit.data.cub import read_cub
from salvit.data.deepfashion2 import read_deepfashion2
from salvit.data.nabirds import read_nabirds
from salvit.data.records import DataSet

DataName = Literal["animal_pose", "cub", "nabirds", "awa_pose", "deepfashion2", "ap10k", "coco", "creatures"]
NAMES: tuple[str, ...] = get_args(DataName)


def read_dataset(name: str, root: Path, *, keep_missing: bool = False) -> DataSet:
    """Read a data set from disk.

    Args:
        name: One of :data:`NAMES`.
        root: Its folder (for ``coco``, ``ap10k`` and ``deepfashion2`` an annotation file will do).
        keep_missing: Keep records whose image is not there, for counting; else they are counted and left out.
    """
    if name not in NAMES:
        raise ValueError(f"unknown data set {name!r}; known: {', '.join(NAMES)}")
    if not root.exists():
        raise ValueError(f"{root} does not exist; expected the folder of {name} (give it with --root)")
    match name:
        case "animal_pose":
            return read_animal_pose(root, keep_missing=keep_missing)
        case "cub":
            return read_cub(root, keep_missing=keep_missing)
        case "nabirds":
            return read_nabirds(root, keep_missing=keep_missing)
        case "awa_pose":
            return read_awa_pose(root, keep_missing=keep_missing)
        case "deepfashion2":
            return read_deepfashion2(root, keep_missing=keep_missing)
        case "ap10k":
            return read_ap10k(root, keep_missing=keep_missing)
        case "creatures":  # a COCO file, as salvit.data.creatures writes it
            return replace(read_coco(root, keep_missing=keep_missing), name="creatures")
        case _:
            return read_coco(root, keep_missing=keep_missing)
