"""Records → a COCO keypoints file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from salvit.data.images import image_hw as read_image_hw
from salvit.data.splits import Pairs
from salvit.types import Record


def to_coco(records: Sequence[Record], folder: Path, skeleton: Pairs = ()) -> dict[str, Any]:
    """COCO keypoints with one category per species; file names are relative to ``folder``, ids start at 1.

    A keypoint without a label is written 0, 0, 0, as COCO asks; box and area are those of the record.
    """
    categories: dict[str, dict[str, Any]] = {}
    images: dict[Path, dict[str, Any]] = {}
    annotations: list[dict[str, Any]] = []
    for record in records:
        category = categories.setdefault(record.species, _category(record, len(categories) + 1, skeleton))
        if record.path not in images:
            images[record.path] = _image(record, len(images) + 1, folder)
        labelled = np.where(record.visible[:, None], record.points, 0.0)
        triples = [value for (x, y), v in zip(labelled.tolist(), record.v.tolist(), strict=True) for value in (x, y, v)]
        x1, y1, x2, y2 = record.box or (0.0, 0.0, 0.0, 0.0)
        annotation = {
            "id": len(annotations) + 1,
            "image_id": images[record.path]["id"],
            "category_id": category["id"],
            "keypoints": triples,
            "num_keypoints": int(record.visible.sum()),
            "iscrowd": 0,
        }
        if record.box is not None:
            annotation |= {"bbox": [x1, y1, x2 - x1, y2 - y1], "area": (x2 - x1) * (y2 - y1)}
        annotations.append(annotation)
    return {
        "info": {"description": "converted by salvit"},
        "images": list(images.values()),
        "annotations": annotations,
        "categories": list(categories.values()),
    }


def _category(record: Record, number: int, skeleton: Pairs) -> dict[str, Any]:
    place = {name: index for index, name in enumerate(record.names, start=1)}  # COCO counts keypoints from 1
    links = [[place[first], place[last]] for first, last in skeleton if first in place and last in place]
    return {"id": number, "name": record.species, "keypoints": list(record.names), "skeleton": links}


def _image(record: Record, number: int, folder: Path) -> dict[str, Any]:
    height, width = record.image_hw or read_image_hw(record.path)
    name = Path(os.path.relpath(record.path.resolve(), folder.resolve())).as_posix()
    return {"id": number, "file_name": name, "height": height, "width": width}
