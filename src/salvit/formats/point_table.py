"""CSV with a line for each mark: ``image,keypoint,x,y``, and where wanted ``object`` and ``score``."""

from __future__ import annotations

import csv
import io
import math
import os
from pathlib import Path

import numpy as np

from salvit.data.support import MarkedImage, Support
from salvit.formats.targets import by_picture, write_text

COLUMNS = ("image", "keypoint", "x", "y")
Marks = dict[str, tuple[float, float, float]]
"""Keypoint name → x, y, score (NaN where a person marked it)."""


def read(path: Path) -> Support:
    """Read marked pictures; a line that cannot be used is left out and named.

    The column ``object`` tells several objects of one picture apart.
    """
    problems: list[str] = []
    objects: dict[tuple[str, str], Marks] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            if missing := [column for column in COLUMNS if column not in (reader.fieldnames or ())]:
                raise ValueError(f"{path}: the first line must be image,keypoint,x,y; missing: {', '.join(missing)}")
            for row in reader:
                _take(row, f"{path.name}, line {reader.line_num}", objects, problems)
    except (UnicodeDecodeError, csv.Error) as problem:
        raise ValueError(f"{path} is not a CSV file in UTF-8: {problem}") from problem
    names = tuple(dict.fromkeys(name for marks in objects.values() for name in marks))
    images = (_marked(path.parent / image, names, marks) for (image, _), marks in objects.items() if marks)
    return Support(tuple(images), (), problems)


def write(support: Support, path: Path) -> list[str]:
    """Write a line for each mark; ``object`` and ``score`` are there only where they say something."""
    pictures = by_picture(support)
    several = any(len(objects) > 1 for objects in pictures.values())
    scored = any(marked.scores is not None for marked in support.images)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*COLUMNS, *(["object"] if several else []), *(["score"] if scored else [])])
    for picture, objects in pictures.items():
        name = Path(os.path.relpath(picture, path.parent)).as_posix()
        for number, marked in enumerate(objects):
            for n in np.flatnonzero(marked.marked):
                row: list[object] = [name, marked.names[n], *(repr(float(value)) for value in marked.points[n])]
                row += [number] if several else []
                row += ["" if marked.scores is None else repr(float(marked.scores[n]))] if scored else []
                table.writerow(row)
    write_text(path, text.getvalue())
    return []


def _take(row: dict[str, str | None], where: str, objects: dict[tuple[str, str], Marks], problems: list[str]) -> None:
    image, name = (row["image"] or "").strip(), (row["keypoint"] or "").strip()
    if not image or not name:
        problems.append(f"{where}: no image or no keypoint name; left out")
        return
    point = (_number(row["x"]), _number(row["y"]))
    if not (math.isfinite(point[0]) and math.isfinite(point[1])):
        problems.append(f"{where}: {name} at ({row['x']}, {row['y']}) is not a number; taken as not marked")
        return
    marks = objects.setdefault((image, (row.get("object") or "").strip()), {})
    if name in marks:
        raise ValueError(
            f"{where}: {name!r} is marked twice in {image}; keep one of the two lines, or tell two objects apart in a "
            "column 'object'"
        )
    marks[name] = (*point, _number(row.get("score")))


def _marked(image: Path, names: tuple[str, ...], marks: Marks) -> MarkedImage:
    values = np.array([marks.get(name, (0.0, 0.0, math.nan)) for name in names], dtype=np.float64).reshape(-1, 3)
    scores = values[:, 2]
    return MarkedImage(
        path=image,
        names=names,
        points=values[:, :2].copy(),
        marked=np.array([name in marks for name in names], dtype=bool),
        scores=None if np.isnan(scores).all() else np.nan_to_num(scores),
    )


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan
