"""Contact sheets: keypoints, augmented views, episodes and occlusions, to be looked at.

Left keypoints are red, right ones blue, others green; auxiliary ones are small and yellow; the box is white. Left is
the animal's own: in a mirrored picture red must still be on its left side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from PIL import Image, ImageDraw

from salvit.data.augment import AugmentSettings, View, draw_view
from salvit.data.crops import inner_window
from salvit.data.episodes import Episode
from salvit.data.images import image_hw as read_image_hw
from salvit.data.loading import LoadSettings, load_episode
from salvit.data.occlude import OCCLUDERS, Occluder, Occlusion, sample_blocks
from salvit.data.splits import Pairs
from salvit.data.views import LoadedView, load_view
from salvit.geometry import whole_window
from salvit.types import BoolArray, FloatArray, Record

TILE = 256
GAP = 4
COLOURS = {"left": (235, 50, 50), "right": (60, 110, 255), "": (40, 200, 80)}


def keypoint_sheet(records: Sequence[Record], skeleton: Pairs = ()) -> Image.Image:
    """Whole images with boxes and all keypoints, four in a row."""
    tiles = []
    for record in records:
        loaded = load_view(View(record, whole_window(_hw(record))), TILE, record.names)
        tiles.append(_draw(loaded, record.names, record.species, skeleton))
    return _join([tiles[start : start + 4] for start in range(0, len(tiles), 4)])


def augment_sheet(records: Sequence[Record], pairs: Pairs, seed: int) -> Image.Image:
    """A row for each record: unchanged, then seven augmented views; the third is always mirrored."""
    rng = np.random.default_rng(seed)
    rows = []
    for record in records:
        plain = View(record, whole_window(_hw(record)))
        row = [_draw(load_view(plain, TILE, record.names), record.names, "unchanged")]
        for number in range(7):
            settings = AugmentSettings(turn=0.7, colour=0.3 * (number % 2), flip=1.0 if number == 1 else 0.5)
            view = draw_view(record, _hw(record), "gt-random", rng, settings, can_flip=bool(pairs))
            assert view.change is not None
            title = f"{'mirrored ' if view.change.is_flipped else ''}{view.change.degrees:+.0f}°"
            row.append(_draw(load_view(view, TILE, record.names, pairs=pairs), record.names, title))
        rows.append(row)
    return _join(rows)


def episode_sheet(episodes: Sequence[Episode]) -> Image.Image:
    """A row for each episode: supports first, then queries, with auxiliary keypoints."""
    rows = []
    for episode in episodes:
        loaded = load_episode(episode, LoadSettings(size=TILE))
        row = []
        for role, images in (("support", loaded.support), ("query", loaded.query)):
            for number in range(len(images.ids)):
                tile = Image.fromarray(images.pixels[number])
                _draw_points(tile, images.auxiliary_points[number], images.auxiliary_visible[number], radius=2)
                _draw_points(tile, images.points[number], images.visible[number], names=episode.names)
                _write(tile, f"{role} {episode.kind} {episode.species}")
                row.append(tile)
        rows.append(row)
    return _join(rows)


def occlusion_sheet(records: Sequence[Record], probability: float, seed: int) -> Image.Image:
    """A row for each record: unchanged, then the three ways to hide its keypoints."""
    rows = []
    for number, record in enumerate(records):
        view = View(record, inner_window(record, _hw(record), "gt-tight"))
        rng = np.random.default_rng([seed, number])
        box = inner_window(record, _hw(record), "gt-tight")
        boxes = sample_blocks(record.points, record.visible, box, _hw(record), rng).chosen(probability)
        row = [_draw(load_view(view, TILE, record.names), record.names, "unchanged")]
        for name in OCCLUDERS:
            occluder: Occluder = name  # type: ignore[assignment]
            loaded = load_view(view, TILE, record.names, occlusion=Occlusion(occluder, boxes, seed))
            row.append(_draw(replace(loaded, visible=np.zeros_like(loaded.visible)), record.names, name))
        rows.append(row)
    return _join(rows)


def _hw(record: Record) -> tuple[int, int]:
    return record.image_hw or read_image_hw(record.path)


def _draw(loaded: LoadedView, names: tuple[str, ...], title: str, skeleton: Pairs = ()) -> Image.Image:
    tile = Image.fromarray(loaded.pixels)
    canvas = ImageDraw.Draw(tile)
    x1, y1, x2, y2 = loaded.box_input
    canvas.rectangle((x1 - 0.5, y1 - 0.5, x2 - 0.5, y2 - 0.5), outline=(255, 255, 255))
    place = {name: index for index, name in enumerate(names)}
    for first, last in skeleton:
        if first in place and last in place and loaded.visible[place[first]] and loaded.visible[place[last]]:
            ends = loaded.points_input[[place[first], place[last]]]
            canvas.line([tuple(end) for end in ends], fill=(220, 220, 220), width=1)
    _draw_points(tile, loaded.points_input, loaded.visible, names=names)
    _write(tile, title)
    return tile


def _draw_points(
    tile: Image.Image, points: FloatArray, visible: BoolArray, *, names: tuple[str, ...] | None = None, radius: int = 3
) -> None:
    canvas = ImageDraw.Draw(tile)
    for index in np.flatnonzero(visible):
        x, y = points[index]
        side = "" if names is None else next((side for side in ("left", "right") if side in names[index]), "")
        fill = (255, 220, 0) if names is None else COLOURS[side]
        canvas.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill, outline=(0, 0, 0))


def _write(tile: Image.Image, title: str) -> None:
    canvas = ImageDraw.Draw(tile)
    canvas.rectangle(canvas.textbbox((2, 1), title), fill=(0, 0, 0))
    canvas.text((2, 1), title, fill=(255, 255, 255))


def _join(rows: Sequence[Sequence[Image.Image]]) -> Image.Image:
    """Tiles in rows on one sheet."""
    if not rows:
        raise ValueError("there is nothing to show")
    step = TILE + GAP
    sheet = Image.new("RGB", (max(len(row) for row in rows) * step - GAP, len(rows) * step - GAP), (255, 255, 255))
    for top, row in enumerate(rows):
        for left, tile in enumerate(row):
            sheet.paste(tile, (left * step, top * step))
    return sheet
