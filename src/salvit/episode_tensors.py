"""Training episodes as tensors, from cached tokens or from fresh views.

Letters: K supports · Q queries · M keypoints, the first N of them real, the others auxiliary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from salvit.data.auxiliary import NODES, default_paths, interpolate
from salvit.data.episodes import AuxiliaryMode, DrawnRecords, EpisodePool, draw_paths
from salvit.data.loading import LoadedImages, LoadSettings, load_episode
from salvit.data.splits import Problem
from salvit.features import TokenCache
from salvit.masked_views import MaskedQueries, Masker
from salvit.model.detector import SalViT
from salvit.model.encoder import EncoderInput
from salvit.types import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class EpisodeTensors:
    """One episode, ready for :meth:`SalViT.forward` and the losses."""

    support: EncoderInput
    support_points: Tensor
    """(K, M, 2) in the input."""
    support_mask: Tensor
    """(K, M)."""
    query: EncoderInput
    query_points: Tensor
    """(Q, M, 2)."""
    valid: Tensor
    """(Q, M) the keypoint counts: the query shows it, and some support does."""
    num_real: int
    """N."""
    boxes: Tensor
    """(K + Q, 4) of supports and queries, xyxy in the input."""
    masked: MaskedQueries | None = None
    """The masked view of the queries, where the run has one."""
    wanted: Tensor | None = None
    """(Q, M) pairs of query and keypoint that the step looks at; None: the valid ones."""
    num_named: int = 0
    """The first so many are the same parts of the body in every episode of a data set (:func:`count_parts`)."""
    first_part: int = 0
    """The number of the first of them among the parts of all data sets that are trained on."""

    @property
    def box_sides(self) -> Tensor:
        """(Q,) the longer side of each query's box, in the input."""
        boxes = self.boxes[len(self.support_mask) :]
        return (boxes[:, 2:] - boxes[:, :2]).max(1).values


@dataclass(frozen=True, kw_only=True, slots=True)
class PairSettings:
    """Which pairs of query and keypoint a step looks at."""

    most: int | None = None
    """At most so many valid ones, drawn anew for each episode; None: all."""
    absent: float = 0.0
    """Beside them so many, as a share of theirs, whose keypoint a support has and the query does not show: from these
    presence is learnt."""


class EpisodeSource(Protocol):
    """Gives episode number ``index``, the same whenever it is asked."""

    def load(self, index: int) -> EpisodeTensors:
        """One episode."""
        ...


def rng_of_episode(seed: int, index: int) -> np.random.Generator:
    """All draws of an episode; whom it shows is drawn first."""
    return np.random.default_rng(np.random.SeedSequence([seed, index]))


class CachedEpisodes:
    """Episodes whose images are rows of a token cache; which view of a record is shown is drawn anew each time."""

    def __init__(
        self,
        pool: EpisodePool,
        cache: TokenCache,
        model: SalViT,
        masker: Masker | None = None,
        pairs: PairSettings | None = None,
    ) -> None:
        self._pool, self._cache, self._model, self._masker = pool, cache, model, masker
        self._pairs = pairs or PairSettings()

    def load(self, index: int) -> EpisodeTensors:
        """Episode number ``index``."""
        rng = rng_of_episode(self._pool.seed, index)
        drawn = self._pool.draw_records(rng)
        paths = draw_paths(self._pool.settings.auxiliary, drawn, self._pool.problem.split.paths, rng)
        picks = [(record.id, int(rng.integers(self._cache.views))) for record in drawn.supports + drawn.queries]
        points, visible = self._labels(drawn, picks, paths)
        shots, device = len(drawn.supports), self._model.device
        boxes = [self._cache.boxes[self._cache.rows[pick]] for pick in picks]
        query = self._cache.encoder_input(picks[shots:], device)
        episode = _tensors(
            self._cache.encoder_input(picks[:shots], device),
            query,
            (points[:shots], visible[:shots]),
            (points[shots:], visible[shots:]),
            len(drawn.names),
            np.stack(boxes),
            device,
        )
        masked = None if self._masker is None else self._masker.draw(query, rng, picks[shots:])
        parts = count_parts(self._pool.problem, self._pool.settings.auxiliary)
        return replace(episode, masked=masked, wanted=draw_pairs(episode, self._pairs, rng), num_named=parts)

    def _labels(
        self, drawn: DrawnRecords, picks: list[tuple[str, int]], paths: tuple[tuple[int, int], ...]
    ) -> tuple[FloatArray, BoolArray]:
        points, visible = [], []
        for record_id, view in picks:
            real, shown = self._cache.labels(record_id, view, drawn.names)
            saliency = self._cache.saliency
            plane = None if saliency is None else np.asarray(saliency[self._cache.rows[record_id, view]])
            between, there = interpolate(real, shown, paths, self._model.input_size, plane)
            points.append(np.concatenate([real, between]))
            visible.append(np.concatenate([shown, there]))
        return np.stack(points), np.stack(visible)


class FreshEpisodes:
    """Episodes whose views are read, augmented and encoded each time."""

    def __init__(
        self,
        pool: EpisodePool,
        settings: LoadSettings,
        model: SalViT,
        masker: Masker | None = None,
        pairs: PairSettings | None = None,
    ) -> None:
        self._pool, self._settings, self._model, self._masker = pool, settings, model, masker
        self._pairs = pairs or PairSettings()

    def load(self, index: int) -> EpisodeTensors:
        """Episode number ``index``."""
        loaded = load_episode(self._pool.draw(index), self._settings, index)
        query = self._prepare(loaded.query)
        episode = _tensors(
            self._prepare(loaded.support),
            query,
            _with_auxiliary(loaded.support),
            _with_auxiliary(loaded.query),
            len(loaded.episode.names),
            np.concatenate([loaded.support.boxes, loaded.query.boxes]),
            self._model.device,
        )
        rng = np.random.default_rng(np.random.SeedSequence([self._pool.seed, index, 1]))
        masked = None if self._masker is None else self._masker.draw(query, rng)
        parts = count_parts(self._pool.problem, self._pool.settings.auxiliary)
        return replace(episode, masked=masked, wanted=draw_pairs(episode, self._pairs, rng), num_named=parts)

    def _prepare(self, images: LoadedImages) -> EncoderInput:
        device = self._model.device
        pixels = torch.from_numpy(images.pixels).to(device).permute(0, 3, 1, 2).float() / 255.0
        saliency = None if images.saliency is None else torch.from_numpy(images.saliency).to(device).float() / 255.0
        return self._model.prepare(pixels, saliency)


def count_parts(problem: Problem, auxiliary: AuxiliaryMode) -> int:
    """How many of a training episode's keypoints are the same parts in every episode.

    Its base keypoints, and the auxiliary ones where paths are fixed; none where species have keypoints of their own.
    """
    split = problem.split
    if split.keypoints_by_species:
        return 0
    paths = default_paths(split.base, split.paths) if auxiliary == "default" else ()
    return len(split.base) + len(NODES) * len(paths)


def draw_pairs(episode: EpisodeTensors, settings: PairSettings, rng: np.random.Generator) -> Tensor | None:
    """The pairs (Q, M) that a step looks at; None where they are the valid ones."""
    valid = episode.valid.cpu().numpy()
    count = valid.sum() if settings.most is None else min(int(valid.sum()), settings.most)
    has = episode.support_mask.any(0).cpu().numpy()
    absent = ~valid & has & (np.arange(valid.shape[1]) < episode.num_real)  # a pruned auxiliary point may be there
    extra = min(int(absent.sum()), round(settings.absent * count))
    if count == valid.sum() and extra == 0:
        return None
    wanted = np.zeros_like(valid)
    for among, number in ((valid, count), (absent, extra)):
        wanted.flat[rng.choice(np.flatnonzero(among), number, replace=False)] = True
    return torch.from_numpy(wanted).to(episode.valid.device)


def _with_auxiliary(images: LoadedImages) -> tuple[FloatArray, BoolArray]:
    points = np.concatenate([images.points, images.auxiliary_points], axis=1)
    return points, np.concatenate([images.visible, images.auxiliary_visible], axis=1)


def _tensors(
    support: EncoderInput,
    query: EncoderInput,
    support_labels: tuple[FloatArray, BoolArray],
    query_labels: tuple[FloatArray, BoolArray],
    num_real: int,
    boxes: FloatArray,
    device: torch.device,
) -> EpisodeTensors:
    def tensor(array: FloatArray) -> Tensor:
        return torch.from_numpy(array).to(device, torch.float32)

    mask = torch.from_numpy(support_labels[1]).to(device)
    shown = torch.from_numpy(query_labels[1]).to(device)
    return EpisodeTensors(
        support=support,
        support_points=tensor(support_labels[0]),
        support_mask=mask,
        query=query,
        query_points=tensor(query_labels[0]),
        valid=shown & mask.any(0),
        num_real=num_real,
        boxes=tensor(boxes),
    )
