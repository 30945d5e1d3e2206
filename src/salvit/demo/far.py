"""Pictures far from home, of other installed packages, with keypoints that we marked by hand (``far.toml``)."""

from __future__ import annotations

import importlib.util
import json
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFont

from salvit.config import from_mapping
from salvit.data.images import read_image
from salvit.geometry import MEAN_COLOUR, Affine, Window, affine_turn, clip_window, grow_window
from salvit.types import FloatArray

MARGIN = 0.1
"""An object's box is the hull of its keypoints, widened on each side by this share of its longer side."""
DEGREES, SHRINK, BRIGHTNESS = 25.0, 0.75, 0.7
"""How the query is made of the support where a kind has one picture only."""
_CELL = (480, 420)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One marked picture of another package."""

    source: str
    """``PACKAGE:FILE``, or ``folder:FILE``."""
    credit: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What to find: one marked picture, and one to look in."""

    name: str
    names: tuple[str, ...]
    support: Picture
    query: Picture | None = None

    def __post_init__(self) -> None:
        for picture in (self.support, self.query):
            if picture is not None and len(picture.points) != len(self.names):
                raise ValueError(f"{self.name}: {len(self.names)} names, but {len(picture.points)} points")


@dataclass(frozen=True, kw_only=True)
class _Kinds:
    kind: tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """A kind as files: a support file, a query, and where its points really are."""

    kind: Kind
    support: Path
    query: Path
    truth: FloatArray
    """(N, 2) in pixels of the query."""
    box: Window
    """Of the query."""


def read_kinds() -> tuple[Kind, ...]:
    """All kinds, whether their pictures are here or not."""
    return from_mapping(_Kinds, tomllib.loads(Path(__file__).with_name("far.toml").read_text(encoding="utf-8"))).kind


def write_tasks(folder: Path, pictures: Path | None = None) -> tuple[list[Task], list[str]]:
    """Write the support file and both pictures of each kind; gives also a sentence for each kind that is not here.

    Args:
        folder: Where to.
        pictures: Folder of the pictures that belong to no package.
    """
    tasks, missing = [], []
    for kind in read_kinds():
        sources = [picture.source for picture in (kind.support, kind.query) if picture is not None]
        absent = [source for source in sources if find_picture(source, pictures) is None]
        if absent:
            missing.append(
                f"{kind.name} is left out: {absent[0].partition(':')[2]} is not here ({kind.support.credit})"
            )
            continue
        folder.mkdir(parents=True, exist_ok=True)
        tasks.append(_write_task(kind, folder, pictures))
    return tasks, missing


def find_picture(source: str, pictures: Path | None = None) -> Path | None:
    """The file of a source, or None where its package or file is not here."""
    package, _, file = source.partition(":")
    if package == "folder":
        home = pictures
    else:
        found = importlib.util.find_spec(package)
        home = Path(found.origin).parent if found is not None and found.origin else None
    return home / file if home is not None and (home / file).is_file() else None


def _write_task(kind: Kind, folder: Path, pictures: Path | None) -> Task:
    support = _open(kind.support, pictures)
    support.save(folder / f"{kind.name}-support.png")
    marks = np.array(kind.support.points)
    if kind.query is None:
        query, truth = turned(support, marks)
    else:
        query, truth = _open(kind.query, pictures), np.array(kind.query.points)
    query.save(folder / f"{kind.name}-query.png")
    for part, image, points in (("support", support, marks), ("query", query, truth)):
        values = _to_coco(kind, f"{kind.name}-{part}.png", image, points)
        (folder / f"{kind.name}-{part}.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    files = (folder / f"{kind.name}-support.json", folder / f"{kind.name}-query.png")
    return Task(kind, *files, truth, _box(truth, query))


def turned(image: Image.Image, points: FloatArray) -> tuple[Image.Image, FloatArray]:
    """The same picture turned, smaller and darker, with its points (N, 2)."""
    side = math.ceil(math.hypot(*image.size))
    centred = Affine((1.0, 0.0, (side - image.width) / 2, 0.0, 1.0, (side - image.height) / 2))
    size = round(side * SHRINK)
    change = centred.then(affine_turn(DEGREES, (side, side)))
    change = change.then(Affine((size / side, 0.0, 0.0, 0.0, size / side, 0.0)))
    moved = image.transform(
        (size, size),
        Image.Transform.AFFINE,
        change.inverse().values,
        Image.Resampling.BICUBIC,
        fillcolor=MEAN_COLOUR,
    )
    return ImageEnhance.Brightness(moved).enhance(BRIGHTNESS), change.apply(points)


def draw_far_sheet(pictures: Sequence[tuple[str, Path]], path: Path, columns: int = 3) -> Path:
    """Pictures of any size on one sheet, each under its title."""
    width, height = _CELL
    rows = -(-len(pictures) // columns)
    sheet = Image.new("RGB", (width * columns, height * rows), (255, 255, 255))
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=18)
    for number, (title, file) in enumerate(pictures):
        left, top = number % columns * width, number // columns * height
        image = read_image(file)
        image.thumbnail((width - 12, height - 36), Image.Resampling.LANCZOS)
        pen.text((left + 8, top + 4), title, (20, 20, 20), font)
        sheet.paste(image, (left + (width - image.width) // 2, top + 30))
    sheet.save(path, quality=88)
    return path


def _open(picture: Picture, pictures: Path | None) -> Image.Image:
    path = find_picture(picture.source, pictures)
    assert path is not None
    return read_image(path)


def _box(points: FloatArray, image: Image.Image) -> Window:
    (x1, y1), (x2, y2) = points.min(0), points.max(0) + 1.0
    hull = (float(x1), float(y1), float(x2), float(y2))
    return clip_window(grow_window(hull, MARGIN), (image.height, image.width))


def _to_coco(kind: Kind, file: str, image: Image.Image, points: FloatArray) -> dict[str, object]:
    x1, y1, x2, y2 = _box(points, image)
    marks = [value for x, y in points.tolist() for value in (round(x, 2), round(y, 2), 2)]
    annotation = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [x1, y1, x2 - x1, y2 - y1], "keypoints": marks}
    return {
        "images": [{"id": 1, "file_name": file, "width": image.width, "height": image.height}],
        "annotations": [annotation | {"num_keypoints": len(points)}],
        "categories": [{"id": 1, "name": kind.name, "keypoints": list(kind.names), "skeleton": []}],
    }
