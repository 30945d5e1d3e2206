"""Where a run's episodes come from: one data set or several, cached tokens or fresh views.

Which data set an episode is of depends on the seed and the episode's number alone, as everything else about it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np
from filelock import FileLock

from salvit.backbones.weights import cache_folder
from salvit.data.creatures import SPECIES, write_creatures
from salvit.data.episodes import EpisodePool, EpisodeSettings
from salvit.data.loading import LoadSettings
from salvit.data.splits import Kind, Problem, Purpose, Role, open_problem, with_all_keypoints
from salvit.episode_tensors import (
    CachedEpisodes,
    EpisodeSource,
    EpisodeTensors,
    FreshEpisodes,
    PairSettings,
    count_parts,
    rng_of_episode,
)
from salvit.features import SaliencyOf, Track, ViewSettings, open_cache
from salvit.masked_views import CachedMasker, FreshMasker, Masker, open_masked_tokens
from salvit.model.detector import SalViT
from salvit.recipes import DataSettings, Recipe
from salvit.types import Record

_CREATURES_HW = (288, 384)
"""Size of drawn pictures: that of the copies of real ones which were at hand."""
_CREATURES_SEED = 1000
"""Seed of the first drawing of each species; the demo's pictures have smaller ones."""
_MIXING = 1
"""Sets the draw of the data set apart from other draws of the same episode."""


def open_problems(recipe: Recipe, roots: Mapping[str, Path]) -> list[Problem]:
    """The problems of a recipe's data sets, in their order.

    Args:
        recipe: Names the data sets.
        roots: Name → folder. Creatures without a folder are drawn into the cache folder.
    """
    names = [data.name for data in recipe.datasets]
    if unknown := sorted(set(roots) - set(names)):
        raise ValueError(f"--root {unknown[0]}=…: the recipe has no such data set; it has {', '.join(names)}")
    if missing := [name for name in names if name not in roots and name != "creatures"]:
        raise ValueError(f"where is the data set {missing[0]}? give its folder: --root {missing[0]}=DIR")
    problems = []
    for data in recipe.datasets:
        root = roots.get(data.name) or _drawn_creatures(data.pictures)
        problem = open_problem(data.name, root, data.unseen, dev_species=data.dev_species)
        problems.append(with_all_keypoints(problem) if data.keypoints == "all" else problem)
    return problems


def _drawn_creatures(pictures: int) -> Path:
    """A folder of so many drawings of each species; drawn once."""
    folder = cache_folder() / "creatures" / f"{pictures}-{_CREATURES_HW[1]}x{_CREATURES_HW[0]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            partial = folder.with_suffix(".part")
            shutil.rmtree(partial, ignore_errors=True)
            write_creatures(partial, SPECIES, pictures, _CREATURES_SEED, size_hw=_CREATURES_HW)
            partial.rename(folder)
    return folder


def choose_source(weights: Sequence[float], seed: int, index: int) -> int:
    """The number of the source that episode ``index`` comes from: each has the chance that its weight gives it."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, index], spawn_key=(_MIXING,)))
    return int(rng.choice(len(weights), p=np.array(weights, dtype=np.float64) / sum(weights)))


class MixedEpisodes:
    """Episodes of several sources; each is drawn with the chance that its weight gives it."""

    def __init__(
        self, sources: Sequence[EpisodeSource], weights: Sequence[float], seed: int, parts: Sequence[int] = ()
    ) -> None:
        """``parts``: how many parts of the body each source names; those of one come after those of another."""
        self._sources, self._weights, self._seed = sources, weights, seed
        self._first_parts = [0, *accumulate(parts)] if parts else []

    def choose(self, index: int) -> int:
        """The number of the source that episode ``index`` comes from."""
        return choose_source(self._weights, self._seed, index)

    def load(self, index: int) -> EpisodeTensors:
        """Episode number ``index``."""
        number = self.choose(index)
        episode = self._sources[number].load(index)
        return replace(episode, first_part=self._first_parts[number]) if self._first_parts else episode


class Sources:
    """A run's training episodes, and its dev episodes by data set and kind of keypoints."""

    def __init__(
        self,
        recipe: Recipe,
        problems: Sequence[Problem],
        model: SalViT,
        saliency_of: SaliencyOf | None,
        track: Track,
    ) -> None:
        self._recipe, self._model, self._saliency_of, self._track = recipe, model, saliency_of, track
        settings = recipe.train
        pairs = list(zip(recipe.datasets, problems, strict=True))
        each = [self._train_source(data, problem) for data, problem in pairs]
        weights = [data.weight for data in recipe.datasets]
        parts = [count_parts(problem, settings.auxiliary) for problem in problems]
        self.train: EpisodeSource = each[0] if len(each) == 1 else MixedEpisodes(each, weights, settings.seed, parts)
        self.dev: dict[str, dict[Kind, EpisodeSource]] = {}
        if settings.dev_every:
            self.dev = {p.name: self._dev_sources(data, p) for data, p in pairs if p.records["dev"]}
            if not self.dev:
                raise ValueError(f"{', '.join(p.name for p in problems)}: no dev records; set train.dev_every = 0")

    def _train_source(self, data: DataSettings, problem: Problem) -> EpisodeSource:
        settings = self._recipe.train
        shown = EpisodeSettings(
            shots=settings.shots,
            queries=settings.queries,
            crop=data.train_crop or data.crop,
            augment=data.augment,
            auxiliary=settings.auxiliary,
            mixed=data.mixed,
        )
        return self._source(problem, "train", "base", shown, settings.views)

    def _dev_sources(self, data: DataSettings, problem: Problem) -> dict[Kind, EpisodeSource]:
        settings = self._recipe.train
        asked = EpisodeSettings(shots=1, queries=settings.queries, crop=data.crop)
        is_one_kind = problem.split.keypoints_by_species or not problem.split.novel
        kinds: tuple[Kind, ...] = ("base",) if is_one_kind else ("novel", "base")
        return {kind: self._source(problem, "dev", kind, asked, min(1, settings.views)) for kind in kinds}

    def _source(self, problem: Problem, role: Role, kind: Kind, settings: EpisodeSettings, views: int) -> EpisodeSource:
        purpose: Purpose = "train" if role == "train" else "tune"
        seed = self._recipe.train.seed
        pool = EpisodePool(problem, role, kind, settings, purpose=purpose, seed=seed)
        masking = self._recipe.train.masking
        is_masked = role == "train" and masking.is_on
        pairs = self._pairs() if role == "train" else None
        if views == 0:
            masker: Masker | None = FreshMasker(self._model, masking) if is_masked else None
            loading = LoadSettings(size=self._model.input_size, saliency_of=self._saliency_of)
            return FreshEpisodes(pool, loading, self._model, masker, pairs)
        view_seed = self._recipe.train.view_seed
        shown = ViewSettings(
            crop=settings.crop,
            views=views,
            seed=seed if view_seed is None else view_seed,
            augment=settings.augment,
        )
        records = self._needed(pool) if role == "train" else problem.records[role]
        cache = open_cache(self._model, problem, records, shown, saliency_of=self._saliency_of, track=self._track)
        if not is_masked:
            return CachedEpisodes(pool, cache, self._model, None, pairs)
        masked = None
        if masking.rgb:
            masked = open_masked_tokens(self._model, problem, records, cache, shown, masking.views, track=self._track)
        return CachedEpisodes(pool, cache, self._model, CachedMasker(self._model, masking, masked), pairs)

    def _needed(self, pool: EpisodePool) -> list[Record]:
        """The records of a set that the run's episodes show: a short one does not show all."""
        settings, needed = self._recipe.train, dict[str, Record]()
        shares = [data.weight for data in self._recipe.datasets]
        number = [data.name for data in self._recipe.datasets].index(pool.problem.name)
        for index in range(settings.episodes):
            if choose_source(shares, settings.seed, index) == number:
                drawn = pool.draw_records(rng_of_episode(pool.seed, index))
                needed.update((record.id, record) for record in drawn.supports + drawn.queries)
        return [record for record in pool.problem.records[pool.role] if record.id in needed]

    def _pairs(self) -> PairSettings:
        settings, model = self._recipe.train, self._recipe.model
        has_presence = model.method == "salvit" and model.head.presence
        return PairSettings(most=settings.pairs, absent=settings.absent_pairs if has_presence else 0.0)
