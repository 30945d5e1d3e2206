"""Annotation files as JSON: what readers share. Anyone may have written one, so nothing in it is taken on trust."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from salvit.data.records import ReadReport

Key = int | str


def xywh_to_xyxy(box: Sequence[float] | None) -> tuple[float, ...] | None:
    """A box as COCO writes it, to corners; what is not four numbers gives an empty tuple, to be counted."""
    if box is None:
        return None
    try:
        x, y, width, height = (float(side) for side in box)
    except (ValueError, TypeError):
        return ()
    return (x, y, x + width, y + height)


def to_triples(values: Any, num: int) -> npt.NDArray[np.float64] | None:
    """Keypoints as [x, y, v, …] or [[x, y, v], …] to (num, 3); None if they are not that many numbers."""
    try:
        triples = np.array(values, dtype=np.float64)
    except (ValueError, TypeError):
        return None
    return triples.reshape(num, 3) if num > 0 and triples.size == 3 * num else None


def read_json(path: Path) -> Any:
    """Read a JSON file; a broken one is an error that says where."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist; expected the annotation file there") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise ValueError(f"{path} is not complete JSON ({problem}); download it again") from problem


def need_keys(values: Any, keys: Sequence[str], where: str) -> None:
    """Refuse an annotation that is not an object with these keys."""
    missing = [key for key in keys if not isinstance(values, dict) or key not in values]
    if missing:
        raise ValueError(f"{where}: expected an object with {', '.join(keys)}; {', '.join(missing)} missing")


def is_safe_name(name: Any) -> bool:
    """Whether a file name from an annotation stays inside the data set's folder."""
    return (
        isinstance(name, str) and name != "" and not PurePath(name).is_absolute() and ".." not in PurePath(name).parts
    )


def key_of(value: Any) -> Key:
    """An id as a dictionary key; what is neither a number nor text is spelt out, so that it matches nothing."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int | str) else repr(value)


def objects_of(values: Any, where: str, report: ReadReport) -> list[dict[str, Any]]:
    """The objects of a list; entries that are none are counted, and what is no list is an error."""
    if not isinstance(values, list):
        raise ValueError(f"{where}: expected a list, got {type(values).__name__}")
    for number, value in enumerate(values):
        if not isinstance(value, dict):
            report.add("entry that is not an object", f"{where}, entry {number}")
    return [value for value in values if isinstance(value, dict)]


def objects_by_id(values: Any, where: str, report: ReadReport) -> dict[Key, dict[str, Any]]:
    """The objects of a list by their ids; those without one are counted."""
    by_id: dict[Key, dict[str, Any]] = {}
    for number, value in enumerate(objects_of(values, where, report)):
        if "id" in value:
            by_id[key_of(value["id"])] = value
        else:
            report.add("entry without an id", f"{where}, entry {number}")
    return by_id


def names_of(category: Any, where: str) -> tuple[str, ...]:
    """The keypoint names of a category, each text and there once."""
    need_keys(category, ("keypoints",), where)
    names = category["keypoints"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{where}: expected a list of keypoint names, got {str(names)[:60]}")
    if len(set(names)) != len(names):
        raise ValueError(f"{where}: a keypoint is named twice")
    return tuple(names)


def check_names(names: tuple[str, ...], expected: tuple[str, ...], where: str) -> None:
    """Refuse other keypoints than a data set's own."""
    if names == expected:
        return
    unknown = [name for name in names if name not in expected]
    what = f"unknown: {', '.join(unknown)}" if unknown else "another number or order"
    raise ValueError(f"{where}: other keypoints than expected ({what}); expected {', '.join(expected)}")


def size_of(entry: dict[str, Any]) -> tuple[int, int] | None:
    """Height and width as an image's entry states them."""
    height, width = entry.get("height"), entry.get("width")
    if isinstance(height, int) and isinstance(width, int) and height > 0 and width > 0:
        return height, width
    return None
