"""What detection costs beside the backbone's own forward, decoding included."""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from salvit.backbones import build_backbone
from salvit.baselines.match import Match
from salvit.data.creatures import KEYPOINTS, SPECIES, draw_creature
from salvit.data.images import read_and_fit
from salvit.predict import detect
from salvit.types import Detection, Example, FittedImage, Pack

_IMAGES, _DRAWN, _KEYPOINTS, _BATCH, _ROUNDS = 100, 10, 11, 8, 5


def run() -> dict[str, float]:
    """``detect_over_backbone`` on JPEGs of 640×480 with ``match`` on lite0, one torch thread in both."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _measure(Path(folder))
    finally:
        torch.set_num_threads(threads)


def _measure(folder: Path) -> dict[str, float]:
    paths = _write_pictures(folder)
    backbone = build_backbone("lite0")
    detector = Match(backbone)
    images = [read_and_fit(path, detector.input_size) for path in paths]
    pack = _pack(detector, images[0])
    pixels = torch.from_numpy(np.stack([image.pixels for image in images])).permute(0, 3, 1, 2).float() / 255.0
    del images
    _time_detect(detector, pack, paths[:_BATCH])
    _time_backbone(backbone, pixels[:_BATCH])
    detecting, forward, memory = [], [], []
    for _ in range(_ROUNDS):
        detecting.append(_time_detect(detector, pack, paths))
        forward.append(_time_backbone(backbone, pixels))
        memory.append(_peak_mb())
    return {
        "detect_over_backbone": statistics.median(detecting) / statistics.median(forward),
        "detect_ms_per_image": 1000 * statistics.median(detecting) / _IMAGES,
        "backbone_ms_per_image": 1000 * statistics.median(forward) / _IMAGES,
        "memory_growth_mb": memory[-1] - memory[0],
    }


def _write_pictures(folder: Path) -> list[Path]:
    drawn = [draw_creature(SPECIES[n % len(SPECIES)], seed=n).image for n in range(_DRAWN)]
    paths = [folder / f"{number:03d}.jpg" for number in range(_IMAGES)]
    for number, path in enumerate(paths):
        drawn[number % _DRAWN].save(path, quality=92)
    return paths


def _pack(detector: Match, image: FittedImage) -> Pack:
    points = np.random.default_rng(0).uniform(40, detector.input_size - 40, size=(_KEYPOINTS, 2))
    return detector.learn([Example(image, KEYPOINTS[:_KEYPOINTS], points, np.ones(_KEYPOINTS, dtype=bool))])


def _time_detect(detector: Match, pack: Pack, paths: Sequence[Path]) -> float:
    start = time.perf_counter()
    found = sum(isinstance(result, Detection) for result in detect(detector, pack, paths, batch=_BATCH))
    assert found == len(paths)
    return time.perf_counter() - start


@torch.inference_mode()
def _time_backbone(backbone: torch.nn.Module, pixels: torch.Tensor) -> float:
    start = time.perf_counter()
    for batch in pixels.split(_BATCH):
        backbone(batch)
    return time.perf_counter() - start


def _peak_mb() -> float:
    """The most memory that this process has held so far; macOS counts bytes, Linux kilobytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024.0**2 if sys.platform == "darwin" else 1024.0)
