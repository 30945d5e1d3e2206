"""DeepLabCut's marked frames: ``labeled-data/VIDEO/CollectedData_SCORER.csv`` and ``.h5``.

The header has the rows scorer, (individuals,) bodyparts, coords; a line is a picture's path inside the project, in
three columns (in files of old versions in one), and its coordinates, empty where nothing is marked. Pixel centres are
integers, as they are here.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from salvit.data.support import MarkedImage, Support
from salvit.formats.targets import by_picture, check_output, leads_out, partial_name, place_pictures, require

LEVELS = ("scorer", "individuals", "bodyparts", "coords")
KEY = "df_with_missing"
"""Under which DeepLabCut keeps its table in the .h5 file."""


@dataclass(frozen=True, slots=True)
class _Table:
    """What both kinds of file hold."""

    columns: tuple[tuple[str, str, str], ...]
    """(individual, body part, x or y) of each column; an individual is empty where the file has none."""
    rows: tuple[tuple[str, tuple[float, ...]], ...]
    """A picture's path inside the project, and its numbers."""


def read(path: Path) -> Support:
    """Read marked frames; each individual is an object of its own."""
    table = _read_csv(path) if path.suffix.lower() == ".csv" else _read_h5(path)
    names = tuple(dict.fromkeys(part for _, part, _ in table.columns))
    individuals = tuple(dict.fromkeys(individual for individual, _, _ in table.columns))
    problems: list[str] = []
    images = []
    for inside, values in table.rows:
        if leads_out(inside):
            problems.append(f"{path.name}: {inside} leads out of the project with '..'; left out")
            continue
        numbers = dict(zip(table.columns, values, strict=True))
        for individual in individuals:
            points = np.array([[numbers.get((individual, name, c), math.nan) for c in "xy"] for name in names])
            marked = np.isfinite(points).all(1)
            if marked.any():
                points = np.where(marked[:, None], points, 0.0)
                images.append(MarkedImage(_find(path, inside), names, points, marked))
    return Support(tuple(images), (), problems)


def write(support: Support, path: Path, *, overwrite: bool = False) -> list[str]:
    """Write the .csv and the .h5 that DeepLabCut reads, and put the pictures beside them, where it expects them.

    The scorer is what the file's name says (``CollectedData_SCORER.csv``). Individuals are written only where a picture
    has several objects.
    """
    pandas = require("pandas", "DeepLabCut files")
    require("tables", "DeepLabCut's .h5 files")
    for file in (path.with_suffix(".csv"), path.with_suffix(".h5")):
        check_output(file, overwrite)
    scorer = path.stem.removeprefix("CollectedData").lstrip("_") or "salvit"
    pictures = by_picture(support)
    placed, problems = place_pictures(pictures, path.parent, overwrite=overwrite)
    if not placed:
        raise ValueError(f"nothing can be written to {path}: {'; '.join(problems[:3]) or 'no picture was given'}")
    several = max((len(pictures[picture]) for picture in placed), default=1)
    individuals = [f"individual{number}" for number in range(1, several + 1)] if several > 1 else [""]
    columns = [(one, name, c) for one in individuals for name in support.names for c in ("x", "y")]
    rows = {
        ("labeled-data", path.parent.resolve().name, target.name): [
            value for marked in pictures[picture] for value in _values(marked, support.names)
        ]
        for picture, target in placed.items()
    }
    values = [row + [math.nan] * (len(columns) - len(row)) for row in rows.values()]
    labels = [(scorer, *((one,) if one else ()), name, c) for one, name, c in columns]
    levels = LEVELS if several > 1 else (LEVELS[0], *LEVELS[2:])
    frame = pandas.DataFrame(
        np.array(values, dtype=np.float64).reshape(-1, len(columns)),
        index=pandas.MultiIndex.from_tuples(list(rows), names=[None, None, None]),
        columns=pandas.MultiIndex.from_tuples(labels, names=list(levels)),
    ).sort_index()
    _save(frame, path)
    return problems


def _save(frame: Any, path: Path) -> None:
    table, store = path.with_suffix(".csv"), path.with_suffix(".h5")
    partial_table, partial_store = partial_name(table), partial_name(store)
    try:
        frame.to_csv(partial_table)
        frame.to_hdf(partial_store, key=KEY, mode="w")
        partial_table.replace(table)
        partial_store.replace(store)
    finally:
        partial_table.unlink(missing_ok=True)
        partial_store.unlink(missing_ok=True)


def _values(marked: MarkedImage, names: tuple[str, ...]) -> list[float]:
    at = {name: marked.points[n] for n, name in enumerate(marked.names) if marked.marked[n]}
    return [float(value) for name in names for value in at.get(name, (math.nan, math.nan))]


def _read_csv(path: Path) -> _Table:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [line for line in csv.reader(file) if any(line)]
    except (UnicodeDecodeError, csv.Error) as problem:
        raise ValueError(f"{path} is not a CSV file in UTF-8: {problem}") from problem
    header = {line[0].strip(): line for line in lines[:4] if line[0].strip() in LEVELS}
    if missing := [level for level in ("scorer", "bodyparts", "coords") if level not in header]:
        raise ValueError(f"{path} is not a DeepLabCut table: its header has no row {', '.join(missing)}")
    width = len(header["coords"])
    first = next((n for n, cell in enumerate(header["coords"]) if n and cell.strip()), width)
    columns = _columns(path, [[header[level][n] for level in LEVELS if level in header] for n in range(first, width)])
    rows = []
    for number, line in enumerate(lines[len(header) :], start=len(header) + 1):
        if len(line) != width:
            raise ValueError(f"{path}, line {number}: {len(line)} cells, expected {width} as in the header")
        rows.append(("/".join(line[:first]), tuple(_number(cell) for cell in line[first:])))
    return _Table(columns, tuple(rows))


def _read_h5(path: Path) -> _Table:
    pandas = require("pandas", "DeepLabCut's .h5 files")
    require("tables", "DeepLabCut's .h5 files")
    try:
        frame = pandas.read_hdf(path)
    except Exception as problem:  # tables and h5py have many kinds of errors for a broken file
        raise ValueError(f"{path} is not an .h5 file that DeepLabCut wrote: {problem}") from problem
    levels = list(getattr(frame, "columns", pandas.Index([])).names)
    if missing := [level for level in ("scorer", "bodyparts", "coords") if level not in levels]:
        raise ValueError(f"{path} is not a DeepLabCut table: its header has no row {', '.join(missing)}")
    shown = [levels.index(level) for level in LEVELS if level in levels]
    columns = _columns(path, [[str(column[n]) for n in shown] for column in frame.columns])
    rows = tuple(
        ("/".join(map(str, at)) if isinstance(at, tuple) else str(at), tuple(map(float, values)))
        for at, values in zip(frame.index, frame.to_numpy(dtype=np.float64), strict=True)
    )
    return _Table(columns, rows)


def _columns(path: Path, header: list[list[str]]) -> tuple[tuple[str, str, str], ...]:
    columns = tuple(
        (cells[1].strip() if len(cells) == 4 else "", cells[-2].strip(), cells[-1].strip()) for cells in header
    )
    wanted = {(one, name) for one, name, _ in columns}
    lacking = sorted(name for one, name in wanted if not {(one, name, "x"), (one, name, "y")} <= set(columns))
    if not columns or lacking:
        raise ValueError(f"{path}: no columns x and y for {', '.join(lacking) or 'any body part'}")
    return columns


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _find(path: Path, inside: str) -> Path:
    """A picture of a project: beside the table, as DeepLabCut keeps it, or below the folder that the table lies in."""
    parts = inside.replace("\\", "/").split("/")
    return next((place for place in _places(path, parts) if place.is_file()), path.parent / parts[-1])


def _places(path: Path, parts: Sequence[str]) -> Iterator[Path]:
    yield path.parent / parts[-1]
    yield path.parent.joinpath(*parts)
    yield path.parent.parent.parent.joinpath(*parts)
