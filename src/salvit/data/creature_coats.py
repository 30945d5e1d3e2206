"""Coats: spots, rings, stripes and strokes of fur, laid out on the skin of a part so that they turn with it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from salvit.data.creature_bodies import Array, Part
from salvit.data.creature_surface import Camera, Surface

Polygons = list[tuple[Array, int]]
"""Polygons (P, 2) in pixels with their strength from 0 to 255, in order of painting."""


def coat_polygons(coat: str, part: Part, surface: Surface, camera: Camera, rng: np.random.Generator) -> Polygons:
    """The pattern of a coat on a part, as far as the viewer sees it."""
    match coat:
        case "spots":
            return _spots(part, surface, camera, rng, size=0.032, spacing=0.115, middle=None)
        case "rosettes":
            return _spots(part, surface, camera, rng, size=0.042, spacing=0.108, middle=110)
        case "patches":
            return _spots(part, surface, camera, rng, size=0.078, spacing=0.145, middle=None)
        case "stripes":
            return _stripes(surface, camera, rng, spacing=0.085, wide=0.36)
        case "bands":
            return _stripes(surface, camera, rng, spacing=0.2, wide=0.42)
    return []


def _spots(
    part: Part,
    surface: Surface,
    camera: Camera,
    rng: np.random.Generator,
    *,
    size: float,
    spacing: float,
    middle: int | None,
) -> Polygons:
    """Blobs on a jittered lattice; with ``middle`` they are rings with a paler middle of that strength."""
    size = min(size * (0.5 + 0.5 * min(1.0, part.patterned)), surface.thick * 0.42)
    spacing = max(min(spacing, surface.thick * 1.1), size * 1.9) / min(1.0, part.patterned + 0.2)
    rows = max(2, round(surface.length / spacing))
    columns = max(3, round(2 * np.pi * surface.thick / spacing))
    row, column = (index.ravel() for index in np.indices((rows, columns)))
    along = (row + 0.5 + rng.uniform(-0.22, 0.22, rows * columns)) / rows
    around = 2 * np.pi * (column + 0.5 * (row % 2) + rng.uniform(-0.2, 0.2, rows * columns)) / columns
    wobble = rng.uniform(0.8, 1.18, (rows * columns, 12)) * rng.uniform(0.75, 1.15, (rows * columns, 1))
    _, normals = surface.at(along, around)
    # The underside and a tip of another colour stay free.
    wanted = (camera.towards_viewer(normals) > 0.05) & ((np.cos(around) > -0.72) | (part.belly == 0))
    wanted &= (along < part.tip_from - 0.04) | (part.tip == "")
    along, around, wobble = along[wanted], around[wanted], wobble[wanted]
    turn = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    radius = np.interp(along, np.linspace(0, 1, len(part.radii)), part.radii)
    d_along = np.cos(turn) * wobble * size / surface.length
    d_around = np.sin(turn) * wobble * (size / np.maximum(radius, size))[:, None]
    polygons: Polygons = []
    for share, strength in ((1.0, 235), (0.52, middle)):
        if strength is not None:
            blobs, _ = surface.at(along[:, None] + d_along * share, around[:, None] + d_around * share)
            polygons.extend((blob, strength) for blob in camera.to_pixels(blobs))
    return polygons


def _stripes(surface: Surface, camera: Camera, rng: np.random.Generator, *, spacing: float, wide: float) -> Polygons:
    """Stripes around a part, broad on its back and pointed towards its underside."""
    spacing = min(spacing, max(0.05, surface.thick * 1.4))
    count = max(2, round(surface.length / spacing))
    middle = (np.arange(count) + 0.5 + rng.uniform(-0.12, 0.12, count))[:, None] / count
    reach = rng.uniform(1.9, 2.5, (count, 1))
    share = np.linspace(-1, 1, 26)
    around = reach * share
    bend = rng.uniform(-0.3, 0.3, (count, 1)) * np.cos(around * rng.uniform(0.8, 1.3, (count, 1))) / count
    half = wide / count * np.sqrt(1 - share**2) * rng.uniform(0.45, 0.62, (count, 1))
    front, normals = surface.at(middle + bend + half, around)
    back, _ = surface.at(middle + bend - half, around)
    is_seen = camera.towards_viewer(normals) > -0.2
    polygons: Polygons = []
    for first, second, seen in zip(camera.to_pixels(front), camera.to_pixels(back), is_seen, strict=True):
        if seen.sum() >= 3:
            polygons.append((np.concatenate([first[seen], second[seen][::-1]]), 235))
    return polygons


def fur_strokes(surface: Surface, camera: Camera, rng: np.random.Generator) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Short strokes (M, 2, 2) in pixels that follow the body backwards and down, and which of them are light (M,)."""
    count = int(np.clip(900 * surface.length * surface.thick, 12, 150))
    along, around = rng.uniform(0.02, 0.98, count), rng.uniform(-np.pi, np.pi, count)
    reach = min(0.045, surface.thick * 0.5)
    turn = np.sign(np.sin(around)) * reach * 0.45 / surface.thick
    ends, normals = surface.at(np.stack([along, along - reach / surface.length]), np.stack([around, around + turn]))
    is_light = rng.random(count) < 0.55
    seen = camera.towards_viewer(normals[0]) > 0.1
    return camera.to_pixels(ends[:, seen].transpose(1, 0, 2)), is_light[seen]
