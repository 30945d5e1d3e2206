"""A query as a panel: what was found beside the truth, with the support in a corner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from salvit.draw import Colour, draw_comparison, draw_example, ellipse_outline
from salvit.encoded_lists import fit_view
from salvit.evaluate import mark_view
from salvit.figures.ground import Asked, Ground
from salvit.geometry import Fit, affine_of_fit
from salvit.types import BoolArray

SIDE = 300
"""Of a panel in pixels."""
CORNER = 0.34
"""Side of the support over that of the panel."""
NOTE = (
    "Dot: the truth. Cross: what was found, with its ellipse of 2 standard deviations. Line: the error. White box: the "
    "object that was meant. In the corner: the support with its marks."
)
COLOURS: tuple[Colour, ...] = (
    (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167),
    (255, 255, 255), (136, 34, 85), (68, 170, 153), (187, 187, 187), (153, 153, 51),
)  # fmt: skip
"""Kept apart by people who see few colours (Okabe and Ito's, then Tol's); the line tells which dot is whose anyway."""

ALONE: Colour = (240, 228, 66)


def colours_of(count: int) -> list[Colour]:
    """A colour for each keypoint; after twelve they begin again."""
    return [COLOURS[n % len(COLOURS)] for n in range(count)]


def legend_of(names: tuple[str, ...]) -> tuple[tuple[str, Colour], ...]:
    """Names as people write them, with their colours."""
    return tuple((name.replace("_", " "), colour) for name, colour in zip(names, colours_of(len(names)), strict=True))


def draw_asked(ground: Ground, asked: Asked, keep: BoolArray | None = None, *, corner: bool = True) -> Image.Image:
    """The picture that the detector saw, with the keypoints that count; ``keep`` (N,): only some of them.

    A single keypoint has one colour in all panels, the brightest.
    """
    kept = asked.valid if keep is None else asked.valid & keep
    shown = fit_view(asked.view, asked.occlusion, SIDE, ground.saliency_of)
    outlines = [
        shown.fit.to_input(ellipse_outline(asked.found[n], asked.covariances[n], ground.sigmas))
        for n in np.flatnonzero(kept)
    ]
    names = colours_of(len(kept)) if keep is None else [ALONE] * len(kept)
    colours = [colour for colour, is_kept in zip(names, kept, strict=True) if is_kept]
    return draw_comparison(
        _with_box(Image.fromarray(shown.pixels), asked, shown.fit),
        shown.fit.to_input(asked.truth[kept]),
        shown.fit.to_input(asked.found[kept]),
        np.array(outlines).reshape(len(colours), -1, 2),
        colours,
        _draw_support(asked, keep) if corner else None,
        corner=CORNER,
    )


def draw_map(plane: npt.NDArray[np.float32], width: int) -> Image.Image:
    """A map in [0, 1] in shades of grey, as wide as that."""
    return as_wide(Image.fromarray(np.rint(np.clip(plane, 0, 1) * 255).astype(np.uint8)).convert("RGB"), width)


def as_wide(image: Image.Image, width: int) -> Image.Image:
    """A picture scaled to a width."""
    return image.resize((width, max(1, round(image.height * width / image.width))), Image.Resampling.BICUBIC)


def _draw_support(asked: Asked, keep: BoolArray | None) -> Image.Image:
    """The first support that marks something of what is kept."""
    size, everything = round(CORNER * SIDE), np.ones(len(asked.episode.names), dtype=bool)
    wanted = everything if keep is None else keep
    marks = [mark_view(view, asked.episode, size) for view in asked.episode.supports]
    number = next((n for n, mark in enumerate(marks) if (mark.visible & wanted).any()), 0)
    image = fit_view(asked.episode.supports[number], None, size, None)
    example = replace(marks[number], image=image, visible=marks[number].visible & wanted)
    return draw_example(example, colours_of(len(wanted)) if keep is None else [ALONE])


def _with_box(picture: Image.Image, asked: Asked, fit: Fit) -> Image.Image:
    """A thin line around the object that was meant: a picture may hold several."""
    if asked.view.record.box is not None:
        x1, y1, x2, y2 = affine_of_fit(fit).bounds(asked.view.record.box)
        ImageDraw.Draw(picture).rectangle((x1 - 0.5, y1 - 0.5, x2 - 0.5, y2 - 0.5), outline=(255, 255, 255))
    return picture
