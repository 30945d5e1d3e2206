"""The text files that CUB-200-2011 and NABirds share: one image per line, fields divided by spaces.

Both come with either line end, and part names are written with a space or with an underscore.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from salvit.data.annotation_files import is_safe_name
from salvit.data.records import DataSet, RecordBuilder


def read_bird_files(root: Path, name: str, parts: tuple[str, ...], *, keep_missing: bool) -> DataSet:
    """Read images.txt, image_class_labels.txt, classes.txt, bounding_boxes.txt and parts/ under ``root``."""
    files = read_pairs(root / "images.txt")
    labels = read_pairs(root / "image_class_labels.txt")
    classes = read_pairs(root / "classes.txt")
    boxes = read_pairs(root / "bounding_boxes.txt")
    order = _part_order(root / "parts" / "parts.txt", parts)
    builder = RecordBuilder(parts, keep_missing)
    locations = _read_locations(root / "parts" / "part_locs.txt", order, builder, set(files))
    for image_id, file in files.items():
        species = classes.get(labels.get(image_id, ""))
        if species is None:
            builder.report.add("image without a known class", image_id)
            continue
        if image_id not in locations:
            builder.report.add("image without part locations", image_id)
            continue
        if not is_safe_name(file):
            builder.report.add("file name leaves the folder", file)
            continue
        builder.add(
            file=file,
            path=root / "images" / file,
            species=" ".join(species.split()),  # NABirds writes a few names with two spaces
            points=locations[image_id][:, :2],
            v=np.where(locations[image_id][:, 2] > 0, 2, 0),
            box=_read_box(boxes.get(image_id), builder, image_id),
        )
    return builder.finish(name, root, len(files))


def read_pairs(path: Path) -> dict[str, str]:
    """A file of ``key rest of the line``; the rest may hold spaces. Empty lines are passed over."""
    if not path.is_file():
        raise ValueError(f"{path} does not exist; expected it among the annotation files")
    pairs: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        if not line.strip():
            continue
        key, _, rest = line.strip().partition(" ")
        if not rest:
            raise ValueError(f"{path}, line {number}: expected an id, a space and a value, got {line.strip()!r}")
        if key in pairs:
            raise ValueError(f"{path}, line {number}: the id {key} is there twice")
        pairs[key] = rest.strip()
    return pairs


def _part_order(path: Path, parts: tuple[str, ...]) -> dict[str, int]:
    """Part id in the files → index in our order of names."""
    order: dict[str, int] = {}
    for part_id, written in read_pairs(path).items():
        name = written.replace(" ", "_").replace("-", "_").lower()
        if name not in parts:
            raise ValueError(f"{path}: unknown part {written!r}; expected {', '.join(parts)}")
        order[part_id] = parts.index(name)
    if sorted(order.values()) != list(range(len(parts))):
        missing = [part for index, part in enumerate(parts) if index not in order.values()]
        raise ValueError(f"{path}: expected each of {len(parts)} parts once; missing: {', '.join(missing) or 'none'}")
    return order


def _read_locations(
    path: Path, order: dict[str, int], builder: RecordBuilder, known: set[str]
) -> dict[str, np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    """Image id → (N, 3) x, y, visible; a part without a line is not visible."""
    if not path.is_file():
        raise ValueError(f"{path} does not exist; expected the part locations there")
    locations: dict[str, np.ndarray[tuple[int, int], np.dtype[np.float64]]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        fields = line.split()
        if not fields:
            continue
        try:
            image_id, part_id, x, y, visible = fields
            index, values = order[part_id], (float(x), float(y), float(visible))
        except (ValueError, KeyError):
            builder.report.add("part location that cannot be read", f"line {number}: {line.strip()!r}")
            continue
        if image_id not in known:
            builder.report.add("image id without an image", f"line {number}: {image_id}")
            continue
        if image_id not in locations:
            locations[image_id] = np.zeros((len(order), 3))
        locations[image_id][index] = values
    return locations


def _read_box(text: str | None, builder: RecordBuilder, image_id: str) -> tuple[float, ...] | None:
    """``x y w h`` → xyxy."""
    if text is None:
        return None
    try:
        x, y, width, height = (float(value) for value in text.split())
    except ValueError:
        builder.report.add("box that cannot be read", f"{image_id}: {text!r}")
        return None
    return (x, y, x + width, y + height)
