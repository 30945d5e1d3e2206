"""Reads the pictures that a user marked: a COCO keypoints JSON or a CSV ``image,keypoint,x,y``.

Paths in a support file are relative to it. A keypoint that cannot be used (NaN, outside its picture) counts as not
marked and is reported; a picture that cannot be read is left out and reported; the rest of the file goes on.
"""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from salvit.geometry import Window, is_inside
from salvit.types import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class MarkedImage:
    """One object that a user marked in one picture."""

    path: Path
    names: tuple[str, ...]
    points: FloatArray
    """(N, 2) in image pixels."""
    marked: BoolArray
    """(N,)."""
    box: Window | None = None


@dataclass(frozen=True, slots=True)
class Support:
    """The marked pictures of a support file."""

    images: tuple[MarkedImage, ...]
    skeleton: tuple[tuple[str, str], ...] = ()
    problems: list[str] = field(default_factory=list)
    """What was left out, and why: one sentence each."""


def read_support(path: Path | str) -> Support:
    """Read a support file; at least one keypoint must be usable."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"the support file {path} does not exist; expected COCO keypoints JSON or CSV")
    match path.suffix.lower():
        case ".json":
            support = _read_coco(path)
        case ".csv":
            support = _read_csv(path)
        case other:
            raise ValueError(f"{path}: a support file ends in .json (COCO keypoints) or .csv, got {other!r}")
    if not any(image.marked.any() for image in support.images):
        why = f" ({'; '.join(support.problems[:3])})" if support.problems else ""
        raise ValueError(f"{path}: no keypoint is marked in any picture{why}; mark at least one")
    return support


def drop_outside(image: MarkedImage, image_hw: tuple[int, int]) -> tuple[MarkedImage, list[str]]:
    """Take marks that lie outside the picture for not marked, and say which."""
    outside = image.marked & ~is_inside(image.points, image_hw)
    problems = [
        f"{image.path.name}: {image.names[n]} at ({image.points[n, 0]:g}, {image.points[n, 1]:g}) lies outside the "
        f"picture of {image_hw[1]}×{image_hw[0]} pixels; taken as not marked"
        for n in np.flatnonzero(outside)
    ]
    return MarkedImage(image.path, image.names, image.points, image.marked & ~outside, image.box), problems


def _read_coco(path: Path) -> Support:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        images = {image["id"]: image for image in content["images"]}
        categories = {category["id"]: category for category in content["categories"]}
        annotations = content["annotations"]
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise ValueError(f"{path} is not valid JSON: {problem}") from problem
    except (KeyError, TypeError) as problem:
        raise ValueError(
            f"{path} is not a COCO keypoints file: it needs 'images', 'annotations' and 'categories' with ids "
            f"({problem!r})"
        ) from problem
    problems: list[str] = []
    marked = []
    for number, annotation in enumerate(annotations):
        where = f"{path.name}, annotation {annotation.get('id', number)}"
        try:
            image = images[annotation["image_id"]]
            names = _unique_names(categories[annotation["category_id"]]["keypoints"], path)
            marked.append(_marked_from_coco(annotation, names, path.parent / image["file_name"], where, problems))
        except KeyError as problem:
            problems.append(f"{where}: {problem} is missing or names nothing; left out")
    return Support(tuple(marked), _skeleton(categories.values()), problems)


def _marked_from_coco(
    annotation: dict[str, Any], names: tuple[str, ...], image: Path, where: str, problems: list[str]
) -> MarkedImage:
    values = np.array([math.nan if value is None else value for value in annotation["keypoints"]], dtype=np.float64)
    if values.size != 3 * len(names):
        raise ValueError(f"{where}: {values.size} numbers in 'keypoints', expected 3 for each of {len(names)} names")
    triples = values.reshape(-1, 3)
    marked = triples[:, 2] > 0
    broken = marked & ~np.isfinite(triples[:, :2]).all(1)
    problems.extend(f"{where}: {names[n]} is not a number; taken as not marked" for n in np.flatnonzero(broken))
    box: Window | None = None
    if len(annotation.get("bbox") or ()) == 4:
        x, y, width, height = (float(side) for side in annotation["bbox"])
        box = (x, y, x + width, y + height) if width > 0 and height > 0 else None
    return MarkedImage(image, names, triples[:, :2].copy(), marked & ~broken, box)


def _read_csv(path: Path) -> Support:
    problems: list[str] = []
    points: dict[str, dict[str, tuple[float, float]]] = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, skipinitialspace=True)
        needed = ("image", "keypoint", "x", "y")
        if missing := [column for column in needed if column not in (reader.fieldnames or ())]:
            raise ValueError(f"{path}: the first line must be image,keypoint,x,y; missing: {', '.join(missing)}")
        for row in reader:
            where = f"{path.name}, line {reader.line_num}"
            image, name = (row["image"] or "").strip(), (row["keypoint"] or "").strip()
            if not image or not name:
                problems.append(f"{where}: no image or no keypoint name; left out")
                continue
            try:
                point = (float(row["x"]), float(row["y"]))
            except (TypeError, ValueError):
                point = (math.nan, math.nan)
            if not (math.isfinite(point[0]) and math.isfinite(point[1])):
                problems.append(f"{where}: {name} at ({row['x']}, {row['y']}) is not a number; taken as not marked")
                continue
            if name in points.setdefault(image, {}):
                raise ValueError(f"{where}: {name!r} is marked twice in {image}; keep one of the two lines")
            points[image][name] = point
    names = tuple(dict.fromkeys(name for marks in points.values() for name in marks))
    return Support(
        tuple(_marked_from_rows(path.parent / image, names, marks) for image, marks in points.items()), (), problems
    )


def _marked_from_rows(image: Path, names: tuple[str, ...], marks: dict[str, tuple[float, float]]) -> MarkedImage:
    points = np.array([marks.get(name, (0.0, 0.0)) for name in names], dtype=np.float64).reshape(-1, 2)
    return MarkedImage(image, names, points, np.array([name in marks for name in names], dtype=bool))


def _unique_names(names: list[str], path: Path) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{path}: the keypoint name {name!r} is given twice in a category; names must differ")
    return tuple(str(name) for name in names)


def _skeleton(categories: Any) -> tuple[tuple[str, str], ...]:
    """Links of all categories by name; COCO counts keypoints from 1."""
    links = []
    for category in categories:
        names = category.get("keypoints", [])
        for first, second in category.get("skeleton") or ():
            if 1 <= first <= len(names) and 1 <= second <= len(names):
                links.append((names[first - 1], names[second - 1]))
    return tuple(dict.fromkeys(links))
