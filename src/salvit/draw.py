"""Draws points and their uncertainty onto pictures."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from salvit.types import BoolArray, Detection, Example, FloatArray

_OVERSAMPLE = 2
"""Marks are drawn at this multiple of the picture's size and scaled down: smooth edges."""
_LONG_SIDE = 1280
"""Larger pictures are scaled down to this before they are drawn on."""
_SMALL_SIDE = 640
"""Smaller pictures are scaled up to this, so that marks and names stay legible."""

Colour = tuple[int, int, int]


def palette(count: int) -> list[Colour]:
    """Colours that differ as much as hue allows, bright enough for any ground."""
    colours = []
    for n in range(count):
        red, green, blue = colorsys.hsv_to_rgb((0.55 + n * 0.61803398875) % 1.0, 0.75 if n % 2 else 0.9, 1.0)
        colours.append((round(255 * red), round(255 * green), round(255 * blue)))
    return colours


def ellipse_outline(centre: FloatArray, covariance: FloatArray, sigmas: float, count: int = 48) -> FloatArray:
    """Points (count, 2) on the ellipse of ``sigmas`` standard deviations."""
    values, axes = np.linalg.eigh(covariance)
    radii = sigmas * np.sqrt(np.clip(values, 0.0, None))
    angle = np.linspace(0.0, 2 * np.pi, count, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.asarray(centre + (circle * radii) @ axes.T)


def draw_detection(
    image: Image.Image, detection: Detection, support: Example | None = None, *, sigmas: float = 2.0
) -> Image.Image:
    """A copy of the picture with a cross, an ellipse and a name for each point found, and the support in a corner."""
    scale = _scale_for(image)
    canvas = _Canvas(image, scale)
    colours = palette(len(detection.names))
    shown = [n for n in range(len(detection.names)) if detection.located[n]]
    for n in shown:
        outline = ellipse_outline(detection.points[n], detection.covariances[n], sigmas)
        canvas.polygon(outline, colours[n])
    for n in shown:
        canvas.cross(detection.points[n], colours[n])
    occupied: list[tuple[float, float, float, float]] = []
    if support is not None:
        occupied.append(canvas.paste_corner(draw_example(support, colours), detection.points[detection.located]))
    for n in shown:
        canvas.label(detection.points[n], detection.names[n], colours[n], occupied)
    return canvas.finish()


def draw_example(example: Example, colours: Sequence[Colour] | None = None) -> Image.Image:
    """The marked picture as the detector sees it, without its padding, with a dot on each mark."""
    colours = colours or palette(len(example.names))
    (pad_x, pad_y), (height, width) = example.image.fit.pad_xy, example.image.fit.inner_hw
    pixels = example.image.pixels[pad_y : pad_y + height, pad_x : pad_x + width]
    canvas = _Canvas(Image.fromarray(pixels), 1.0)
    for n in np.flatnonzero(example.visible):
        canvas.dot(example.points_input[n] - np.array([pad_x, pad_y]), colours[int(n) % len(colours)])
    return canvas.finish()


def draw_points(
    image: Image.Image, points: FloatArray, visible: BoolArray, names: Sequence[str] = (), *, filled: bool = True
) -> Image.Image:
    """A copy of the picture with a dot (or a ring) on each visible point, and names where they are given."""
    canvas = _Canvas(image, _scale_for(image))
    colours = palette(len(points))
    occupied: list[tuple[float, float, float, float]] = []
    for n in np.flatnonzero(visible):
        canvas.dot(points[n], colours[n], filled=filled)
    for n in np.flatnonzero(visible) if names else ():
        canvas.label(points[n], names[int(n)], colours[n], occupied)
    return canvas.finish()


def draw_comparison(
    image: Image.Image,
    truth: FloatArray,
    found: FloatArray,
    outlines: FloatArray,
    colours: Sequence[Colour],
    support: Image.Image | None = None,
    *,
    corner: float = 0.34,
) -> Image.Image:
    """A copy of the picture with a dot on each true point, a cross where it was found, and a line between the two.

    Args:
        image: The picture; it keeps its size.
        truth: (N, 2) in its pixels.
        found: (N, 2).
        outlines: (N, C, 2) of the ellipses around what was found.
        colours: N of them.
        support: Goes into the corner where it hides the fewest points.
        corner: Its longer side as a share of the picture's.
    """
    canvas = _Canvas(image, 1.0)
    for outline, colour in zip(outlines, colours, strict=True):
        canvas.polygon(outline, colour)
    for start, end, colour in zip(truth, found, colours, strict=True):
        canvas.line(start, end, colour)
    for point, colour in zip(truth, colours, strict=True):
        canvas.dot(point, colour)
    for point, colour in zip(found, colours, strict=True):
        canvas.cross(point, colour)
    if support is not None:
        canvas.paste_corner(support, np.concatenate([truth, found]), share=corner)
    return canvas.finish()


def _scale_for(image: Image.Image) -> float:
    long_side = max(image.size)
    return min(1.0, _LONG_SIDE / long_side) if long_side >= _SMALL_SIDE else _SMALL_SIDE / long_side


class _Canvas:
    """A picture at drawing size with a transparent layer above it; takes points in pixels of the original."""

    def __init__(self, image: Image.Image, scale: float) -> None:
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        self.picture = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        self.layer = Image.new("RGBA", (size[0] * _OVERSAMPLE, size[1] * _OVERSAMPLE), (0, 0, 0, 0))
        self.pen = ImageDraw.Draw(self.layer, "RGBA")
        self.zoom = scale * _OVERSAMPLE
        self.unit = _OVERSAMPLE * max(1.0, max(size) / 480)
        """Thickness of a thin line on the layer."""
        self.font = ImageFont.load_default(size=max(10.0, 9.5 * self.unit))

    def at(self, point: FloatArray) -> tuple[float, float]:
        return (float((point[0] + 0.5) * self.zoom), float((point[1] + 0.5) * self.zoom))

    def polygon(self, outline: FloatArray, colour: Colour) -> None:
        corners = [self.at(point) for point in outline]
        self.pen.polygon(corners, fill=(*colour, 30))
        self.pen.line([*corners, corners[0]], fill=(*colour, 220), width=round(1.2 * self.unit), joint="curve")

    def line(self, start: FloatArray, end: FloatArray, colour: Colour) -> None:
        for width, ink in ((3.0, (0, 0, 0, 170)), (1.6, (*colour, 255))):
            self.pen.line([self.at(start), self.at(end)], fill=ink, width=round(width * self.unit))

    def cross(self, point: FloatArray, colour: Colour) -> None:
        x, y = self.at(point)
        reach = 4.5 * self.unit
        for width, ink in ((3.4, (0, 0, 0, 210)), (1.8, (*colour, 255))):
            for slope in (1, -1):
                line = [(x - reach, y - slope * reach), (x + reach, y + slope * reach)]
                self.pen.line(line, fill=ink, width=round(width * self.unit))

    def dot(self, point: FloatArray, colour: Colour, *, filled: bool = True) -> None:
        x, y = self.at(point)
        reach = 3.6 * self.unit
        edge = (0, 0, 0, 220) if filled else (*colour, 255)
        self.pen.ellipse(
            (x - reach, y - reach, x + reach, y + reach),
            fill=(*colour, 255) if filled else None,
            outline=edge,
            width=round((1.0 if filled else 1.6) * self.unit),
        )

    def label(
        self, point: FloatArray, text: str, colour: Colour, occupied: list[tuple[float, float, float, float]]
    ) -> None:
        """Write a name beside a point, where it covers as little as possible of what is written already."""
        text = text.replace("_", " ")
        x, y = self.at(point)
        left, top, right, bottom = self.font.getbbox(text)
        width, height = right - left + 4 * self.unit, bottom - top + 3 * self.unit
        best, least = None, math.inf
        for ring in (8, 16, 26):
            for angle in (0.0, 180.0, -35.0, 35.0, 215.0, 145.0, -90.0, 90.0):
                dx, dy = math.cos(math.radians(angle)), math.sin(math.radians(angle))
                x1 = x + ring * self.unit * dx + (-width if dx < -0.1 else -width / 2 if abs(dx) <= 0.1 else 0)
                y1 = y + ring * self.unit * dy - height / 2
                box = (x1, y1, x1 + width, y1 + height)
                cost = sum(_overlap(box, other) for other in occupied) + 2 * self._outside(box) + ring
                if cost < least:
                    best, least = box, cost
        assert best is not None
        occupied.append(best)
        self.pen.rounded_rectangle(best, radius=2 * self.unit, fill=(16, 20, 28, 190))
        self.pen.text(
            (best[0] + 2 * self.unit - left, best[1] + 1.5 * self.unit - top), text, self._ink(colour), self.font
        )

    def paste_corner(
        self, small: Image.Image, points: FloatArray, *, share: float = 0.26
    ) -> tuple[float, float, float, float]:
        """Put a small picture into the corner that hides the fewest points; gives its place on the layer."""
        width, height = self.picture.size
        scale = share * max(width, height) / max(small.size)
        size = (max(1, round(small.width * scale)), max(1, round(small.height * scale)))
        border = max(2, round(self.unit))
        framed = Image.new("RGB", (size[0] + 2 * border, size[1] + 2 * border), (255, 255, 255))
        framed.paste(small.resize(size, Image.Resampling.LANCZOS), (border, border))
        best, fewest = (0, 0), math.inf
        for corner in (
            (0, 0),
            (width - framed.width, 0),
            (0, height - framed.height),
            (width - framed.width, height - framed.height),
        ):
            area = [_OVERSAMPLE * v for v in (*corner, corner[0] + framed.width, corner[1] + framed.height)]
            hidden = sum(area[0] <= x <= area[2] and area[1] <= y <= area[3] for x, y in map(self.at, points))
            if hidden < fewest:
                best, fewest = corner, hidden
        self.picture.paste(framed, best)
        x1, y1 = best[0] * _OVERSAMPLE, best[1] * _OVERSAMPLE
        return (x1, y1, x1 + framed.width * _OVERSAMPLE, y1 + framed.height * _OVERSAMPLE)

    def finish(self) -> Image.Image:
        marks = self.layer.resize(self.picture.size, Image.Resampling.BOX)
        return Image.alpha_composite(self.picture.convert("RGBA"), marks).convert("RGB")

    def _outside(self, box: tuple[float, float, float, float]) -> float:
        whole = (0.0, 0.0, float(self.layer.width), float(self.layer.height))
        return (box[2] - box[0]) * (box[3] - box[1]) - _overlap(box, whole)

    @staticmethod
    def _ink(colour: Colour) -> tuple[int, int, int, int]:
        red, green, blue = (round(0.35 * 255 + 0.65 * part) for part in colour)
        return (red, green, blue, 255)


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return width * height if width > 0 and height > 0 else 0.0
