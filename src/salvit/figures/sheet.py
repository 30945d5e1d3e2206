"""Panels with their captions on one sheet."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from salvit.draw import Colour

_MARGIN, _GAP = 16, 8
_TITLE, _TEXT = 20.0, 15.0
_LINE = 1.35
"""Height of a line of text over the size of its letters."""
_INK, _FAINT = (20, 24, 32), (90, 96, 108)
_QUALITY = 88


@dataclass(frozen=True, slots=True)
class Panel:
    """A picture of a sheet."""

    image: Image.Image
    caption: str = ""
    """Below it, one line or several."""


@dataclass(frozen=True, slots=True)
class Row:
    """Panels side by side."""

    panels: tuple[Panel, ...]
    heading: str = ""
    """Above them."""
    legend: tuple[tuple[str, Colour], ...] = ()
    """Names and their colours, below them."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A figure before it is drawn."""

    title: str
    rows: tuple[Row, ...]
    note: str = ""
    """What the marks mean, at the foot."""

    @property
    def panels(self) -> list[Panel]:
        """All panels, row by row."""
        return [panel for row in self.rows for panel in row.panels]

    def draw(self) -> Image.Image:
        """The sheet on white, as large as its widest row."""
        if not self.panels:
            raise ValueError(f"{self.title}: there is nothing to show")
        rows = [sum(panel.image.width + _GAP for panel in row.panels) - _GAP for row in self.rows]
        inner = max(rows)
        blank = _Page(Image.new("RGB", (1, 1)), inner)  # everything is laid out once to learn how high it is
        self._lay_out(blank)
        page = _Page(Image.new("RGB", (inner + 2 * _MARGIN, round(blank.y) + _MARGIN), "white"), inner)
        self._lay_out(page)
        return page.image

    def _lay_out(self, page: _Page) -> None:
        page.text(self.title, _TITLE, _INK)
        for row in self.rows:
            page.y += _GAP
            if row.heading:
                page.text(row.heading, _TEXT + 2, _INK)
            page.panels(row.panels)
            page.legend(row.legend)
        if self.note:
            page.y += _GAP
            page.text(self.note, _TEXT, _FAINT)


def save_sheet(sheet: Sheet, path: Path) -> None:
    """Write a sheet as JPEG; the same sheet gives the same bytes."""
    kept = io.BytesIO()
    sheet.draw().save(kept, "JPEG", quality=_QUALITY, optimize=True)
    path.write_bytes(kept.getvalue())


class _Page:
    """Where the next line goes."""

    def __init__(self, image: Image.Image, inner: int) -> None:
        self.image, self.pen, self.inner, self.y = image, ImageDraw.Draw(image), inner, float(_MARGIN)

    def text(self, text: str, size: float, ink: Colour) -> None:
        """A paragraph over the whole width."""
        font = ImageFont.load_default(size=size)
        for line in _wrapped(text, font, self.inner):
            self.pen.text((_MARGIN, self.y), line, fill=ink, font=font)
            self.y += _LINE * size

    def panels(self, panels: tuple[Panel, ...]) -> None:
        """A row of panels with a hairline around each, and what is written below them."""
        font, x, lines = ImageFont.load_default(size=_TEXT), _MARGIN, 0
        below = self.y + max(panel.image.height for panel in panels) + 3
        for panel in panels:
            self.image.paste(panel.image, (x, round(self.y)))
            edge = (x - 1, round(self.y) - 1, x + panel.image.width, round(self.y) + panel.image.height)
            self.pen.rectangle(edge, outline=(200, 204, 210))
            caption = [line for text in panel.caption.splitlines() for line in _wrapped(text, font, panel.image.width)]
            for number, line in enumerate(caption):
                self.pen.text((x, below + number * _LINE * _TEXT), line, fill=_INK, font=font)
            lines = max(lines, len(caption))
            x += panel.image.width + _GAP
        self.y = below + lines * _LINE * _TEXT

    def legend(self, entries: tuple[tuple[str, Colour], ...]) -> None:
        """Dots and names, in as many lines as they need."""
        if not entries:
            return
        font, x, self.y = ImageFont.load_default(size=_TEXT), float(_MARGIN), self.y + 3
        for name, colour in entries:
            width = 18 + font.getlength(name)
            if x + width > _MARGIN + self.inner and x > _MARGIN:
                x, self.y = float(_MARGIN), self.y + _LINE * _TEXT
            self.pen.ellipse((x, self.y + 3, x + 12, self.y + 15), fill=colour, outline=(0, 0, 0))
            self.pen.text((x + 17, self.y), name, fill=_INK, font=font)
            x += width + 18
        self.y += _LINE * _TEXT


def _wrapped(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: float) -> list[str]:
    """Lines of whole words that are no wider than that; a longer word stands alone."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and font.getlength(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
