"""What detection costs beside the backbone's own forward, decoding included."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from salvit.data.creatures import KEYPOINTS, SPECIES, draw_creature
from salvit.data.images import read_and_fit
from salvit.demo import demo_support
from salvit.model.detector import SalViT
from salvit.predict import detect, load
from salvit.types import Detection, Detector, Example, FittedImage, Pack

_IMAGES, _DRAWN, _KEYPOINTS, _BATCH, _ROUNDS = 100, 10, 11, 8, 3


def run() -> dict[str, float]:
    """``detect_over_backbone`` on JPEGs of 640×480 with ``lite``, one torch thread in both.

    Beside it: ``flip_over_detect``, both ways; ``match_over_backbone``; ``resident_mb``, the most that this process has
    held, the benchmark's own pictures included; ``cold_start_over_torch``, `salvit detect` on one picture in a new
    process over `import torch` in another.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return {**_measure(Path(folder)), **_measure_start(Path(folder))}
    finally:
        torch.set_num_threads(threads)


def _measure(folder: Path) -> dict[str, float]:
    paths = _write_pictures(folder)
    lite, match = load("lite", device="cpu"), load("match", device="cpu")
    assert isinstance(lite, SalViT)
    images = [read_and_fit(path, lite.input_size) for path in paths]
    packs = {detector.name: _pack(detector, images[0]) for detector in (lite, match)}
    pixels = torch.from_numpy(np.stack([image.pixels for image in images])).permute(0, 3, 1, 2).float() / 255.0
    del images
    timed: dict[str, Callable[[], float]] = {
        "detect": lambda: _time_detect(lite, packs[lite.name], paths) / len(paths),
        "flip": lambda: _time_detect(lite, packs[lite.name], paths, flip=True) / len(paths),
        "match": lambda: _time_detect(match, packs[match.name], paths) / len(paths),
        "backbone": lambda: _time_backbone(lite.backbone, pixels) / len(paths),
    }
    for measure in timed.values():
        measure()
    memory = [_peak_mb()]
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(_ROUNDS):
        for name, measure in timed.items():
            seconds[name].append(measure())
        memory.append(_peak_mb())
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "detect_over_backbone": middle["detect"] / middle["backbone"],
        "flip_over_detect": middle["flip"] / middle["detect"],
        "match_over_backbone": middle["match"] / middle["backbone"],
        "detect_ms_per_image": 1000 * middle["detect"],
        "backbone_ms_per_image": 1000 * middle["backbone"],
        "resident_mb": memory[-1],
        "memory_growth_mb": memory[-1] - memory[0],
    }


def _measure_start(folder: Path) -> dict[str, float]:
    """A new process each: `salvit detect` on one picture, and importing torch."""
    words = ["detect", "--support", str(demo_support()), "--query", str(folder / "000.jpg"), "--model", "lite"]
    commands = {
        "detect": [sys.executable, "-m", "salvit", *words, "--out", str(folder / "found.json"), "--overwrite"],
        "torch": [sys.executable, "-c", "import torch"],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(_ROUNDS):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - start)
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "cold_start_over_torch": middle["detect"] / middle["torch"],
        "cold_start_s": middle["detect"],
        "import_torch_s": middle["torch"],
    }


def _write_pictures(folder: Path) -> list[Path]:
    drawn = [draw_creature(SPECIES[n % len(SPECIES)], seed=n).image for n in range(_DRAWN)]
    paths = [folder / f"{number:03d}.jpg" for number in range(_IMAGES)]
    for number, path in enumerate(paths):
        drawn[number % _DRAWN].save(path, quality=92)
    return paths


def _pack(detector: Detector, image: FittedImage) -> Pack:
    points = np.random.default_rng(0).uniform(40, detector.input_size - 40, size=(_KEYPOINTS, 2))
    return detector.learn([Example(image, KEYPOINTS[:_KEYPOINTS], points, np.ones(_KEYPOINTS, dtype=bool))])


def _time_detect(detector: Detector, pack: Pack, paths: Sequence[Path], *, flip: bool = False) -> float:
    start = time.perf_counter()
    found = sum(isinstance(result, Detection) for result in detect(detector, pack, paths, batch=_BATCH, flip=flip))
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
