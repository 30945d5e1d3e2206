"""DeepFashion2 (Ge et al. 2019) → records, one for each garment.

``{train,validation}/annos/NNNNNN.json`` beside ``…/image/NNNNNN.jpg``: an object with ``source``, ``pair_id`` and
``item1`` … ``itemN``; ``landmarks`` is a flat list x, y, v (2 visible, 1 hidden, 0 not labelled); ``bounding_box``
is xyxy. A COCO conversion, with one vector of 294 landmarks of which a garment uses its own part, is read too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from salvit.data.annotation_files import (
    is_safe_name,
    key_of,
    need_keys,
    objects_by_id,
    objects_of,
    read_json,
    to_triples,
    xywh_to_xyxy,
)
from salvit.data.coco import find_json
from salvit.data.records import DataSet, RecordBuilder

CATEGORIES = {
    1: ("short_sleeve_top", 25), 2: ("long_sleeve_top", 33), 3: ("short_sleeve_outwear", 31),
    4: ("long_sleeve_outwear", 39), 5: ("vest", 15), 6: ("sling", 15), 7: ("shorts", 10), 8: ("trousers", 14),
    9: ("skirt", 8), 10: ("short_sleeve_dress", 29), 11: ("long_sleeve_dress", 37), 12: ("vest_dress", 19),
    13: ("sling_dress", 19),
}  # fmt: skip
"""Category id → name and number of landmarks, 294 in all."""
NUM_LANDMARKS = sum(count for _, count in CATEGORIES.values())


def landmark_names(category_id: int) -> tuple[str, ...]:
    """The names of a category's landmarks: ``trousers_01`` and so on."""
    name, count = CATEGORIES[category_id]
    return tuple(f"{name}_{index:02d}" for index in range(1, count + 1))


def read_deepfashion2(root: Path, *, keep_missing: bool = False) -> DataSet:
    """Read ``train`` and ``validation`` under ``root``, or ``root`` itself if it holds annotations, or a COCO file."""
    builder = RecordBuilder((), keep_missing)
    folders = [root / name for name in ("train", "validation") if (root / name / "annos").is_dir()]
    if not folders and (root / "annos").is_dir():
        folders = [root]
    if folders:
        num_images = sum(_add_folder(builder, folder, root) for folder in folders)
    else:
        num_images = _add_single(builder, find_json(root))
    return builder.finish("deepfashion2", root, num_images)


def _add_folder(builder: RecordBuilder, folder: Path, root: Path) -> int:
    files = sorted((folder / "annos").glob("*.json"))
    for file in files:
        image = folder / "image" / f"{file.stem}.jpg"
        try:
            items = read_json(file)
        except ValueError as problem:
            builder.report.add("annotation file that cannot be read", str(problem))
            continue
        _add_items(builder, items, image, image.relative_to(root).as_posix())
    return len(files)


def _add_single(builder: RecordBuilder, file: Path) -> int:
    """One file: a COCO conversion, or the annotation of a single image that lies beside it."""
    values = read_json(file)
    if not isinstance(values, dict) or "annotations" not in values:
        _add_items(builder, values, file.with_suffix(".jpg"), f"{file.stem}.jpg")
        return 1
    need_keys(values, ("images", "annotations"), str(file))
    images = objects_by_id(values["images"], f"{file}, images", builder.report)
    for number, annotation in enumerate(objects_of(values["annotations"], f"{file}, annotations", builder.report)):
        entry = images.get(key_of(annotation.get("image_id")))
        if entry is None or not is_safe_name(entry.get("file_name")):
            builder.report.add("image id without an image", f"annotation {number}: id {annotation.get('image_id')}")
            continue
        landmarks, category_id = annotation.get("keypoints"), annotation.get("category_id")
        joined = to_triples(landmarks, NUM_LANDMARKS)
        if joined is not None and isinstance(category_id, int) and category_id in CATEGORIES:
            start = sum(count for key, (_, count) in CATEGORIES.items() if key < category_id)
            landmarks = joined[start : start + CATEGORIES[category_id][1]]
        box = xywh_to_xyxy(annotation.get("bbox"))
        _add_garment(builder, category_id, landmarks, box, file.parent / entry["file_name"], entry["file_name"])
    return len(images)


def _add_items(builder: RecordBuilder, items: Any, image: Path, name: str) -> None:
    keys = sorted(key for key in items if key.startswith("item")) if isinstance(items, dict) else []
    if not keys:
        builder.report.add("annotation without a garment", name)
    for key in keys:
        item = items[key]
        if not isinstance(item, dict):
            builder.report.add("garment that is not an object", f"{name}: {key}")
            continue
        _add_garment(builder, item.get("category_id"), item.get("landmarks", ()), item.get("bounding_box"), image, name)


def _add_garment(builder: RecordBuilder, category_id: Any, landmarks: Any, box: Any, image: Path, name: str) -> None:
    if not isinstance(category_id, int) or category_id not in CATEGORIES:
        builder.report.add("unknown category", f"{name}: {category_id!r}")
        return
    names = landmark_names(category_id)
    triples = to_triples(landmarks, len(names))
    if triples is None:
        builder.report.add("wrong number of keypoints", name)
        return
    builder.add(
        file=name,
        path=image,
        species=CATEGORIES[category_id][0],
        points=triples[:, :2],
        v=triples[:, 2],
        box=box,
        names=names,
    )
