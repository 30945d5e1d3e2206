"""COCO keypoints JSON, our own format for marked pictures and for detections."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from salvit.data.support import MarkedImage, Support
from salvit.formats.targets import by_picture, size_of, write_text
from salvit.geometry import Window


def read(path: Path) -> Support:
    """Read marked pictures; an annotation that cannot be used is left out and named."""
    images, annotations, categories = _load(path)
    names = {
        key: unique_names(category["keypoints"], path)
        for key, category in categories.items()
        if category.get("keypoints")
    }
    problems: list[str] = []
    marked = []
    for number, annotation in enumerate(annotations):
        where = f"{path.name}, annotation {number}"
        try:
            where = f"{path.name}, annotation {annotation.get('id', number)}"
            image = images[annotation["image_id"]]
            marked.append(_marked(annotation, names[annotation["category_id"]], image, path.parent, where, problems))
        except KeyError as problem:
            problems.append(f"{where}: {problem} is missing or names nothing; left out")
        except (AttributeError, TypeError, ValueError) as problem:
            problems.append(f"{where}: {problem}; left out")
    return Support(tuple(marked), _skeleton(categories.values()), problems, _pairs(categories.values()))


def read_boxes(path: Path) -> tuple[list[tuple[Path, Window]], list[str]]:
    """Pictures and boxes of all annotations, keypoints or not, and what had to be left out."""
    images, annotations, _ = _load(path)
    boxes: list[tuple[Path, Window]] = []
    problems: list[str] = []
    for number, annotation in enumerate(annotations):
        try:
            picture, box = path.parent / images[annotation["image_id"]]["file_name"], box_of(annotation)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            problems.append(f"{path.name}, annotation {number}: {problem!r}; left out")
            continue
        if box is None:
            which = annotation.get("id", number)
            problems.append(f"{path.name}, annotation {which}: no box, or an empty one; left out")
        else:
            boxes.append((picture, box))
    return boxes, problems


def write(support: Support, path: Path) -> list[str]:
    """Write one category with all names; a keypoint that is not marked is 0, 0, 0."""
    names = support.names
    place = {name: number for number, name in enumerate(names, start=1)}
    links = [[place[a], place[b]] for a, b in support.skeleton if a in place and b in place]
    category: dict[str, Any] = {"id": 1, "name": "object", "keypoints": list(names), "skeleton": links}
    if support.pairs:
        category["pairs"] = [[place[a], place[b]] for a, b in support.pairs if a in place and b in place]
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    problems: list[str] = []
    for picture, objects in by_picture(support).items():
        try:
            height, width = size_of(objects[0])
        except (OSError, ValueError) as problem:
            problems.append(f"{problem}; left out")
            continue
        name = Path(os.path.relpath(picture, path.parent)).as_posix()
        images.append({"id": len(images) + 1, "file_name": name, "width": width, "height": height})
        for marked in objects:
            annotations.append(_annotation(marked, names, len(annotations) + 1, len(images)))
    content = {"images": images, "annotations": annotations, "categories": [category]}
    write_text(path, json.dumps(content, indent=1) + "\n")
    return problems


def _load(path: Path) -> tuple[dict[Any, dict[str, Any]], list[dict[str, Any]], dict[Any, dict[str, Any]]]:
    """Images and categories by id, and annotations."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        images = {image["id"]: image for image in content["images"]}
        categories = {category["id"]: category for category in content["categories"]}
        return images, list(content["annotations"]), categories
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise ValueError(f"{path} is not valid JSON: {problem}") from problem
    except (KeyError, TypeError) as problem:
        raise ValueError(
            f"{path} is not a COCO keypoints file: it needs 'images', 'annotations' and 'categories' with ids "
            f"({problem!r})"
        ) from problem


def unique_names(names: list[str], path: Path) -> tuple[str, ...]:
    """Keypoint names as text; one that is there twice is an error."""
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{path}: the keypoint name {name!r} is given twice in a category; names must differ")
    return tuple(str(name) for name in names)


def _marked(
    annotation: dict[str, Any],
    names: tuple[str, ...],
    image: dict[str, Any],
    folder: Path,
    where: str,
    problems: list[str],
) -> MarkedImage:
    values = np.array([math.nan if value is None else value for value in annotation["keypoints"]], dtype=np.float64)
    if values.size != 3 * len(names):
        raise ValueError(f"{values.size} numbers in 'keypoints', expected 3 for each of {len(names)} names")
    triples = values.reshape(-1, 3)
    marked = triples[:, 2] > 0
    broken = marked & ~np.isfinite(triples[:, :2]).all(1)
    problems.extend(f"{where}: {names[n]} is not a number; taken as not marked" for n in np.flatnonzero(broken))
    scores = annotation.get("keypoint_scores")
    return MarkedImage(
        path=folder / image["file_name"],
        names=names,
        points=triples[:, :2].copy(),
        marked=marked & ~broken,
        box=box_of(annotation),
        image_hw=(int(image["height"]), int(image["width"])) if image.get("height") and image.get("width") else None,
        scores=np.array(scores, dtype=np.float64) if scores is not None and len(scores) == len(names) else None,
    )


def box_of(annotation: dict[str, Any]) -> Window | None:
    """COCO's ``x, y, width, height`` as a window, None where there is none or an empty one."""
    if len(annotation.get("bbox") or ()) != 4:
        return None
    x, y, width, height = (float(side) for side in annotation["bbox"])
    box = (x, y, x + width, y + height)
    return box if width > 0 and height > 0 and all(map(math.isfinite, box)) else None


def _annotation(marked: MarkedImage, names: tuple[str, ...], number: int, image: int) -> dict[str, Any]:
    triples: list[float] = [0.0, 0.0, 0] * len(names)
    scores = [0.0] * len(names)
    for n in np.flatnonzero(marked.marked):
        at = names.index(marked.names[n])
        triples[3 * at : 3 * at + 3] = [float(marked.points[n, 0]), float(marked.points[n, 1]), 2]
        scores[at] = 0.0 if marked.scores is None else float(marked.scores[n])
    row: dict[str, Any] = {
        "id": number,
        "image_id": image,
        "category_id": 1,
        "keypoints": triples,
        "num_keypoints": int(marked.marked.sum()),
        "iscrowd": 0,
    }
    if marked.scores is not None:
        row["keypoint_scores"] = scores
    if marked.box is not None:
        x1, y1, x2, y2 = marked.box
        row |= {"bbox": [x1, y1, x2 - x1, y2 - y1], "area": (x2 - x1) * (y2 - y1)}
    return row


def _skeleton(categories: Iterable[dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Links of all categories by name; COCO counts keypoints from 1."""
    return _links(categories, "skeleton")


def _pairs(categories: Iterable[dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Left/right pairs that a file of ours states; COCO itself knows none."""
    return _links(categories, "pairs")


def _links(categories: Iterable[dict[str, Any]], key: str) -> tuple[tuple[str, str], ...]:
    links = []
    for category in categories:
        names = category.get("keypoints", [])
        for first, second in category.get(key) or ():
            if 1 <= first <= len(names) and 1 <= second <= len(names):
                links.append((str(names[first - 1]), str(names[second - 1])))
    return tuple(dict.fromkeys(links))
