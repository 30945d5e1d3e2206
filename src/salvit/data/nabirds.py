"""NABirds (Van Horn et al. 2015) → records.

The same text files as CUB, but ids are dashed UUIDs, part ids start at 0, and class names hold spaces. ``classes.txt``
also lists the 456 inner nodes of the class tree, which have no images.
"""

from __future__ import annotations

from pathlib import Path

from salvit.data.bird_files import read_bird_files
from salvit.data.records import DataSet

PARTS = (
    "bill", "crown", "nape", "left_eye", "right_eye", "belly", "breast", "back", "tail", "left_wing", "right_wing",
)  # fmt: skip


def read_nabirds(root: Path, *, keep_missing: bool = False) -> DataSet:
    """Read the folder ``nabirds`` or the folder that holds it."""
    inner = root / "nabirds"
    return read_bird_files(inner if inner.is_dir() else root, "nabirds", PARTS, keep_missing=keep_missing)
