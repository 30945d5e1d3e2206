"""What a data set on disk holds, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from salvit.data.images import read_image
from salvit.data.records import DataSet
from salvit.data.splits import check_counts, count_species, read_split

Track = Callable[[Iterable[Path], int, str], Iterator[Path]]
"""Passes items on and shows progress: (items, how many, what)."""


def check_dataset(dataset: DataSet, track: Track) -> dict[str, Any]:
    """Decode every image and count everything; plain values for JSON.

    Args:
        dataset: As read with ``keep_missing=True``.
        track: Shows progress over the images.
    """
    paths = sorted({record.path for record in dataset.records if record.path.is_file()})
    for path in track(paths, len(paths), "decoding"):
        try:
            read_image(path)
        except (OSError, ValueError) as problem:
            dataset.report.add("image that cannot be decoded", str(problem))
    species = count_species(dataset)
    try:
        notes: tuple[str, ...] = check_counts(dataset)
        split = read_split(dataset.name)
        lists = {
            name: len(listed)
            for name in ("train", "val", "test")
            if (listed := [item for item in getattr(split.species, name) if item in species])
        }
    except ValueError:  # a set without a split has nothing to be compared with
        notes, lists = (), {}
    return {
        "data": dataset.name,
        "images": dataset.num_images,
        "images_present": len(paths),
        "records": len(dataset.records),
        "keypoints": sum(int(record.visible.sum()) for record in dataset.records),
        "boxes": sum(record.box is not None for record in dataset.records),
        "boxes_from_points": sum(record.is_box_from_points for record in dataset.records),
        "species": species,
        "species_in_lists": lists,
        "problems": dataset.report.to_mapping(),
        "differences": list(notes),
    }
