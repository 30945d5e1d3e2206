"""Label Studio's JSON: the full export, the small one (JSON-MIN), and tasks with predictions to import.

Places are in percent of the picture, 0 at its left and upper edge and 100 at the others. A keypoint belongs to the
rectangle that is its parent; keypoints without one are one object.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import numpy as np

from salvit.data.support import MarkedImage, Support
from salvit.formats.targets import by_picture, leads_out, place_pictures, size_of, write_text
from salvit.geometry import Window, from_shares, to_shares

FROM_NAME, BOX_NAME, TO_NAME = "keypoints", "boxes", "image"
"""Names of the controls and of the picture in the labelling set-up (docs/formats.md shows it)."""
Region = dict[str, Any]


def read(path: Path) -> Support:
    """Read marked pictures; where a task has several annotations, the first that was not skipped counts.

    Predictions are read, with their scores, where a task has no annotation.
    """
    try:
        tasks = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise ValueError(f"{path} is not valid JSON: {problem}") from problem
    if not isinstance(tasks, list) or not tasks or not all(isinstance(task, dict) for task in tasks):
        raise ValueError(f"{path} is neither a list of Label Studio tasks nor a COCO keypoints file")
    problems: list[str] = []
    found: list[tuple[Path, dict[str, Any]]] = []
    for number, task in enumerate(tasks):
        where = f"{path.name}, task {task.get('id', number)}"
        try:
            picture = path.parent / _picture(task, path.parent)
            found += [(picture, one) for one in _objects(_regions(task), where, problems)]
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            problems.append(f"{where}: {problem}; left out")
    names = tuple(dict.fromkeys(name for _, one in found for name in one["points"]))
    return Support(tuple(_marked(picture, one, names) for picture, one in found), (), problems)


def write(support: Support, path: Path) -> list[str]:
    """Write tasks to import: marks as annotations, and what a detector found as predictions.

    Pictures are named for Label Studio's local storage, relative to the file's folder; those from elsewhere are copied
    into ``pictures`` beside it.
    """
    pictures = by_picture(support)
    placed, problems = place_pictures(pictures, path.parent / "pictures", below=path.parent)
    tasks = []
    for number, (picture, target) in enumerate(placed.items(), start=1):
        objects = pictures[picture]
        try:
            hw = size_of(objects[0])
        except (OSError, ValueError) as problem:
            problems.append(f"{problem}; left out")
            continue
        result = [region for k, marked in enumerate(objects) for region in _write_object(marked, hw, f"{number}-{k}")]
        inside = target.relative_to(path.parent.resolve()).as_posix()
        task: dict[str, Any] = {"id": number, "data": {TO_NAME: f"/data/local-files/?d={quote(inside)}"}}
        if any(marked.scores is not None for marked in objects):
            scores = [marked.scores[marked.marked].mean() for marked in objects if marked.scores is not None]
            score = float(np.nan_to_num(np.mean(scores)))
            task["predictions"] = [{"model_version": "salvit", "score": score, "result": result}]
        else:
            task["annotations"] = [{"result": result}]
        tasks.append(task)
    write_text(path, json.dumps(tasks, indent=1) + "\n")
    return problems


def _picture(task: Region, folder: Path) -> Path:
    """The file that a task names: a local file, an upload, or a plain path."""
    data = task.get("data", task)
    text = data.get(TO_NAME) or next((value for value in data.values() if isinstance(value, str) and "." in value), "")
    if not text:
        raise ValueError("no picture is named in its data")
    parts = urlsplit(text)
    if parts.scheme in ("http", "https", "s3", "gs", "azure-blob"):
        raise ValueError(f"{text} lies on a server; download it and name the file")
    local = parse_qs(parts.query).get("d")
    name = local[0] if local else unquote(parts.path)
    if leads_out(name):
        raise ValueError(f"{name} leads out of the folder with '..'")
    if "/upload/" in name:
        name = name.rpartition("/")[2]
        plain = re.sub(r"^[0-9a-f]{8}-", "", name)  # Label Studio puts a random prefix before an upload's name
        return Path(name if (folder / name).is_file() else plain)
    return Path(name)


def _regions(task: Region) -> list[Region]:
    """All regions of a task, each with its ``value`` inside, whatever the kind of export."""
    if "annotations" not in task and "predictions" not in task:  # JSON-MIN: controls are keys of the task
        lists = [value for value in task.values() if isinstance(value, list)]
        return [{**one, "value": one} for regions in lists for one in regions if isinstance(one, dict) and "x" in one]
    for annotation in task.get("annotations") or ():
        if not annotation.get("was_cancelled"):
            return list(annotation.get("result") or ())
    for prediction in task.get("predictions") or ():
        return [{**region, "is_found": True} for region in prediction.get("result") or ()]
    return []


def _objects(regions: list[Region], where: str, problems: list[str]) -> Iterator[dict[str, Any]]:
    """Regions put together: keypoints by their parent, and the parent's box."""
    objects: dict[str, dict[str, Any]] = {}
    for region in regions:
        value = region["value"]
        if region.get("image_rotation"):
            problems.append(f"{where}: a picture that was turned in Label Studio cannot be used; left out")
            return
        is_box = "keypointlabels" not in value and value.get("width") and value.get("height") and "x" in value
        labels: list[str] = value.get("keypointlabels") or []
        if not labels and not is_box:
            continue
        hw = (int(region["original_height"]), int(region["original_width"]))
        at = (float(value["x"]), float(value["y"]))
        key = str(region.get("id", "") if is_box else region.get("parentID") or "")
        one = objects.setdefault(key, {"points": {}, "box": None, "hw": hw})
        if not all(map(math.isfinite, at)):
            problems.append(f"{where}: {'a box' if is_box else labels[0]} is not a number; taken as not marked")
        elif is_box:
            one["box"] = _box(value, hw)
        elif labels[0] in one["points"]:
            problems.append(f"{where}: {labels[0]!r} is marked twice in one object; the first counts")
        else:
            score = float(region.get("score") or 0.0) if region.get("is_found") else math.nan
            one["points"][str(labels[0])] = (*from_shares(np.array(at) / 100.0, hw).tolist(), score)
    yield from (one for one in objects.values() if one["points"])


def _box(value: Region, hw: tuple[int, int]) -> Window:
    x, y, width, height = (float(value[key]) / 100.0 for key in ("x", "y", "width", "height"))
    return (x * hw[1], y * hw[0], (x + width) * hw[1], (y + height) * hw[0])


def _marked(picture: Path, one: dict[str, Any], names: tuple[str, ...]) -> MarkedImage:
    values = np.array([one["points"].get(name, (0.0, 0.0, math.nan)) for name in names], dtype=np.float64)
    return MarkedImage(
        path=picture,
        names=names,
        points=values[:, :2].copy(),
        marked=np.array([name in one["points"] for name in names]),
        box=one["box"],
        image_hw=one["hw"],
        scores=None if np.isnan(values[:, 2]).all() else np.nan_to_num(values[:, 2]),
    )


def _write_object(marked: MarkedImage, hw: tuple[int, int], key: str) -> Iterator[Region]:
    shared = {"original_width": hw[1], "original_height": hw[0], "image_rotation": 0, "to_name": TO_NAME}
    parent = {}
    if marked.box is not None:
        x1, y1, x2, y2 = marked.box
        sides = {"x": x1 / hw[1], "y": y1 / hw[0], "width": (x2 - x1) / hw[1], "height": (y2 - y1) / hw[0]}
        value: Region = {name: 100.0 * side for name, side in sides.items()}
        value |= {"rotation": 0, "rectanglelabels": ["object"]}
        yield {**shared, "id": f"box-{key}", "type": "rectanglelabels", "from_name": BOX_NAME, "value": value}
        parent = {"parentID": f"box-{key}"}
    for n in np.flatnonzero(marked.marked):
        x, y = (100.0 * to_shares(marked.points[n], hw)).tolist()
        value = {"x": x, "y": y, "width": 0.5, "keypointlabels": [marked.names[n]]}
        region: Region = {**shared, **parent, "id": f"point-{key}-{n}", "from_name": FROM_NAME}
        region["type"] = "keypointlabels"
        if marked.scores is not None:
            region["score"] = float(marked.scores[n])
        yield {**region, "value": value}
