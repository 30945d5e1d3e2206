"""CUB-200-2011 (Wah et al. 2011) → records. Ids start at 1; ``bounding_boxes.txt`` is x y w h."""

from __future__ import annotations

from pathlib import Path

from salvit.data.bird_files import read_bird_files
from salvit.data.records import DataSet

PARTS = (
    "back", "beak", "belly", "breast", "crown", "forehead", "left_eye", "left_leg", "left_wing", "nape", "right_eye",
    "right_leg", "right_wing", "tail", "throat",
)  # fmt: skip


def read_cub(root: Path, *, keep_missing: bool = False) -> DataSet:
    """Read the folder ``CUB_200_2011`` or the folder that holds it."""
    inner = root / "CUB_200_2011"
    return read_bird_files(inner if inner.is_dir() else root, "cub", PARTS, keep_missing=keep_missing)
