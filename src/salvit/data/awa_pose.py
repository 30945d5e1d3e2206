"""AwA Pose (Banik et al. 2021) → records, from either of its two forms.

(a) ``Annotations/<species>/<species>_<number>.pickle``: {"a1": {keypoint: [x, y], …, "bbox": xyxy}, "a2": …}, absent is
[-1, -1]; (b) the COCO-like ``dataset.json`` or ``dataset.pickle`` of 10,052 animals: ``bbox`` is xyxy, ``filename``
names the image, ``animal`` the species, v in {0, 2}. Images are AwA2's ``JPEGImages/<species>/<file>``.

Pickles are read without any class: a file that asks for one is not read.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from salvit.data.annotation_files import (
    check_names,
    is_safe_name,
    key_of,
    names_of,
    need_keys,
    objects_by_id,
    objects_of,
    read_json,
    size_of,
    to_triples,
)
from salvit.data.records import DataSet, RecordBuilder

KEYPOINTS = (
    "nose", "upper_jaw", "lower_jaw", "mouth_end_right", "mouth_end_left", "right_eye", "right_earbase",
    "right_earend", "right_antler_base", "right_antler_end", "left_eye", "left_earbase", "left_earend",
    "left_antler_base", "left_antler_end", "neck_base", "neck_end", "throat_base", "throat_end", "back_base",
    "back_end", "back_middle", "tail_base", "tail_end", "front_left_thai", "front_left_knee", "front_left_paw",
    "front_right_thai", "front_right_paw", "front_right_knee", "back_left_knee", "back_left_paw", "back_left_thai",
    "back_right_thai", "back_right_paw", "back_right_knee", "belly_bottom", "body_middle_right", "body_middle_left",
)  # fmt: skip


class PlainUnpickler(pickle.Unpickler):
    """Reads plain values only: a pickle can run any code through the classes that it names, so none is let in."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse every class and function."""
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, and only plain values are read")


def read_awa_pose(root: Path, *, keep_missing: bool = False) -> DataSet:
    """Read form (b) where ``dataset.json`` or ``dataset.pickle`` is there, else form (a)."""
    for name in ("dataset.json", "dataset.pickle"):
        if (root / name).is_file():
            return _read_joined(root, root / name, keep_missing)
    return read_awa_pickles(root, keep_missing=keep_missing)


def read_awa_pickles(root: Path, *, keep_missing: bool = False) -> DataSet:
    """Read form (a): one pickle per image, one record per animal."""
    files = sorted((root / "Annotations").glob("*/*.pickle"))
    if not files:
        raise ValueError(
            f"{root}: expected dataset.json, dataset.pickle or Annotations/<species>/<species>_<number>.pickle"
        )
    builder = RecordBuilder(KEYPOINTS, keep_missing)
    for file in files:
        try:
            animals = read_plain_pickle(file)
        except ValueError as problem:
            builder.report.add("pickle that cannot be read", str(problem))
            continue
        for key in sorted(animals) if isinstance(animals, dict) else ():
            _add_animal(builder, animals[key], root, file)
    return builder.finish("awa_pose", root, len(files))


def read_plain_pickle(path: Path) -> Any:
    """Unpickle plain dicts, lists, strings and numbers; anything else, or a broken file, is a ValueError."""
    try:
        with path.open("rb") as stream:
            return PlainUnpickler(stream).load()
    except Exception as problem:  # a broken pickle can raise nearly any error
        raise ValueError(f"{path.name} was not read: {problem}") from problem


def _add_animal(builder: RecordBuilder, animal: Any, root: Path, file: Path) -> None:
    species, image = file.parent.name, f"{file.stem}.jpg"
    if not isinstance(animal, dict):
        builder.report.add("animal that is not an object", file.name)
        return
    for key in sorted(animal.keys() - set(KEYPOINTS) - {"bbox"}):
        builder.report.add("unknown keypoint name", f"{file.name}: {key}")
    try:
        points = np.array([animal.get(name, (-1, -1)) for name in KEYPOINTS], dtype=np.float64).reshape(-1, 2)
    except (ValueError, TypeError):
        builder.report.add("keypoints are not [x, y]", file.name)
        return
    builder.add(
        file=image,
        path=_image_path(root, species, image),
        species=species,
        points=points,
        v=np.where((points == -1).all(-1), 0, 2),
        box=animal.get("bbox"),
    )


def _read_joined(root: Path, file: Path, keep_missing: bool) -> DataSet:
    values = read_json(file) if file.suffix == ".json" else read_plain_pickle(file)
    need_keys(values, ("images", "annotations", "categories"), str(file))
    builder = RecordBuilder(KEYPOINTS, keep_missing)
    for category in objects_of(values["categories"], f"{file}, categories", builder.report):
        check_names(names_of(category, f"{file}, categories"), KEYPOINTS, str(file))
    images = objects_by_id(values["images"], f"{file}, images", builder.report)
    for number, annotation in enumerate(objects_of(values["annotations"], f"{file}, annotations", builder.report)):
        image = images.get(key_of(annotation.get("image_id")))
        if image is None:
            builder.report.add("image id without an image", f"annotation {number}: id {annotation.get('image_id')}")
            continue
        name, species = str(image.get("filename", "")), str(annotation.get("animal", ""))
        if not is_safe_name(name) or not is_safe_name(species):
            builder.report.add("file name leaves the folder", f"annotation {number}: {species}/{name}")
            continue
        triples = to_triples(annotation.get("keypoints"), len(KEYPOINTS))
        if triples is None:
            builder.report.add("wrong number of keypoints", f"annotation {number}")
            continue
        builder.add(
            file=name,
            path=_image_path(root, species, name),
            species=species,
            points=triples[:, :2],
            v=triples[:, 2],
            box=annotation.get("bbox"),
            stated_hw=size_of(image),
        )
    return builder.finish("awa_pose", root, len(images))


def _image_path(root: Path, species: str, name: str) -> Path:
    return root / "JPEGImages" / species / name
