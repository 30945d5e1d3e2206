"""What it costs to let the pictures of a folder help each other, from decoded pixels on."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from salvit.backbones.weights import weights_path
from salvit.data.creatures import KEYPOINTS, SPECIES, draw_creature
from salvit.data.images import fit_image
from salvit.model.build import build_model
from salvit.model.detector import SalViT
from salvit.model.settings import preset
from salvit.priors import provider_of, with_saliency
from salvit.saliency import Provider
from salvit.transductive import refine_pack
from salvit.types import Encoded, Example, FittedImage

_QUERIES, _KEYPOINTS, _BATCH, _ROUNDS = 60, 11, 8, 3


def run() -> dict[str, float]:
    """``transductive_over_inductive``: SalViT on DINOv2; ``lite0 …``: on lite0. 60 queries, 11 keypoints, narrow heads.

    Saliency is made on the way where the model wants one. Ratios are medians over neighbouring runs.
    """
    figures = _measure("salvit-dinov2")
    return figures | {f"lite0 {name}": value for name, value in _measure("salvit-lite0").items()}


def _measure(name: str) -> dict[str, float]:
    torch.manual_seed(0)
    settings = preset(name, "narrow")
    model = build_model(settings, weights_path(settings.backbone.name))
    drawn = [draw_creature(SPECIES[n % len(SPECIES)], seed=n, size_hw=(240, 320)).image for n in range(10)]
    images = [fit_image(drawn[n % len(drawn)], model.input_size) for n in range(_QUERIES)]
    points = np.random.default_rng(0).uniform(40, model.input_size - 40, size=(_KEYPOINTS, 2))
    road = _Road(model, provider_of(model))
    road.learn(Example(images[0], KEYPOINTS[:_KEYPOINTS], points, np.ones(_KEYPOINTS, dtype=bool)))
    road.inductive(images[:_BATCH])
    road.transductive(images[:_BATCH])
    alone, together = [], []
    for _ in range(_ROUNDS):
        alone.append(_seconds(road.inductive, images))
        together.append(_seconds(road.transductive, images))
    return {
        "transductive_over_inductive": statistics.median(b / a for a, b in zip(alone, together, strict=True)),
        "inductive_ms_per_image": 1000 * statistics.median(alone) / _QUERIES,
        "transductive_ms_per_image": 1000 * statistics.median(together) / _QUERIES,
    }


class _Road:
    """From pixels to points, each picture alone or all together."""

    def __init__(self, model: SalViT, provider: Provider | None) -> None:
        self._model, self._provider = model, provider

    def learn(self, example: Example) -> None:
        self._pack = self._model.learn([replace(example, image=with_saliency(example.image, self._provider))])

    def inductive(self, images: list[FittedImage]) -> None:
        for batch in self._encode(images):
            self._model.locate(self._pack, batch)

    def transductive(self, images: list[FittedImage]) -> None:
        encoded = self._encode(images)
        refined = refine_pack(self._model, self._pack, encoded)
        for batch in encoded:
            self._model.locate(refined, batch)

    def _encode(self, images: list[FittedImage]) -> list[Encoded]:
        parts = [images[start : start + _BATCH] for start in range(0, len(images), _BATCH)]
        return [self._model.encode([with_saliency(image, self._provider) for image in part]) for part in parts]


def _seconds(job: Callable[[list[FittedImage]], None], images: list[FittedImage]) -> float:
    start = time.perf_counter()
    job(images)
    return time.perf_counter() - start
