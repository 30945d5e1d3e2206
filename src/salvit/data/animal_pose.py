"""Animal Pose (Cao et al. 2019), official ``keypoints.json`` → records.

Not plain COCO: ``images`` is an object {id: file name}, ``bbox`` is xyxy, ``keypoints`` is a list of [x, y, v] with
v in {0, 1}, where 1 means visible; ``num_keypoints`` is always 20, and annotations have no id.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from salvit.data.annotation_files import (
    Key,
    check_names,
    is_safe_name,
    key_of,
    names_of,
    need_keys,
    objects_of,
    read_json,
    to_triples,
)
from salvit.data.records import DataSet, RecordBuilder

KEYPOINTS = (
    "left_eye", "right_eye", "nose", "left_ear", "right_ear", "left_front_elbow", "right_front_elbow",
    "left_back_elbow", "right_back_elbow", "left_front_knee", "right_front_knee", "left_back_knee", "right_back_knee",
    "left_front_paw", "right_front_paw", "left_back_paw", "right_back_paw", "throat", "withers", "tailbase",
)  # fmt: skip


def read_animal_pose(root: Path, *, keep_missing: bool = False) -> DataSet:
    """Read ``root/keypoints.json`` and ``root/images``."""
    file = root / "keypoints.json"
    values = read_json(file)
    need_keys(values, ("images", "annotations", "categories"), str(file))
    if not isinstance(values["images"], dict):
        raise ValueError(
            f"{file}: `images` is not an object of id: file name, so this is not the official file of Animal Pose; "
            "a COCO conversion is read with the data set name `coco`"
        )
    builder = RecordBuilder(KEYPOINTS, keep_missing)
    species = _species(values["categories"], file, builder)
    for number, annotation in enumerate(objects_of(values["annotations"], f"{file}, annotations", builder.report)):
        _add(builder, annotation, number, values["images"], species, root / "images")
    return builder.finish("animal_pose", root, len(values["images"]))


def _species(values: Any, file: Path, builder: RecordBuilder) -> dict[Key, str]:
    """Category id → name; every category must state the 20 keypoints in their order."""
    species: dict[Key, str] = {}
    for category in objects_of(values, f"{file}, categories", builder.report):
        where = f"{file}, category {category.get('name')!r}"
        need_keys(category, ("id", "name"), where)
        check_names(names_of(category, where), KEYPOINTS, where)
        species[key_of(category["id"])] = str(category["name"])
    return species


def _add(
    builder: RecordBuilder,
    annotation: dict[str, Any],
    number: int,
    images: dict[str, Any],
    species: dict[Key, str],
    folder: Path,
) -> None:
    where = f"annotation {number}"
    if not {"image_id", "category_id", "keypoints"} <= annotation.keys():
        builder.report.add("annotation without image_id, category_id or keypoints", where)
        return
    name = images.get(str(key_of(annotation["image_id"])))
    if name is None:
        builder.report.add("image id without an image", f"{where}: id {annotation['image_id']}")
        return
    if not is_safe_name(name):
        builder.report.add("file name leaves the folder", f"{where}: {name!r}")
        return
    category_id = key_of(annotation["category_id"])
    if category_id not in species:
        builder.report.add("unknown category", f"{where}: {category_id}")
        return
    triples = to_triples(annotation["keypoints"], len(KEYPOINTS))
    if triples is None:
        builder.report.add("wrong number of keypoints", where)
        return
    builder.add(
        file=name,
        path=folder / name,
        species=species[category_id],
        points=triples[:, :2],
        v=np.where(triples[:, 2] > 0, 2, 0),
        box=annotation.get("bbox"),
    )
