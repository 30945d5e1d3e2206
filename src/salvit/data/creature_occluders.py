"""Things that stand in front of a drawn creature: bushes, rocks, posts, branches, water weed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from salvit.data.creature_scenes import Theme, blend, draw_foliage, draw_rock, draw_tuft, draw_weed, rgb

KINDS = ("bush", "rock", "post", "branch")
WATER_KINDS = ("weed", "rock")
FINE = 2


def draw_occluders(
    rng: np.random.Generator,
    theme: Theme,
    size_hw: tuple[int, ...],
    targets: npt.NDArray[np.float64],
    box: tuple[float, float, float, float],
    occlusion: float,
) -> Image.Image:
    """An RGBA layer of things, each of which hides one of the target points (pixels).

    Args:
        rng: Source of chance.
        theme: Place whose colours they take.
        size_hw: Size of the picture.
        targets: (M, 2) points to hide; some are chosen.
        box: The creature's box, xyxy: it sets how large things are and where they stand.
        occlusion: From just above 0 (one small thing) to 1 (four large ones).
    """
    height, width = size_hw
    layer = Image.new("RGBA", (width * FINE, height * FINE))
    draw = ImageDraw.Draw(layer)
    extent = FINE * float(np.sqrt((box[2] - box[0]) * (box[3] - box[1])))
    size = extent * (0.1 + 0.17 * occlusion)
    kinds = WATER_KINDS if theme.is_under_water else KINDS
    chosen = rng.choice(len(targets), size=min(len(targets), 1 + int(3.49 * occlusion)), replace=False)
    ground = FINE * (height if theme.is_under_water else box[3])
    for index in chosen:
        x, y = ((targets[index] + 0.5) * FINE).tolist()
        kind = kinds[int(rng.integers(len(kinds)))]
        # What lies on the ground does not reach a high point, and a branch does not hang down to a low one.
        if (kind == "rock" and ground - y > size * 1.8) or (kind == "branch" and y > 0.4 * FINE * height):
            kind = "weed"
        _draw_occluder(rng, theme, draw, kind, (x, y), size, ground)
    return layer.reduce(FINE)


def _draw_occluder(
    rng: np.random.Generator,
    theme: Theme,
    draw: ImageDraw.ImageDraw,
    kind: str,
    target: tuple[float, float],
    size: float,
    ground: float,
) -> None:
    x, y = target
    leaf = rgb(theme.leaf[int(rng.integers(len(theme.leaf)))])
    ground = max(ground, y) + size * 0.25
    match kind:
        case "bush":
            for step in np.arange(0.0, max(1.0, ground - y), size * 0.6):
                draw_foliage(rng, draw, leaf, (x + rng.normal(0, 0.1) * size, ground - step), size * 0.95, 26)
            draw_foliage(rng, draw, leaf, (x, y), size * 0.85, 26)
        case "rock":
            draw_rock(rng, draw, rgb(theme.rock), (x, ground), max(size, (ground - y) * 1.5))
            draw_tuft(rng, draw, leaf, (x + size, ground), size * 0.5)
        case "post":
            _draw_post(draw, rgb(theme.wood), x, y - size * rng.uniform(0.9, 1.8), ground, size * 0.42)
            draw_tuft(rng, draw, leaf, (x, ground), size * 0.6)
        case "weed":
            tall = max(size, ground - y)
            for share in (1.6, 1.45, 1.3):
                draw_weed(rng, draw, leaf, (x, ground), tall * share, size * 0.1)
        case _:
            start = x + size * rng.choice([-2.5, 2.5])
            draw.line((start, 0, x, y), fill=rgb(theme.wood), width=max(2, int(size * 0.16)))
            for share in (0.1, 0.4, 0.7, 1.0):
                at = (start + (x - start) * share, y * share)
                draw_foliage(rng, draw, leaf, at, size * (0.9 if share < 1 else 0.75), 22)


def _draw_post(
    draw: ImageDraw.ImageDraw, wood: tuple[int, int, int], x: float, top: float, ground: float, half: float
) -> None:
    """A wooden fence post with a lit edge and grain."""
    draw.polygon(
        [
            x - half,
            ground,
            x - half,
            top + half * 0.4,
            x,
            top - half * 0.5,
            x + half,
            top + half * 0.4,
            x + half,
            ground,
        ],
        fill=wood,
    )
    draw.rectangle((x - half, top + half * 0.4, x - half * 0.45, ground), fill=blend(wood, (255, 236, 200), 0.28))
    for share in (-0.1, 0.3, 0.65):
        line = (x + half * share, top + half, x + half * (share + 0.08), ground)
        draw.line(line, fill=blend(wood, (20, 14, 16), 0.3), width=max(1, int(half * 0.1)))
