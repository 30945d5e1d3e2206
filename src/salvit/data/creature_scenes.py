"""Places for the drawn creatures: sky, hills, trees, rocks, water and rooms, soft with distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops, ImageDraw, ImageFilter

Pixels = npt.NDArray[np.float32]
Colour = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colours and things of one kind of place."""

    sky: tuple[str, str]
    hills: tuple[str, str]
    ground: tuple[str, str]
    leaf: tuple[str, ...]
    wood: str = "6b4a38"
    rock: str = "8d8a90"
    things: tuple[str, ...] = ("tree", "rock", "tuft", "flower")
    flower: tuple[str, ...] = ("f2d45c", "f4f0ea", "e8838c")
    is_indoor: bool = False
    is_under_water: bool = False


THEMES: Mapping[str, Theme] = {
    "meadow": Theme(
        sky=("8fc4e8", "f3efd9"), hills=("9dbfae", "7fae78"), ground=("a9c76a", "6f9f4c"),
        leaf=("5d9650", "7cb25a", "4a8450"),
    ),
    "forest": Theme(
        sky=("a9cfc4", "e9f0d8"), hills=("86ad98", "557f66"), ground=("8fa35c", "566f42"),
        leaf=("3f6f50", "5a8c58", "2f5a48"), things=("pine", "tree", "rock", "tuft", "tuft"),
    ),
    "savanna": Theme(
        sky=("f2b872", "fbe8bd"), hills=("d9a86c", "c08f58"), ground=("e3c079", "c2924e"),
        leaf=("8f9448", "a8a850", "77823f"), things=("tree", "tuft", "tuft", "rock"), rock="a98a72",
    ),
    "autumn": Theme(
        sky=("b9cbdc", "f7e6cc"), hills=("c39a86", "a8705a"), ground=("c9a862", "94703f"),
        leaf=("d0703a", "e0a044", "b84f38"), things=("tree", "tree", "tuft", "rock"), wood="5a4038",
    ),
    "snow": Theme(
        sky=("a8c4e0", "eef2f6"), hills=("c6d5e6", "a3bad2"), ground=("f2f5f8", "c9d7e6"),
        leaf=("4f7a78", "6a948c", "3e6668"), things=("pine", "pine", "rock"), flower=("ffffff",),
    ),
    "shore": Theme(
        sky=("84c6e6", "fdf1da"), hills=("6fb4cc", "4a9cbc"), ground=("f1dcae", "d8b87c"),
        leaf=("6aa060", "88b468", "58905c"), things=("rock", "tuft", "tuft", "flower"),
    ),
    "dusk": Theme(
        sky=("6a6fae", "f6b59a"), hills=("8f7fae", "6a6694"), ground=("7f8f86", "4f6468"),
        leaf=("4c6a74", "5f7f80", "3c5666"), things=("pine", "tree", "rock", "tuft"), rock="74708a",
    ),
    "room": Theme(
        sky=("e9d3b4", "f2e3cc"), hills=("c9a98a", "b98f72"), ground=("c99a68", "a8774a"),
        leaf=("5f8f5c", "7aa868", "4a7c54"), things=(), is_indoor=True,
    ),
    "reef": Theme(
        sky=("7fd0dc", "2f7fae"), hills=("3f93b4", "2f7a9c"), ground=("d8cfa0", "8fa79a"),
        leaf=("3f9f86", "e0788a", "d8a050"), things=("weed", "rock", "weed", "bubble"), rock="6f8794",
        is_under_water=True,
    ),
}  # fmt: skip
"""Kinds of places by name."""


def rgb(code: str) -> Colour:
    """A colour from its six hexadecimal digits."""
    return int(code[0:2], 16), int(code[2:4], 16), int(code[4:6], 16)


def blend(first: Sequence[float], second: Sequence[float], share: float) -> Colour:
    """A colour between two."""
    mixed = [round(a + (b - a) * share) for a, b in zip(first, second, strict=True)]
    return max(0, min(255, mixed[0])), max(0, min(255, mixed[1])), max(0, min(255, mixed[2]))


def sample_theme(rng: np.random.Generator, *, is_under_water: bool) -> Theme:
    """Draw a place: a reef for swimmers, any other for all others."""
    names = [name for name, theme in THEMES.items() if theme.is_under_water == is_under_water]
    return THEMES[names[int(rng.integers(len(names)))]]


def draw_scene(rng: np.random.Generator, theme: Theme, size_hw: tuple[int, int], clutter: float) -> Image.Image:
    """A background without the creature; ``clutter`` from 0 (bare) to 1 (crowded).

    What lies far away, and the ground, are made at half size: distance is soft.
    """
    horizon = rng.uniform(0.7, 0.8) if theme.is_under_water else rng.uniform(0.4, 0.56)
    half_hw = (size_hw[0] // 2, size_hw[1] // 2)
    if theme.is_indoor:
        far = _draw_room(rng, theme, half_hw, horizon)
    else:
        far = _draw_far(rng, theme, half_hw, horizon, clutter)
    whole = Image.fromarray(_ground(rng, theme, np.asarray(far, dtype=np.float32), horizon).astype(np.uint8))
    picture = whole.resize((size_hw[1], size_hw[0]), Image.Resampling.BILINEAR)
    _draw_things(rng, theme, picture, horizon, clutter)
    return picture.filter(ImageFilter.BoxBlur(0.9 * size_hw[0] / 480))


def add_grain(rng: np.random.Generator, picture: Image.Image, strength: float) -> Image.Image:
    """Fine noise as of paper or film."""
    width, height = picture.size
    tile = np.clip(rng.normal(128, strength, (128, 160)), 0, 255).astype(np.uint8)
    noise = Image.fromarray(np.tile(tile, (height // 128 + 1, width // 160 + 1))[:height, :width])
    return ImageChops.add(picture, Image.merge("RGB", [noise] * 3), offset=-128)


def _gradient(size_hw: tuple[int, int], top: Colour, bottom: Colour) -> Pixels:
    share = np.linspace(0, 1, size_hw[0], dtype=np.float32)[:, None, None]
    first, second = np.array(top, dtype=np.float32), np.array(bottom, dtype=np.float32)
    return np.broadcast_to(first + (second - first) * share, (*size_hw, 3)).copy()


def _ridge(rng: np.random.Generator, width: int, rough: float) -> npt.NDArray[np.float64]:
    """A wavy line (width,) between about −1 and 1."""
    x = np.linspace(0, 1, width)
    waves = [np.sin(2 * np.pi * (x * rng.uniform(0.6, 1.2) * 2**i + rng.random())) * rough**i for i in range(5)]
    return np.asarray(np.sum(waves, axis=0) / 1.6)


def _draw_far(
    rng: np.random.Generator, theme: Theme, size_hw: tuple[int, int], horizon: float, clutter: float
) -> Image.Image:
    """Sky, clouds, hills and a line of trees."""
    height, width = size_hw
    sky = _gradient(size_hw, rgb(theme.sky[0]), rgb(theme.sky[1]))
    sun_x, sun_y = rng.uniform(0.1, 0.9) * width, rng.uniform(0.02, 0.25) * height
    columns = np.exp(-(((np.arange(width) - sun_x) / (0.3 * width)) ** 2)).astype(np.float32)
    rows = np.exp(-(((np.arange(height) - sun_y) / (0.3 * width)) ** 2)).astype(np.float32)
    glow = np.outer(rows, columns)[..., None] * np.array([60, 52, 34], dtype=np.float32)
    picture = Image.fromarray(np.minimum(sky + glow, 255).astype(np.uint8))
    if theme.is_under_water:
        _draw_beams(rng, picture, width, height)
    else:
        _draw_clouds(rng, picture, width, height, horizon, clutter)
    draw = ImageDraw.Draw(picture)
    for depth in range(3):
        share = depth / 2
        line = horizon * height - (0.16 - 0.065 * depth) * height + _ridge(rng, width, 0.5) * height * 0.055
        colour = blend(blend(rgb(theme.hills[0]), rgb(theme.hills[1]), share), rgb(theme.sky[1]), 0.45 * (1 - share))
        draw.polygon([0, height, *np.stack([np.arange(width), line], 1).ravel().tolist(), width, height], fill=colour)
        if depth and clutter > 0 and not theme.is_under_water:
            _draw_far_trees(rng, draw, line, blend(colour, rgb(theme.leaf[0]), 0.35 + 0.25 * share), height, clutter)
    return picture.filter(ImageFilter.GaussianBlur(height / 160))


def _draw_beams(rng: np.random.Generator, picture: Image.Image, width: int, height: int) -> None:
    """Sunlight that falls through water."""
    light = Image.new("L", (width, height))
    draw = ImageDraw.Draw(light)
    for _ in range(6):
        top, spread = rng.uniform(-0.1, 1.1) * width, rng.uniform(0.02, 0.08) * width
        draw.polygon(
            [top, 0, top + spread, 0, top + spread * 3 - 0.2 * width, height, top - 0.25 * width, height], fill=46
        )
    light = light.filter(ImageFilter.GaussianBlur(width / 60))
    picture.paste(Image.new("RGB", picture.size, (226, 250, 246)), (0, 0), light)


def _draw_clouds(
    rng: np.random.Generator, picture: Image.Image, width: int, height: int, horizon: float, clutter: float
) -> None:
    cover = Image.new("L", (width, height))
    draw = ImageDraw.Draw(cover)
    for _ in range(int(rng.integers(1, 3 + round(3 * clutter)))):
        x, y, size = rng.uniform(0, width), rng.uniform(0.04, horizon * 0.6) * height, rng.uniform(0.03, 0.07) * width
        for _ in range(7):
            dx, dy, r = rng.normal(0, size * 1.4), rng.normal(0, size * 0.2), size * rng.uniform(0.4, 0.9)
            draw.ellipse((x + dx - r * 1.4, y + dy - r * 0.6, x + dx + r * 1.4, y + dy + r * 0.6), fill=150)
    picture.paste(
        Image.new("RGB", picture.size, (255, 252, 246)), (0, 0), cover.filter(ImageFilter.BoxBlur(width / 90))
    )


def _draw_far_trees(
    rng: np.random.Generator,
    draw: ImageDraw.ImageDraw,
    line: npt.NDArray[np.float64],
    colour: Colour,
    height: int,
    clutter: float,
) -> None:
    for _ in range(int(40 * clutter)):
        x = int(rng.integers(len(line)))
        size, y = height * rng.uniform(0.012, 0.035), float(line[x])
        tone = blend(colour, (255, 255, 255), rng.uniform(0, 0.12))
        draw.ellipse((x - size, y - size * 1.7, x + size, y + size * 0.6), fill=tone)


def _ground(rng: np.random.Generator, theme: Theme, picture: Pixels, horizon: float) -> Pixels:
    """Lay the ground below the horizon: it gets darker and coarser towards the viewer."""
    height, width = picture.shape[:2]
    top = int(horizon * height)
    band = _gradient((height - top, width), rgb(theme.ground[0]), rgb(theme.ground[1]))
    texture = np.zeros(band.shape[:2], dtype=np.float32)
    for cells, strength in ((6, 9.0), (22, 7.0), (70, 5.0)):
        noise = Image.fromarray(rng.normal(0, 1, (cells, max(2, cells // 2))).astype(np.float32))
        texture += strength * np.asarray(noise.resize((width, height - top), Image.Resampling.BICUBIC))
    if theme.is_indoor:
        planks = np.linspace(0, 7, height - top) ** 1.5
        texture *= 0.4
        texture += (6 * np.sin(np.floor(planks) * 2.4) - 14 * (np.mod(planks, 1) < 0.06))[:, None].astype(np.float32)
    edge = np.clip(np.arange(height - top, dtype=np.float32) / max(1, height / 60), 0, 1)[:, None, None]
    band = np.clip(band + texture[..., None], 0, 255)
    result = picture.copy()
    result[top:] = picture[top:] * (1 - edge) + band * edge
    return result


def _draw_room(rng: np.random.Generator, theme: Theme, size_hw: tuple[int, int], horizon: float) -> Image.Image:
    """A wall with paper, a window, pictures, a skirting board."""
    height, width = size_hw
    walls = ((233, 211, 180), (198, 214, 206), (222, 198, 196), (190, 204, 222))
    wall = walls[int(rng.integers(len(walls)))]
    picture = Image.fromarray(_gradient(size_hw, blend(wall, (255, 255, 255), 0.25), wall).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    line, step = horizon * height, width / int(rng.integers(14, 26))
    for i in range(int(width / step) + 1):
        draw.rectangle((i * step, 0, i * step + step * 0.4, line), fill=blend(wall, (255, 255, 255), 0.12))
    x, wide = rng.uniform(0.05, 0.6) * width, width * rng.uniform(0.22, 0.3)
    pane = (x, height * 0.06, x + wide, height * (horizon - 0.1))
    draw.rectangle(pane, fill=(176, 216, 236), outline=(250, 246, 238), width=max(1, width // 70))
    draw.line((x + wide / 2, pane[1], x + wide / 2, pane[3]), fill=(250, 246, 238), width=max(1, width // 110))
    x = (x + wide + 0.1 * width) % (0.8 * width)
    colour = rgb(theme.leaf[int(rng.integers(len(theme.leaf)))])
    art = (x, height * 0.12, x + width * 0.13, height * 0.32)
    draw.rectangle(art, fill=blend(colour, (255, 240, 220), 0.5), outline=(120, 88, 66), width=max(1, width // 110))
    draw.ellipse(
        (art[0] + width * 0.03, art[1] + height * 0.05, art[2] - width * 0.03, art[3] - height * 0.03), fill=colour
    )
    draw.rectangle((0, line - height * 0.035, width, line), fill=blend(wall, (90, 66, 50), 0.4))
    return picture.filter(ImageFilter.GaussianBlur(height / 400))


def _draw_things(rng: np.random.Generator, theme: Theme, picture: Image.Image, horizon: float, clutter: float) -> None:
    """Trees, rocks, grass and the like, the farthest first."""
    width, height = picture.size
    draw = ImageDraw.Draw(picture)
    count = round(34 * clutter) if theme.things else 0
    for share in np.sort(rng.random(count) ** 1.3):
        y = (horizon + (0.99 - horizon) * share) * height
        size = height * (0.05 + 0.2 * share)
        kind = theme.things[int(rng.integers(len(theme.things)))]
        if kind in ("tree", "pine") and share > 0.35:
            kind = "tuft"  # a tree so near would fill the picture
        draw_thing(rng, theme, draw, kind, (rng.uniform(-0.02, 1.02) * width, y), size)


def draw_thing(
    rng: np.random.Generator, theme: Theme, draw: ImageDraw.ImageDraw, kind: str, foot: tuple[float, float], size: float
) -> None:
    """One tree, pine, rock, tuft, flower, weed or bubble that stands at ``foot`` and is about ``size`` tall."""
    x, y = foot
    leaf = rgb(theme.leaf[int(rng.integers(len(theme.leaf)))])
    match kind:
        case "tree":
            tall = size * rng.uniform(2.2, 3.4)
            wood = rgb(theme.wood)
            draw.polygon(
                [x - size * 0.14, y, x - size * 0.07, y - tall, x + size * 0.07, y - tall, x + size * 0.16, y],
                fill=wood,
            )
            draw_foliage(rng, draw, leaf, (x, y - tall), size * 0.95, 16)
        case "pine":
            for i in range(4):
                top, half = y - size * (3.4 - 0.62 * i), size * (0.38 + 0.2 * i)
                tone = blend(leaf, (255, 255, 240), 0.18 - 0.05 * i)
                draw.polygon([x, top, x - half, top + size * 1.15, x + half, top + size * 1.15], fill=tone)
        case "rock":
            draw_rock(rng, draw, rgb(theme.rock), (x, y), size * rng.uniform(0.5, 1.0))
        case "weed":
            tall = size * rng.uniform(1.6, 3.0)
            draw_weed(rng, draw, leaf, (x, y), tall, tall * 0.045)
        case "bubble":
            r = size * rng.uniform(0.08, 0.2)
            y -= rng.uniform(0.5, 5) * size
            draw.ellipse((x - r, y - r, x + r, y + r), outline=(214, 242, 246), width=max(1, int(r * 0.3)))
        case "flower":
            petal = rgb(theme.flower[int(rng.integers(len(theme.flower)))])
            for _ in range(5):
                dx, dy, r = rng.normal(0, size * 0.5), rng.uniform(0, size * 0.4), size * rng.uniform(0.05, 0.09)
                draw.line((x + dx, y, x + dx, y - dy), fill=blend(leaf, (20, 50, 30), 0.1), width=max(1, int(r * 0.4)))
                draw.ellipse((x + dx - r, y - dy - r, x + dx + r, y - dy + r), fill=petal)
        case _:
            draw_tuft(rng, draw, leaf, (x, y), size * rng.uniform(0.3, 0.7))


def draw_foliage(
    rng: np.random.Generator,
    draw: ImageDraw.ImageDraw,
    leaf: Colour,
    centre: tuple[float, float],
    size: float,
    count: int,
) -> None:
    """A cloud of leaves, darker below and lighter towards the light."""
    places = rng.normal(0, 0.42, (count, 2)) * size
    for dx, dy in places[np.argsort(-places[:, 1])]:
        r = size * rng.uniform(0.28, 0.5)
        tone = blend(leaf, (255, 250, 200), float(np.clip(0.1 - 0.22 * dy / size - 0.1 * dx / size, 0, 0.4)))
        tone = blend(tone, (16, 34, 44), float(np.clip(0.1 + 0.25 * dy / size, 0, 0.35)))
        x, y = centre[0] + dx, centre[1] + dy * 0.8
        draw.ellipse((x - r, y - r * 0.9, x + r, y + r * 0.9), fill=tone)


def draw_rock(
    rng: np.random.Generator, draw: ImageDraw.ImageDraw, stone: Colour, foot: tuple[float, float], size: float
) -> None:
    """A boulder with a lit and a shaded face."""
    turn = np.linspace(np.pi, 2 * np.pi, 9)
    reach = rng.uniform(0.8, 1.1, 9)[:, None]
    rim = np.array(foot) + np.stack([np.cos(turn) * 1.15, np.sin(turn) * 0.85], 1) * reach * size
    draw.polygon(rim.ravel().tolist(), fill=blend(stone, (30, 30, 50), 0.18))
    inner = np.array(foot) + (rim - np.array(foot)) * [0.72, 0.86] + [-0.16 * size, -0.04 * size]
    draw.polygon(inner.ravel().tolist(), fill=stone)
    top = np.array(foot) + (rim[1:6] - np.array(foot)) * [0.8, 0.94]
    draw.polygon(
        [*top.ravel().tolist(), foot[0] - 0.2 * size, foot[1] - 0.42 * size], fill=blend(stone, (255, 250, 236), 0.28)
    )


def draw_tuft(
    rng: np.random.Generator, draw: ImageDraw.ImageDraw, leaf: Colour, foot: tuple[float, float], size: float
) -> None:
    """A tuft of grass."""
    x, y = foot
    for _ in range(9):
        lean, tall, half = rng.normal(0, 0.45) * size, size * rng.uniform(0.6, 1.2), size * 0.06
        root = x + rng.normal(0, 0.2) * size
        tone = blend(leaf, (250, 246, 190), rng.uniform(0, 0.35))
        draw.polygon(
            [root - half, y, root + lean * 0.4 - half * 0.6, y - tall * 0.6, root + lean, y - tall, root + half, y],
            fill=tone,
        )


def draw_weed(
    rng: np.random.Generator,
    draw: ImageDraw.ImageDraw,
    leaf: Colour,
    foot: tuple[float, float],
    tall: float,
    half: float,
) -> None:
    """A bunch of water weed or reed that sways; ``half`` is half the width of a blade."""
    t = np.linspace(0, 1, 12)
    width = half * (1 - t) * np.minimum(1.0, 0.4 + 4 * t) + 0.5
    for _ in range(5):
        height, phase = tall * rng.uniform(0.6, 1.1), rng.uniform(0, 6.3)
        middle = foot[0] + rng.normal(0, 3.2) * half + 2 * half * np.sin(phase + t * 5) * t
        up = foot[1] - t * height
        edge = np.concatenate([np.stack([middle - width, up], 1), np.stack([middle + width, up], 1)[::-1]])
        draw.polygon(edge.ravel().tolist(), fill=blend(leaf, (10, 50, 80), rng.uniform(0, 0.35)))
