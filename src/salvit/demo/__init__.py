"""The bundled pictures: creatures that our own generator drew (``salvit.data.creatures.write_demo``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

_FOLDER = Path(__file__).parent


def demo_support() -> Path:
    """The support file of the demo: one marked creature."""
    return _FOLDER / "support.json"


def demo_queries() -> list[Path]:
    """The pictures that the demo looks in."""
    return sorted(_FOLDER.glob("query*.jpg"))


def draw_sheet(pictures: Sequence[Path], path: Path, columns: int = 3) -> Path:
    """Put pictures of one size side by side into one."""
    images = [Image.open(picture) for picture in pictures]
    width, height = images[0].size
    rows = -(-len(images) // columns)
    sheet = Image.new("RGB", (width * columns, height * rows), (255, 255, 255))
    for number, image in enumerate(images):
        sheet.paste(image.resize((width, height)), (number % columns * width, number // columns * height))
    sheet.save(path, quality=88)
    return path
