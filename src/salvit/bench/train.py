"""Training on cached tokens against training that runs the frozen backbone for every episode."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from salvit.backbones.weights import weights_path
from salvit.data.augment import AugmentSettings
from salvit.data.creatures import SPECIES, write_creatures
from salvit.data.episodes import EpisodePool, EpisodeSettings
from salvit.data.loading import LoadSettings
from salvit.data.splits import open_problem
from salvit.episode_tensors import CachedEpisodes, EpisodeSource, FreshEpisodes
from salvit.features import ViewSettings, open_cache
from salvit.learner import episode_losses, wanted_pairs, with_total
from salvit.model.build import build_model
from salvit.model.detector import SalViT
from salvit.model.settings import preset
from salvit.recipes import TrainSettings

_ROUNDS = 12


def run() -> dict[str, float]:
    """``cached_over_uncached``: episodes a second, DINOv2 at its usual input, the swift model, 1 to 5 shots."""
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("SALVIT_CACHE")
        weights = weights_path("dinov2-s14")
        os.environ["SALVIT_CACHE"] = folder
        try:
            return _measure(Path(folder), weights)
        finally:
            del os.environ["SALVIT_CACHE"]
            if before is not None:
                os.environ["SALVIT_CACHE"] = before


def _measure(folder: Path, weights: Path | None) -> dict[str, float]:
    write_creatures(folder / "data", SPECIES[:3], 16, 0, size_hw=(480, 640))
    problem = open_problem("creatures", folder / "data", SPECIES[2])
    torch.manual_seed(0)
    model = build_model(preset("salvit-dinov2", "swift"), weights).train()
    augment = AugmentSettings()
    settings = EpisodeSettings(shots=(1, 5), queries=5, crop="gt-random", augment=augment, auxiliary="default")
    pool = EpisodePool(problem, "train", "base", settings, purpose="train", seed=0)
    views = ViewSettings(crop="gt-random", views=1, seed=0, augment=settings.augment)
    records = problem.records["train"]
    cache = open_cache(model, problem, records, views, track=lambda items, total, what: items)
    sources: dict[str, EpisodeSource] = {
        "cached": CachedEpisodes(pool, cache, model),
        "uncached": FreshEpisodes(pool, LoadSettings(size=model.input_size), model),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sources}
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    for index in range(_ROUNDS + 1):
        for name, source in sources.items():
            took = _step(source, index, model, optimizer)
            if index:
                seconds[name].append(took)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "cached_over_uncached": medians["uncached"] / medians["cached"],
        "cached_episodes_per_second": 1 / medians["cached"],
        "uncached_episodes_per_second": 1 / medians["uncached"],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024),
    }


def _step(source: EpisodeSource, index: int, model: SalViT, optimizer: torch.optim.Optimizer) -> float:
    start = time.perf_counter()
    episode = source.load(index)
    wanted = wanted_pairs(episode)
    output = model(episode.support, episode.support_points, episode.support_mask, episode.query, wanted)
    settings = TrainSettings()
    with_total(episode_losses(output, episode, model, settings), settings)["loss"].backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return time.perf_counter() - start
