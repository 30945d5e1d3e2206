"""Episodes: K marked supports and some queries, with all base or all novel keypoints of their species.

They are of one species; in training a share of them may be of several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from salvit.data.augment import AugmentSettings, Pairs, View, draw_view
from salvit.data.auxiliary import default_paths, random_paths
from salvit.data.crops import Crop
from salvit.data.images import image_hw as read_image_hw
from salvit.data.occlude import Occlusion
from salvit.data.splits import Kind, Problem, Purpose, Role, check_allowed, file_of
from salvit.data.views import select_keypoints
from salvit.types import BoolArray, Record

LEAST_QUERIES = 0.4
"""At least this share of the queries must show enough keypoints that the supports show too."""
FEWEST_QUERIES = 5
"""Where all that are left are taken, a species with fewer is not."""
MAX_TRIES = 1000
"""After so many draws without an acceptable episode, the data are at fault."""
SaliencyOf = Callable[[Record], npt.NDArray[np.float32]]
"""Gives the saliency map (h, w) in [0, 1] of a record's whole image."""
AuxiliaryMode = Literal["default", "random", "none"]


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode, complete: loading it needs no further draw, so that it gives the same pixels anywhere."""

    kind: Kind
    species: str
    names: tuple[str, ...]
    """Its N keypoints."""
    supports: tuple[View, ...]
    queries: tuple[View, ...]
    paths: tuple[tuple[int, int], ...] = ()
    """Paths of auxiliary keypoints, as indices of names."""
    pairs: Pairs = ()
    """Left/right names, for mirrored views."""
    occlusions: tuple[Occlusion | None, ...] = ()
    """One for each query, or none at all."""
    seed: int = 0
    """For draws that need the pixels: the training masks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeSettings:
    """How episodes are drawn; the defaults are the paper's test."""

    shots: int | tuple[int, int] = 1
    """K, or the least and the most K, drawn anew for each episode."""
    queries: int = 5
    is_up_to: bool = False
    """Take all queries that a species has left where it has fewer (transduction: the more the better), at least 5."""
    crop: Crop = "gt-random"
    augment: AugmentSettings | None = None
    """Training only."""
    auxiliary: AuxiliaryMode = "none"
    """Default paths (random where the data set has none), six random paths, or no auxiliary keypoints."""
    mixed: float = 0.0
    """Training only: the share of episodes whose pictures are of any species that have the same keypoints."""

    def __post_init__(self) -> None:
        low, high = self.shots_range
        if not 1 <= low <= high or self.queries < 1:
            raise ValueError(f"expected at least one support and one query, got {self.shots} and {self.queries}")
        if not 0 <= self.mixed <= 1:
            raise ValueError(f"the share of mixed episodes must lie in 0 to 1, got {self.mixed}")

    @property
    def shots_range(self) -> tuple[int, int]:
        """Least and most K."""
        return (self.shots, self.shots) if isinstance(self.shots, int) else self.shots

    @property
    def least_files(self) -> int:
        """So many image files a species needs for an episode."""
        return self.shots_range[1] + (min(self.queries, FEWEST_QUERIES) if self.is_up_to else self.queries)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The records of one species that show at least one wanted keypoint."""

    species: str
    names: tuple[str, ...]
    records: tuple[Record, ...]
    visible: BoolArray
    """(R, N)."""
    files: npt.NDArray[np.int64]
    """(R,) the number of each record's image file."""


@dataclass(frozen=True, slots=True)
class DrawnRecords:
    """Whom an episode shows, before windows are chosen."""

    species: str
    names: tuple[str, ...]
    supports: tuple[Record, ...]
    queries: tuple[Record, ...]
    known: BoolArray
    """(N,) the keypoints that some support shows."""


class EpisodePool:
    """Draws episodes of one part of a problem. Episode ``index`` depends on the seed and the index alone."""

    def __init__(
        self,
        problem: Problem,
        role: Role,
        kind: Kind,
        settings: EpisodeSettings,
        *,
        purpose: Purpose,
        seed: int,
        saliency_of: SaliencyOf | None = None,
    ) -> None:
        """Gather the candidates.

        Args:
            problem: Divided data.
            role: The part to draw from.
            kind: Base or novel keypoints.
            settings: How episodes are drawn.
            purpose: What the episodes are for; a part that it must not look at is refused.
            seed: Chooses the sequence of episodes.
            saliency_of: Needed by the crop ``saliency`` only.

        Raises:
            ValueError: The purpose may not look at that part, or there is too little data.
        """
        if purpose == "train" and kind == "novel" and not problem.split.keypoints_by_species:
            raise ValueError("novel keypoints must not be trained on; draw episodes of kind `base` to train")
        check_allowed(problem, purpose, problem.records[role])
        self.problem, self.role, self.kind, self.settings, self.seed = problem, role, kind, settings, seed
        self.saliency_of = saliency_of
        self.candidates = _gather(problem, role, kind, settings.least_files)
        weights = np.array([len(candidates.records) for candidates in self.candidates], dtype=np.float64)
        if problem.split.species_draw == "uniform":
            weights[:] = 1.0
        self.weights = weights / weights.sum()
        self._mixed = _join(self.candidates) if settings.mixed else None

    def draw(self, index: int) -> Episode:
        """Episode number ``index``: always the same for the same pool and seed."""
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, index]))
        drawn = self.draw_records(rng)
        split = self.problem.split
        return Episode(
            self.kind,
            drawn.species,
            drawn.names,
            tuple(self._draw_view(record, rng) for record in drawn.supports),
            tuple(self._draw_view(record, rng) for record in drawn.queries),
            draw_paths(self.settings.auxiliary, drawn, split.paths, rng),
            split.pairs,
            seed=int(rng.integers(2**31)),
        )

    def draw_records(self, rng: np.random.Generator) -> DrawnRecords:
        """The records of an acceptable episode, from different image files."""
        least = getattr(self.problem.split.least_shared, self.kind)
        low, high = self.settings.shots_range
        for _ in range(MAX_TRIES):
            candidates = self.candidates[int(rng.choice(len(self.candidates), p=self.weights))]
            if self._mixed is not None and rng.random() < self.settings.mixed:
                candidates = self._mixed
            shots = int(rng.integers(low, high + 1))
            chosen = _draw_files(candidates, shots + self.settings.queries, rng)
            if is_acceptable(candidates.visible[chosen[:shots]], candidates.visible[chosen[shots:]], least):
                records = tuple(candidates.records[index] for index in chosen)
                known = np.asarray(candidates.visible[chosen[:shots]].any(0))
                return DrawnRecords(candidates.species, candidates.names, records[:shots], records[shots:], known)
        raise ValueError(
            f"no acceptable episode in {MAX_TRIES} draws from {self.problem.name}/{self.problem.unseen} ({self.role}, "
            f"{self.kind}): too few images show {least} keypoints that others show too"
        )

    def _draw_view(self, record: Record, rng: np.random.Generator) -> View:
        saliency = None
        if self.settings.crop == "saliency" and self.saliency_of is not None:
            saliency = self.saliency_of(record)
        return draw_view(
            record,
            record.image_hw or read_image_hw(record.path),
            self.settings.crop,
            rng,
            self.settings.augment,
            can_flip=bool(self.problem.split.pairs),
            saliency=saliency,
        )


def is_acceptable(support_visible: BoolArray, query_visible: BoolArray, least_shared: int) -> bool:
    """The authors' rule: the supports show enough keypoints between them, and ≥ 40 % of the queries enough of these.

    Args:
        support_visible: (K, N).
        query_visible: (Q, N).
        least_shared: What is enough: 3, or 2 for the novel keypoints of NABirds.
    """
    union = support_visible.any(0)
    shared = (query_visible & union).sum(1)
    return bool(union.sum() >= least_shared and (shared >= least_shared).mean() >= LEAST_QUERIES)


def _gather(problem: Problem, role: Role, kind: Kind, num_files: int) -> tuple[_Candidates, ...]:
    """Candidates of every species that has enough image files for an episode."""
    by_species: dict[str, list[Record]] = {}
    for record in problem.records[role]:
        by_species.setdefault(record.species, []).append(record)
    gathered = []
    for species, records in sorted(by_species.items()):
        names = problem.keypoints(kind, species)
        seen = [select_keypoints(record, names)[1] for record in records] if names else []
        kept = [index for index, visible in enumerate(seen) if visible.any()]
        files: dict[str, int] = {}
        numbers = [files.setdefault(file_of(records[index]), len(files)) for index in kept]
        if len(files) < num_files:
            continue
        visible = np.stack([seen[index] for index in kept])
        wanted = tuple(records[index] for index in kept)
        gathered.append(_Candidates(species, names, wanted, visible, np.array(numbers)))
    if not gathered:
        raise ValueError(
            f"{problem.name}/{problem.unseen}: no species of `{role}` has {num_files} images that show {kind} "
            "keypoints; take fewer shots or queries, or check the data with `salvit data check`"
        )
    return tuple(gathered)


def _join(candidates: tuple[_Candidates, ...]) -> _Candidates:
    """Candidates of all species as of one; they must have the same keypoints."""
    names = {one.names for one in candidates}
    if len(names) > 1:
        raise ValueError("species whose keypoints differ cannot share an episode; set data.mixed = 0")
    files: dict[str, int] = {}
    records = tuple(record for one in candidates for record in one.records)
    numbers = [files.setdefault(file_of(record), len(files)) for record in records]
    visible = np.concatenate([one.visible for one in candidates])
    return _Candidates("", names.pop(), records, visible, np.array(numbers))


def _draw_files(candidates: _Candidates, num: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw records of different image files, each record alike: (num,) indices."""
    order = rng.permutation(len(candidates.records))
    _, first = np.unique(candidates.files[order], return_index=True)
    return order[np.sort(first)[:num]]


def draw_paths(
    mode: AuxiliaryMode, drawn: DrawnRecords, paths: Pairs, rng: np.random.Generator
) -> tuple[tuple[int, int], ...]:
    """The paths of auxiliary keypoints of one episode, as indices of its names."""
    if mode == "none":
        return ()
    if mode == "default" and paths:
        return default_paths(drawn.names, paths)
    return random_paths(drawn.known, rng)
