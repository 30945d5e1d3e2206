"""From episodes to arrays, in worker processes: the same for any number of them, and resumable at any episode."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np
import numpy.typing as npt

from salvit.data.augment import View
from salvit.data.auxiliary import interpolate
from salvit.data.episodes import Episode, SaliencyOf
from salvit.data.occlude import Occlusion, hide_patches, sample_patch_mask
from salvit.data.views import LoadedView, load_view
from salvit.types import BoolArray, FloatArray

PREFETCH = 2
"""Each worker has so many episodes under way."""


@dataclass(frozen=True, slots=True)
class LoadedImages:
    """The supports or the queries of an episode. B images · N keypoints · M auxiliary ones · S side · G grid."""

    ids: tuple[str, ...]
    """Record ids."""
    pixels: npt.NDArray[np.uint8]
    """(B, S, S, 3) RGB."""
    points: FloatArray
    """(B, N, 2) in pixels of the input."""
    visible: BoolArray
    """(B, N)."""
    boxes: FloatArray
    """(B, 4) xyxy in edge coordinates of the input."""
    auxiliary_points: FloatArray
    """(B, M, 2)."""
    auxiliary_visible: BoolArray
    """(B, M)."""
    saliency: npt.NDArray[np.uint8] | None = None
    """(B, S, S) in 0 … 255."""
    masks: BoolArray | None = None
    """(B, G, G) the patches that a masked view hides, True = hidden; see :meth:`masked`."""

    def masked(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8] | None]:
        """Pixels and saliency of the masked views, like ``pixels`` and ``saliency``; needs ``masks``."""
        if self.masks is None:
            raise ValueError("no masks were drawn; load the episode with `mask_patch`")
        planes = self.saliency if self.saliency is not None else [None] * len(self.pixels)
        hidden = [hide_patches(*both) for both in zip(self.pixels, planes, self.masks, strict=True)]
        return np.stack([pixels for pixels, _ in hidden]), None if self.saliency is None else np.stack(
            [plane for _, plane in hidden if plane is not None]
        )


@dataclass(frozen=True, slots=True)
class LoadedEpisode:
    """An episode as arrays."""

    index: int
    episode: Episode
    support: LoadedImages
    query: LoadedImages

    @property
    def valid(self) -> BoolArray:
        """(Q, N) keypoints that count: the query shows them, and some support does."""
        return self.query.visible & self.support.visible.any(0)

    @property
    def auxiliary_valid(self) -> BoolArray:
        """(Q, M) the same for auxiliary keypoints."""
        return self.query.auxiliary_visible & self.support.auxiliary_visible.any(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadSettings:
    """How episodes become arrays."""

    size: int = 384
    saliency_of: SaliencyOf | None = None
    """Gives saliency maps; with workers it must be picklable: a function of a module, or an object."""
    mask_patch: int | None = None
    """Draw training masks of patches of this side; needs saliency."""


class EpisodeSource(Protocol):
    """Whatever gives episode number ``index``: a pool, or a frozen list. With workers it must be picklable."""

    def draw(self, index: int) -> Episode:
        """The episode."""
        ...


def load_episode(episode: Episode, settings: LoadSettings, index: int = 0) -> LoadedEpisode:
    """Read, change and fit all images of an episode, and interpolate its auxiliary keypoints."""
    rng = np.random.default_rng(episode.seed)
    support = _load_images(episode, episode.supports, (), settings, rng)
    query = _load_images(episode, episode.queries, episode.occlusions, settings, rng)
    return LoadedEpisode(index, episode, support, query)


def iterate_episodes(
    source: EpisodeSource, settings: LoadSettings, *, workers: int = 0, start: int = 0, stop: int | None = None
) -> Iterator[LoadedEpisode]:
    """Episodes ``start`` … ``stop − 1`` in order (without end if stop is None).

    Args:
        source: Gives episodes by index.
        settings: How they are loaded.
        workers: Processes that draw and load; 0 does it here. The result does not depend on it.
        start: The first index: resume a run by the number of episodes that it has had.
        stop: One past the last index.
    """
    if workers < 0 or start < 0:
        raise ValueError(f"workers and start are counts ≥ 0, got {workers} and {start}")
    indices = count(start) if stop is None else iter(range(start, stop))
    if workers == 0:
        for index in indices:
            yield load_episode(source.draw(index), settings, index)
        return
    # a fork server: forking this process would copy its locks, and torch's threads with them
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["salvit.data.loading"])
    pool = ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(source, settings))
    pending: deque[Future[LoadedEpisode]] = deque()
    try:
        for index in indices:
            pending.append(pool.submit(_work, index))
            if len(pending) > PREFETCH * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_worker: tuple[EpisodeSource, LoadSettings] | None = None
"""Set once in each worker process, so that the source is sent once and not with every episode."""


def _start_worker(source: EpisodeSource, settings: LoadSettings) -> None:
    global _worker
    _worker = (source, settings)


def _work(index: int) -> LoadedEpisode:
    assert _worker is not None
    source, settings = _worker
    return load_episode(source.draw(index), settings, index)


def _load_images(
    episode: Episode,
    views: Sequence[View],
    occlusions: Sequence[Occlusion | None],
    settings: LoadSettings,
    rng: np.random.Generator,
) -> LoadedImages:
    loaded: list[LoadedView] = []
    for number, view in enumerate(views):
        loaded.append(
            load_view(
                view,
                settings.size,
                episode.names,
                pairs=episode.pairs,
                saliency=None if settings.saliency_of is None else settings.saliency_of(view.record),
                occlusion=occlusions[number] if occlusions else None,
            )
        )
    points, visible = np.stack([view.points_input for view in loaded]), np.stack([view.visible for view in loaded])
    planes = [view.saliency for view in loaded if view.saliency is not None]
    saliency = np.stack(planes) if planes else None
    auxiliary = interpolate(points, visible, episode.paths, settings.size, saliency)
    return LoadedImages(
        tuple(view.record.id for view in views),
        np.stack([view.pixels for view in loaded]),
        points,
        visible,
        np.array([view.box_input for view in loaded]),
        *auxiliary,
        saliency,
        _draw_masks(saliency, settings.mask_patch, rng),
    )


def _draw_masks(
    saliency: npt.NDArray[np.uint8] | None, patch: int | None, rng: np.random.Generator
) -> BoolArray | None:
    if patch is None:
        return None
    if saliency is None:
        raise ValueError("training masks hide foreground patches and need saliency maps; give `saliency_of`")
    return np.stack([sample_patch_mask(plane, rng, patch=patch) for plane in saliency])
