"""Parameters of every model, and how long a query takes on this machine; random weights, so nothing is downloaded."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import salvit
from salvit.baselines.build import build_method
from salvit.baselines.describe import PAPER_NAMES
from salvit.geometry import fit_square
from salvit.model.detector import SalViT
from salvit.model.settings import ModelSettings, preset
from salvit.results import hardware
from salvit.types import Example, FittedImage

Track = Callable[[Iterable[Any], int, str], Iterable[Any]]
KEYPOINTS = 11
"""Of an episode of Animal Pose."""
ROUNDS = 3
COMMAND = "salvit tables cost --run"


def cost_settings() -> dict[str, ModelSettings]:
    """Every model by the paper's name, and the light ones of ours."""
    default = preset("salvit-resnet50")
    two_blocks = replace(default, backbone=replace(default.backbone, layer4_blocks=2))
    compared = {label: replace(two_blocks, method=name) for name, label in PAPER_NAMES.items() if name != "salvit"}
    return {
        **compared,
        "SalViT (DINO)": preset("salvit-dino-s16"),
        "SalViT (default)": default,
        "SalViT on Lite0, swift": preset("salvit-lite0", "swift"),
        "SalViT on DINOv2, light": preset("salvit-dinov2", "light"),
        "SalViT on Lite0 and DINOv2 joined, swift": preset("salvit-joined", "swift"),
    }


def measure_cost(track: Track) -> dict[str, Any]:
    """A result file: for each model millions of parameters and milliseconds a query with 1 and with 5 shots.

    A query's time is that of the whole road: encode and learn the supports, encode the query, find its keypoints. Times
    are medians of rounds. Detectors of base keypoints, as some compared methods have for training, do not count.
    """
    rows = []
    settings = cost_settings()
    for label in track(list(settings), len(settings), "measuring"):
        model = build_method(settings[label], None)
        counted = sum(weight.numel() for part, weight in model.named_parameters() if not part.startswith("base_"))
        times = {f"ms_{shots}_shot": round(_milliseconds(model, shots), 1) for shots in (1, 5)}
        rows.append({"model": label, "millions": round(counted / 1e6, 2), "input_size": model.input_size, **times})
    return {
        "figures": rows,
        "keypoints": KEYPOINTS,
        "threads": torch.get_num_threads(),
        "command": COMMAND,
        "version": salvit.__version__,
        "hardware": hardware(),
    }


def _milliseconds(model: SalViT, shots: int) -> float:
    images = [_image(model.input_size, seed) for seed in range(shots + 1)]
    names = tuple(f"keypoint {number}" for number in range(KEYPOINTS))
    rng = np.random.default_rng(0)
    examples = [
        Example(image, names, rng.uniform(0, model.input_size - 1, (KEYPOINTS, 2)), np.ones(KEYPOINTS, dtype=bool))
        for image in images[:shots]
    ]
    seconds = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        model.detect(model.learn(examples), images[shots:])
        seconds.append(time.perf_counter() - start)
    return 1000 * statistics.median(seconds[1:])


def _image(size: int, seed: int) -> FittedImage:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (size, size, 3), dtype=np.uint8)
    saliency = rng.random((size, size), dtype=np.float32)
    return FittedImage(pixels, fit_square((0.0, 0.0, float(size), float(size)), size), str(seed), saliency)
