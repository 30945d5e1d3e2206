"""Any COCO keypoints file → records: ``bbox`` is xywh, ``keypoints`` a flat list x, y, v, names stand in the category.

The folder of images is looked for beside the file: ``file_name`` as it stands, then under ``images/`` and ``data/``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from salvit.data.annotation_files import (
    Key,
    check_names,
    key_of,
    names_of,
    need_keys,
    objects_by_id,
    objects_of,
    read_json,
    size_of,
    to_triples,
    xywh_to_xyxy,
)
from salvit.data.records import DataSet, RecordBuilder


def read_coco(root: Path, *, images: Path | None = None, keep_missing: bool = False) -> DataSet:
    """Read a COCO keypoints file, or the only ``.json`` file of a folder.

    Args:
        root: The file or its folder.
        images: The folder of images; None looks beside the file.
        keep_missing: Keep records whose image is not there.
    """
    file = find_json(root)
    builder = RecordBuilder((), keep_missing)
    num_images = add_coco_file(builder, file, images)
    return builder.finish("coco", root, num_images)


def find_json(root: Path) -> Path:
    """The file itself, or the only ``.json`` file in a folder."""
    if root.is_file():
        return root
    files = sorted(root.glob("*.json")) if root.is_dir() else []
    if len(files) != 1:
        found = ", ".join(file.name for file in files) or "none"
        raise ValueError(f"{root}: expected a .json file, or a folder with exactly one; found: {found}")
    return files[0]


def add_coco_file(
    builder: RecordBuilder, file: Path, images: Path | None = None, expected: tuple[str, ...] | None = None
) -> int:
    """Add the annotations of one file to a builder; returns how many images it names.

    Args:
        builder: Takes the records.
        file: COCO keypoints JSON.
        images: The folder of images; None looks beside the file.
        expected: The keypoints that every category must have; None takes them as they are.
    """
    values = read_json(file)
    need_keys(values, ("images", "annotations", "categories"), str(file))
    if isinstance(values["images"], dict):
        raise ValueError(f"{file}: `images` is not a list, so this is not COCO (the official Animal Pose file is not)")
    categories = _categories(values["categories"], file, builder, expected)
    entries = objects_by_id(values["images"], f"{file}, images", builder.report)
    folders = (file.parent, file.parent / "images", file.parent / "data") if images is None else (images,)
    for number, annotation in enumerate(objects_of(values["annotations"], f"{file}, annotations", builder.report)):
        _add(builder, annotation, number, entries, categories, folders)
    return len(entries)


def _categories(
    values: Any, file: Path, builder: RecordBuilder, expected: tuple[str, ...] | None
) -> dict[Key, tuple[str, tuple[str, ...]]]:
    """Category id → name and keypoint names; one without keypoints has none."""
    known: dict[Key, tuple[str, tuple[str, ...]]] = {}
    for category in objects_of(values, f"{file}, categories", builder.report):
        where = f"{file}, category {category.get('name')!r}"
        need_keys(category, ("id", "name"), where)
        names = names_of(category, where) if "keypoints" in category else ()
        if expected is not None:
            check_names(names, expected, where)
        known[key_of(category["id"])] = (str(category["name"]), names)
    return known


def _add(
    builder: RecordBuilder,
    annotation: dict[str, Any],
    number: int,
    entries: dict[Key, dict[str, Any]],
    categories: dict[Key, tuple[str, tuple[str, ...]]],
    folders: tuple[Path, ...],
) -> None:
    where = f"annotation {number}"
    if "keypoints" not in annotation:
        builder.report.add("annotation without keypoints", where)
        return
    entry = entries.get(key_of(annotation.get("image_id")))
    if entry is None:
        builder.report.add("image id without an image", f"{where}: id {annotation.get('image_id')}")
        return
    name = entry.get("file_name")
    if not isinstance(name, str) or not name:
        builder.report.add("image without a file name", f"{where}: {name!r}")
        return
    category_id = key_of(annotation.get("category_id"))
    if category_id not in categories:
        builder.report.add("unknown category", f"{where}: {category_id}")
        return
    species, names = categories[category_id]
    triples = to_triples(annotation["keypoints"], len(names))
    if triples is None:
        builder.report.add("wrong number of keypoints", where)
        return
    path = next((folder / name for folder in folders if (folder / name).is_file()), folders[0] / name)
    builder.add(
        file=name,
        path=path,
        species=species,
        points=triples[:, :2],
        v=triples[:, 2],
        box=xywh_to_xyxy(annotation.get("bbox")),
        stated_hw=size_of(entry),
        names=names,
    )
