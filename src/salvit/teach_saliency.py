"""From data sets to a trained ``learned``: which pictures it may see, its lessons, its training.

Only pictures of train species are seen, and of them only pixels: no box, no keypoint, no species name is read into
training. Animal Pose is divided with cow unseen, the report species of the released models.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from salvit.backbones import Backbone
from salvit.data.images import read_image
from salvit.data.splits import check_allowed, file_of, open_problem
from salvit.saliency.lessons import lesson_key, make_lesson, store_lesson
from salvit.saliency.provider import Provider

SOURCES: tuple[tuple[str, str | None], ...] = (("animal_pose", "cow"), ("cub", None))
"""Data sets and their unseen species."""


def training_pictures(root: Path, per_source: int, seed: int) -> list[tuple[str, Path]]:
    """Names and files of the pictures to learn from: as many of each source as asked for (or all), drawn by the seed.

    Args:
        root: The folder that holds ``animal_pose`` and ``cub``.
        per_source: Pictures of each.
        seed: Which.
    """
    generator = random.Random(seed)
    chosen = []
    for name, unseen in SOURCES:
        problem = open_problem(name, root / name, unseen)
        check_allowed(problem, "train", problem.records["train"])
        pictures = sorted({(f"{name}/{file_of(record)}", record.path) for record in problem.records["train"]})
        chosen.extend(generator.sample(pictures, min(per_source, len(pictures))))
    return chosen


def prepare_lessons(
    pictures: Sequence[tuple[str, Path]], folder: Path, backbone: Backbone, teachers: Sequence[Provider]
) -> Iterator[Path]:
    """The lesson of each picture in turn; those that lie in the folder are not made again."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in pictures:
        key = lesson_key(name, backbone, teachers)
        lesson_path = folder / f"{key}.safetensors"
        if not lesson_path.is_file():
            picture = np.asarray(read_image(path))
            rng = np.random.default_rng(int(key[:15], 16))  # the lesson's own: the order of pictures does not matter
            store_lesson(make_lesson(picture, backbone, teachers, rng), lesson_path)
        yield lesson_path
