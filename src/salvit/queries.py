"""Where to look: image files, and boxes of objects in them."""

from __future__ import annotations

import csv
import glob
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from salvit.data.images import SUFFIXES, VIDEO_SUFFIXES
from salvit.formats import coco, guess_format, read
from salvit.geometry import Window
from salvit.types import Failure

SIDES = ("x1", "y1", "x2", "y2")


@dataclass(frozen=True, slots=True)
class Query:
    """One object to look for: a picture, and where in it."""

    path: Path
    box: Window | None = None
    """xyxy in edge coordinates; None: wherever the caller says, or the whole picture."""
    index: int = 0
    """Which object of its picture."""


def find_images(queries: Sequence[str]) -> tuple[list[Path], list[Failure]]:
    """Turn files, folders (searched to any depth) and glob patterns into image files, each once, in a fixed order."""
    found: dict[Path, None] = {}
    failures: list[Failure] = []
    for query in queries:
        path = Path(query)
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
            if not inside:
                failures.append(
                    Failure(path, f"{path}: the folder holds no image; expected {', '.join(SUFFIXES[:6])} …")
                )
            found.update(dict.fromkeys(inside))
        elif path.is_file():
            found[path] = None
        else:
            matches = [Path(name) for name in sorted(glob.glob(query, recursive=True))]
            files = [file for file in matches if file.suffix.lower() in SUFFIXES + VIDEO_SUFFIXES and file.is_file()]
            if not files:
                failures.append(Failure(path, f"{query}: no such file or folder, and no image fits it as a pattern"))
            found.update(dict.fromkeys(files))
    return list(found), failures


def find_queries(queries: Sequence[str], boxes: Path | None = None) -> tuple[list[Query], list[Failure]]:
    """Pictures and boxes to look in.

    Args:
        queries: Files, folders, patterns; a file of boxes (.json, .csv, .yaml …) among them stands for its pictures.
        boxes: A file of boxes. Pictures of ``queries`` take their boxes from it, and are searched whole where it has
            none; without ``queries`` all its pictures are searched.
    """
    files = [query for query in queries if _is_box_file(Path(query))]
    paths, failures = find_images([query for query in queries if query not in files])
    stated: dict[Path, list[Query]] = {}
    for file in [*map(Path, files), *([boxes] if boxes else [])]:
        found, problems = read_boxes(file)
        failures += problems
        for query in found:
            stated.setdefault(query.path.resolve(), []).append(query)
        if file != boxes or not queries:
            paths += list(dict.fromkeys(query.path for query in found))
    wanted = {path.resolve(): path for path in reversed(paths)}
    return [
        Query(path, query.box, index)
        for place, path in reversed(wanted.items())
        for index, query in enumerate(stated.get(place, [Query(path)]))
    ], failures


def read_boxes(path: Path) -> tuple[list[Query], list[Failure]]:
    """Boxes of a file: a CSV ``image,x1,y1,x2,y2``, or any format of marked pictures that keeps boxes."""
    if not path.is_file():
        raise FileNotFoundError(f"the file of boxes {path} does not exist; expected image,x1,y1,x2,y2 or COCO")
    if path.suffix.lower() == ".csv":
        return _read_csv(path)
    if guess_format(path) == "coco":
        boxes, problems = coco.read_boxes(path)
    else:
        support = read(path)
        boxes = [(marked.path, marked.box) for marked in support.images if marked.box is not None]
        problems = support.problems
    failures = [Failure(path, problem) for problem in problems]
    found = [Query(picture, box) for picture, box in boxes]
    if not found:
        raise ValueError(f"{path} holds no box; expected `bbox` in its annotations, or a CSV image,x1,y1,x2,y2")
    return found, failures


def _read_csv(path: Path) -> tuple[list[Query], list[Failure]]:
    found: list[Query] = []
    failures: list[Failure] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            if missing := [name for name in ("image", *SIDES) if name not in (reader.fieldnames or ())]:
                raise ValueError(f"{path}: the first line must be image,x1,y1,x2,y2; missing: {', '.join(missing)}")
            for row in reader:
                where = f"{path.name}, line {reader.line_num}"
                try:
                    x1, y1, x2, y2 = (float(row[side] or "nan") for side in SIDES)
                except ValueError:
                    x1 = y1 = x2 = y2 = math.nan
                if not row["image"] or not (x1 < x2 and y1 < y2 and all(map(math.isfinite, (x1, y1, x2, y2)))):
                    failures.append(Failure(path, f"{where}: expected a picture and x1 < x2, y1 < y2; left out"))
                    continue
                found.append(Query(path.parent / row["image"].strip(), (x1, y1, x2, y2)))
    except (UnicodeDecodeError, csv.Error) as problem:
        raise ValueError(f"{path} is not a CSV file in UTF-8: {problem}") from problem
    return found, failures


def _is_box_file(path: Path) -> bool:
    return path.suffix.lower() in (".json", ".csv", ".yaml", ".yml") and path.is_file()
