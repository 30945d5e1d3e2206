"""What ``learned`` learns from: frozen features of a picture beside what the teachers say about it.

Both are made once for each picture and kept on disk, so that a training run that was stopped goes on where it was.

Letters: V views · T teachers · C channels · G cells of the target grid.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

from salvit.backbones import Backbone
from salvit.geometry import Fit, Window, fit_square, whole_window
from salvit.saliency.boundary_contrast import BoundaryContrast
from salvit.saliency.provider import Map, Picture, Provider, fit_picture
from salvit.saliency.rbd import RobustBackground
from salvit.saliency.spectral_residual import SpectralResidual

TARGET_STRIDE = 4
"""Input pixels per cell of the maps that are learnt."""


def default_teachers() -> tuple[Provider, ...]:
    """The teachers: none has seen a label."""
    return (RobustBackground(longest=200, num_superpixels=200), SpectralResidual(), BoundaryContrast())


def make_lesson(
    picture: Picture, backbone: Backbone, teachers: Sequence[Provider], rng: np.random.Generator
) -> dict[str, Tensor]:
    """One picture to features and teachers' maps, in two views: the whole, and a random part of it, mirrored or not.

    Returns:
        ``level0``, ``level1`` … (V, C, H, W) half precision; ``maps`` (V, T, G, G) uint8; ``inside`` (V, G, G) bool,
        False in the padding.
    """
    maps = [teacher(picture) for teacher in teachers]
    hw = picture.shape[:2]
    windows = [whole_window(hw), sample_window(hw, rng)]
    views = [
        _view(picture, maps, fit_square(window, backbone.default_size), is_mirrored=bool(index and rng.random() < 0.5))
        for index, window in enumerate(windows)
    ]
    squares = torch.from_numpy(np.stack([square for square, _, _ in views])).permute(0, 3, 1, 2) / 255.0
    with torch.inference_mode():
        levels = backbone(squares.contiguous()).levels
    lesson = {f"level{index}": level.half().contiguous() for index, level in enumerate(levels)}
    lesson["maps"] = torch.from_numpy(np.stack([taught for _, taught, _ in views]))
    lesson["inside"] = torch.from_numpy(np.stack([inside for _, _, inside in views]))
    return lesson


def sample_window(hw: tuple[int, int], rng: np.random.Generator) -> Window:
    """A random part of a picture, each side 0.5 to 1 of the picture's."""
    height, width = hw
    tall, wide = height * rng.uniform(0.5, 1.0), width * rng.uniform(0.5, 1.0)
    x, y = rng.uniform(0, width - wide), rng.uniform(0, height - tall)
    return (x, y, x + wide, y + tall)


def _view(
    picture: Picture, maps: Sequence[Map], fit: Fit, is_mirrored: bool
) -> tuple[Picture, npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """One view: the square picture, the teachers' maps (T, G, G) as uint8, and which cells lie inside the picture."""
    square = fit_picture(picture, fit)
    cells = fit.size // TARGET_STRIDE
    small = fit_square(fit.window, cells)
    (x, y), (height, width) = small.pad_xy, small.inner_hw
    inside = np.zeros((cells, cells), dtype=bool)
    inside[y : y + height, x : x + width] = True
    taught = np.zeros((len(maps), cells, cells), dtype=np.uint8)
    for index, plain in enumerate(maps):
        part = Image.fromarray(plain).resize((width, height), Image.Resampling.BILINEAR, box=small.window)
        taught[index, y : y + height, x : x + width] = np.clip(np.asarray(part) * 255, 0, 255).round()
    if is_mirrored:
        square, taught, inside = square[:, ::-1], taught[..., ::-1], inside[:, ::-1]
    return np.ascontiguousarray(square), np.ascontiguousarray(taught), np.ascontiguousarray(inside)


def lesson_key(name: str, backbone: Backbone, teachers: Sequence[Provider]) -> str:
    """SHA-256 of all that a lesson depends on beside the pixels: the picture's name, the backbone, the teachers."""
    said = [name, f"{backbone.name} {backbone.default_size}", *(f"{t.name} {t.settings}" for t in teachers)]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


def store_lesson(lesson: dict[str, Tensor], path: Path) -> None:
    """Write a lesson in one atomic step."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    save_file(lesson, partial)
    os.replace(partial, path)


def load_lessons(paths: Sequence[Path]) -> dict[str, Tensor]:
    """All lessons, one view after another: the same names as :func:`make_lesson`, with all views in the first axis."""
    if not paths:
        raise ValueError("no lessons to learn from; expected at least one picture")
    lessons = [load_file(path) for path in paths]
    return {name: torch.cat([lesson[name] for lesson in lessons]) for name in lessons[0]}
