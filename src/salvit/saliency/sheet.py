"""Draws a contact sheet: a row for each picture, a column for each provider."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from salvit.saliency.provider import Map, Picture

_CELL = (180, 135)
_HEADER = 18


def draw_sheet(rows: Sequence[tuple[Picture, Sequence[Map]]], titles: Sequence[str]) -> Image.Image:
    """A sheet of pictures and their maps, each fitted into a cell.

    Args:
        rows: A picture and its maps, in the order of the titles.
        titles: One for the picture and one for each map.
    """
    if not rows or any(len(maps) + 1 != len(titles) for _, maps in rows):
        raise ValueError("expected at least one row, and a title for the picture and for each map")
    width, height = _CELL
    sheet = Image.new("RGB", (width * len(titles), _HEADER + height * len(rows)), "white")
    draw = ImageDraw.Draw(sheet)
    for column, title in enumerate(titles):
        draw.text((column * width + 4, 3), title, fill="black")
    for row, (picture, maps) in enumerate(rows):
        cells = [Image.fromarray(picture), *(Image.fromarray((plain * 255).astype(np.uint8)) for plain in maps)]
        for column, cell in enumerate(cells):
            small = cell.convert("RGB")
            small.thumbnail((width - 4, height - 4))
            sheet.paste(small, (column * width + 2, _HEADER + row * height + 2))
    return sheet
