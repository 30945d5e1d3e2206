"""Ultralytics pose data: ``data.yaml``, and beside each ``images/…/NAME.jpg`` a ``labels/…/NAME.txt``.

A line of a label is an object: class, box centre x and y, width, height, then x, y (and visibility) of each keypoint,
all as shares of the picture, 0 at its left and upper edge and 1 at the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from salvit.data.images import SUFFIXES, image_hw
from salvit.data.support import MarkedImage, Support
from salvit.formats.targets import by_picture, place_pictures, require, size_of, write_text
from salvit.geometry import Window, clip_window, from_shares, grow_window, to_shares, whole_window

HULL_MARGIN = 0.1
"""An object without a box gets the hull of its points, widened on each side by this share of its longer side."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """What data.yaml says."""

    names: tuple[str, ...]
    dims: int
    """Numbers for each keypoint: 2, or 3 with visibility."""
    pairs: tuple[tuple[str, str], ...]


def read(path: Path) -> Support:
    """Read all pictures that data.yaml names and their labels; what cannot be used is left out and named."""
    content = _yaml(path)
    layout = _layout(content, path)
    problems: list[str] = []
    images: list[MarkedImage] = []
    for picture in _pictures(content, path, problems):
        label = _label_of(picture)
        if label is None or not label.is_file():
            continue  # a picture without a label is one without objects
        try:
            hw = image_hw(picture)
            lines = label.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as problem:
            problems.append(f"{problem}; left out")
            continue
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                images.append(_marked(line, layout, picture, hw))
            except ValueError as problem:
                problems.append(f"{label.name}, line {number}: {problem}; left out")
    return Support(tuple(images), (), problems, layout.pairs)


def write(support: Support, path: Path, *, overwrite: bool = False) -> list[str]:
    """Write data.yaml, ``labels/train`` and copies of the pictures in ``images/train``: Ultralytics trains on it.

    An object without a box gets the hull of its points plus 10 %. Without left/right pairs ``flip_idx`` is left out,
    and Ultralytics then mirrors no pictures.
    """
    yaml = require("yaml", "Ultralytics files")
    names, folder = support.names, path.parent
    pictures = by_picture(support)
    placed, problems = place_pictures(pictures, folder / "images" / "train", overwrite=overwrite)
    (folder / "labels" / "train").mkdir(parents=True, exist_ok=True)
    for picture, target in placed.items():
        label = folder / "labels" / "train" / f"{target.stem}.txt"
        if label.exists() and not overwrite:
            problems.append(f"{label} exists; left out (--overwrite replaces it)")
            continue
        try:
            hw = size_of(pictures[picture][0])
            lines = [_line(marked, names, hw) for marked in pictures[picture] if marked.marked.any()]
        except (OSError, ValueError) as problem:
            problems.append(f"{problem}; left out")
            continue
        write_text(label, "".join(f"{line}\n" for line in lines))
    content: dict[str, Any] = {"train": "images/train", "val": "images/train", "names": {0: "object"}}
    content |= {"kpt_shape": [len(names), 3], "kpt_names": {0: list(names)}}
    if support.pairs:
        content["flip_idx"] = _flip_idx(names, support.pairs)
    note = "# Written by salvit. No pictures were set apart: give `val` some of its own before you trust its figures.\n"
    write_text(path, note + yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    return problems


def _yaml(path: Path) -> dict[str, Any]:
    yaml = require("yaml", "Ultralytics files")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise ValueError(f"{path} is not valid YAML: {problem}") from problem
    if not isinstance(content, dict) or "kpt_shape" not in content:
        raise ValueError(f"{path} is not a data.yaml of Ultralytics pose: it needs 'kpt_shape', [keypoints, 2 or 3]")
    return content


def _layout(content: dict[str, Any], path: Path) -> _Layout:
    shape = content["kpt_shape"]
    if not (isinstance(shape, list) and len(shape) == 2 and isinstance(shape[0], int) and shape[1] in (2, 3)):
        raise ValueError(f"{path}: kpt_shape is {shape!r}; expected [keypoints, 2 or 3]")
    stated = content.get("kpt_names") or content.get("keypoint_names") or ()
    if isinstance(stated, dict):
        stated = next(iter(stated.values()), ())
    names = tuple(str(name) for name in stated) or tuple(f"keypoint_{n}" for n in range(shape[0]))
    if len(names) != shape[0] or len(set(names)) != len(names):
        raise ValueError(f"{path}: {shape[0]} keypoints are named {', '.join(names)}; expected as many, no two alike")
    flip = content.get("flip_idx") or []
    pairs = [(names[n], names[m]) for n, m in enumerate(flip) if isinstance(m, int) and n < m < len(names)]
    return _Layout(names, shape[1], tuple(pairs))


def _pictures(content: dict[str, Any], path: Path, problems: list[str]) -> Iterator[Path]:
    """The pictures of train, val and test, each once: folders, lists of folders, or text files of paths."""
    root = path.parent / str(content.get("path") or "")
    seen: set[Path] = set()
    for part in ("train", "val", "test"):
        places = content.get(part) or []
        for place in places if isinstance(places, list) else [places]:
            # A `path` of another machine leads nowhere; the parts then lie beside data.yaml.
            found = next((spot for spot in (root / str(place), path.parent / str(place)) if spot.exists()), None)
            if found is None:
                problems.append(f"{path.name}: {part} is {place}, and there is no such folder or file; left out")
                continue
            inside = found.rglob("*") if found.is_dir() else _listed(found)
            for picture in sorted(file for file in inside if file.suffix.lower() in SUFFIXES):
                if picture.resolve() not in seen:
                    seen.add(picture.resolve())
                    yield picture


def _listed(path: Path) -> Iterator[Path]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield path.parent / line.strip()


def _label_of(picture: Path) -> Path | None:
    """The label of a picture: the last folder ``images`` of its path becomes ``labels``."""
    parts = list(picture.parts)
    if "images" not in parts[:-1]:
        return None
    at = len(parts) - 1 - parts[::-1].index("images")
    return Path(*parts[:at], "labels", *parts[at + 1 :]).with_suffix(".txt")


def _marked(line: str, layout: _Layout, picture: Path, hw: tuple[int, int]) -> MarkedImage:
    count, dims = len(layout.names), layout.dims
    try:
        values = np.array([float(cell) for cell in line.split()])
    except ValueError:
        raise ValueError("a cell is not a number") from None
    if len(values) != 5 + count * dims:
        raise ValueError(f"{len(values)} numbers, expected 5 + {count} × {dims}")
    if not np.isfinite(values[1:5]).all():
        raise ValueError("the box is not of numbers")
    keypoints = values[5:].reshape(count, dims)
    marked = keypoints[:, 2] > 0 if dims == 3 else (keypoints[:, :2] != 0).any(1)
    marked &= np.isfinite(keypoints[:, :2]).all(1)
    points = np.where(marked[:, None], from_shares(keypoints[:, :2], hw), 0.0)
    centre, size = values[1:3] * (hw[1], hw[0]), values[3:5] * (hw[1], hw[0])
    (x1, y1), (x2, y2) = (centre - size / 2).tolist(), (centre + size / 2).tolist()
    box: Window | None = (x1, y1, x2, y2) if x1 < x2 and y1 < y2 else None
    return MarkedImage(picture, layout.names, points, marked, box, hw)


def _line(marked: MarkedImage, names: tuple[str, ...], hw: tuple[int, int]) -> str:
    at = {name: to_shares(marked.points[n], hw) for n, name in enumerate(marked.names) if marked.marked[n]}
    x1, y1, x2, y2 = clip_window(marked.box, hw) if marked.box else _hull(marked, hw)
    width, height = hw[1], hw[0]
    cells = [(x1 + x2) / 2 / width, (y1 + y2) / 2 / height, (x2 - x1) / width, (y2 - y1) / height]
    words = ["0", *(f"{cell:.9g}" for cell in cells)]
    for name in names:
        words += [f"{at[name][0]:.9g}", f"{at[name][1]:.9g}", "2"] if name in at else ["0", "0", "0"]
    return " ".join(words)


def _hull(marked: MarkedImage, hw: tuple[int, int]) -> Window:
    points = marked.points[marked.marked]
    (x1, y1), (x2, y2) = points.min(0).tolist(), (points.max(0) + 1.0).tolist()
    try:
        return clip_window(grow_window((x1, y1, x2, y2), HULL_MARGIN), hw)
    except ValueError:  # all points lie outside
        return whole_window(hw)


def _flip_idx(names: tuple[str, ...], pairs: tuple[tuple[str, str], ...]) -> list[int]:
    order = list(range(len(names)))
    for left, right in pairs:
        if left in names and right in names:
            first, second = names.index(left), names.index(right)
            order[first], order[second] = second, first
    return order
