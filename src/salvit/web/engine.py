"""The detector of a project: encodes its objects, learns from its marks, finds its keypoints. One thread calls it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import torch

from salvit.data.images import read_and_fit
from salvit.model.detector import SalViT
from salvit.model.filters import join_extra
from salvit.predict import conclusions_of, load
from salvit.priors import provider_for_pictures, provider_of, with_saliency
from salvit.projects import Found, Project, Shot, Target, Work, stamps_of
from salvit.saliency import Provider, build_provider
from salvit.transductive import refine_pack
from salvit.types import Detector, Encoded, Example, FittedImage, Pack, Prediction
from salvit.web.encodings import Encodings, encoding_key, join_encodings, join_to_search
from salvit.web.limits import Limits
from salvit.web.models import OWN

_LEARN_TOGETHER = 16
"""Objects whose features are in memory as 32-bit floats at once while a pack is learnt or refined."""


class Unreadable(Exception):
    """A picture that cannot be used, and why."""

    def __init__(self, target: Target, reason: str) -> None:
        super().__init__(reason)
        self.target, self.reason = target, reason


class Engine:
    """What a worker needs of a detector, with features kept between calls."""

    def __init__(self, project: Project, limits: Limits, *, device: str = "auto") -> None:
        self.project, self.work = project, Work(project)
        self.encodings = Encodings(project.home / "features", limits.memory_bytes, limits.disk_bytes)
        self._limits, self._device = limits, device
        self._loaded: tuple[tuple[str, str], Detector, Provider | None, str] | None = None
        self._pack: tuple[tuple[tuple[int, str], ...], Pack] | None = None
        self._keys: dict[Target, str] = {}

    def prepare(self) -> str:
        """Load the model that the project's settings name; returns what marks it out in stamps.

        Every step of a job begins with it: files that have changed since the last step are seen here.
        """
        self._keys = {}
        settings = self.project.settings()
        wanted = (settings["model"], settings["saliency"])
        if self._loaded is None or self._loaded[0] != wanted:
            same = self._loaded is not None and self._loaded[0][0] == wanted[0]
            detector = self._loaded[1] if self._loaded is not None and same else load(wanted[0], device=self._device)
            provider = _provider(detector, wanted[1])
            name = f"{detector.name} {detector.weights_sha256} {'' if provider is None else provider.settings}"
            self._loaded, self._pack = (wanted, detector, provider, name), None
        return f"{self._loaded[3]} {conclusions_of(self._loaded[1])}"

    @property
    def detector(self) -> Detector:
        """The loaded detector."""
        assert self._loaded is not None, "prepare() comes first"
        return self._loaded[1]

    # --- pictures to features ---------------------------------------------------------------------------------------

    def has(self, target: Target) -> bool:
        """Whether an object's features are kept."""
        try:
            return self._key(target) in self.encodings
        except (OSError, ValueError):
            return False

    def encode(self, targets: Sequence[Target]) -> Encoded:
        """Features of objects: kept ones, and the others made together."""
        return join_encodings(self._encodings(targets))

    def _encodings(self, targets: Sequence[Target]) -> list[Encoded]:
        keys = [self._checked_key(target) for target in targets]
        kept = {key: found for key in keys if (found := self.encodings.get(key)) is not None}
        missing = {key: target for key, target in zip(keys, targets, strict=True) if key not in kept}
        if missing:
            encoded = self.detector.encode([self.fit(target) for target in missing.values()])
            if isinstance(self.detector, SalViT):
                encoded = self.detector.look(encoded)
            for row, key in enumerate(missing):
                kept[key] = self.encodings.put(key, encoded.select([row]))
        return [kept[key] for key in keys]

    def fit(self, target: Target) -> FittedImage:
        """An object's picture as the detector takes it, with saliency where it wants one."""
        assert self._loaded is not None
        try:
            path = self.project.locate(target.path)
            image = read_and_fit(path, self.detector.input_size, target.box, max_pixels=self._limits.pixels)
        except (OSError, ValueError) as problem:
            raise Unreadable(target, str(problem)) from problem
        return with_saliency(image, self._loaded[2])

    def _key(self, target: Target) -> str:
        assert self._loaded is not None
        if (key := self._keys.get(target)) is None:
            key = encoding_key(self._loaded[3], self.project.locate(target.path), target.box)
            self._keys[target] = key
        return key

    def _checked_key(self, target: Target) -> str:
        try:
            return self._key(target)
        except (OSError, ValueError) as problem:
            raise Unreadable(target, f"{Path(target.path).name} cannot be read: {problem}") from problem

    # --- marks to packs, packs to points ----------------------------------------------------------------------------

    def learn(self, shots: Sequence[Shot], keypoints: Sequence[int], stamps: dict[int, str]) -> Pack:
        """A pack of some keypoints from all marks of them, its names are their numbers; the last one is kept."""
        wanted = tuple((keypoint, stamps[keypoint]) for keypoint in keypoints)
        if self._pack is not None and self._pack[0] == wanted:
            return self._pack[1]
        chosen = [shot for shot in shots if shot.keypoint in keypoints]
        marked = [(target, list(rows)) for target, rows in groupby(chosen, lambda shot: shot.target)]
        parts = []
        for start in range(0, len(marked), _LEARN_TOGETHER):
            part = marked[start : start + _LEARN_TOGETHER]
            encoded = self.encode([target for target, _ in part])
            examples = [
                _example(rows, keypoints, encoded, number, self.detector.input_size)
                for number, (_, rows) in enumerate(part)
            ]
            parts.append(self.detector.learn(examples, encoded))
        pack = replace(
            parts[0],
            vectors=torch.cat([part.vectors for part in parts]),
            mask=torch.cat([part.mask for part in parts]),
            extra=join_extra([part.extra for part in parts]),
        )
        self._pack = (wanted, pack)
        return pack

    def locate(self, pack: Pack, targets: Sequence[Target]) -> list[Found]:
        """Find a pack's keypoints in objects."""
        return found_of(self.detector.locate(pack, join_to_search(self._encodings(targets))), targets)

    def learn_for(self, keypoints: Sequence[int], shots: Sequence[Shot], stamps: dict[int, str]) -> Pack:
        """A pack to look for some keypoints with.

        For a trained network it holds all that are marked: together they tell how large the object is, and so how near
        is near and how sure a point can be.
        """
        return self.learn(shots, sorted(stamps) if isinstance(self.detector, SalViT) else keypoints, stamps)

    def refine(self, pack: Pack, targets: Sequence[Target]) -> Pack:
        """Let objects refine a pack (:mod:`salvit.transductive`); their features are read a few at a time."""
        return refine_pack(self.detector, pack, _Encodings(self, targets))

    def named_pack(self) -> Pack:
        """A pack of everything that is marked, with the project's names, links and pairs: to be saved."""
        model = self.prepare()
        overview, shots = self.project.overview(), self.work.shots()
        if not shots:
            raise ValueError("no point is marked yet; mark at least one, then ask for a pack")
        stamps = stamps_of(shots, model)
        names = {point["id"]: point["name"] for point in overview["keypoints"]}
        pack = self.learn(shots, sorted(stamps), stamps)

        def named(links: list[list[int]]) -> tuple[tuple[str, str], ...]:
            return tuple((names[first], names[second]) for first, second in links)

        return replace(
            pack,
            names=tuple(names[int(number)] for number in pack.names),
            skeleton=named(overview["skeleton"]),
            pairs=named(overview["pairs"]),
            is_cropped=any(shot.target.box is not None for shot in shots),
        )


class _Encodings:
    """Features of many objects, as often as they are gone through, a few in memory at a time."""

    def __init__(self, engine: Engine, targets: Sequence[Target]) -> None:
        self._engine, self._targets = engine, targets

    def __iter__(self) -> Iterator[Encoded]:
        for start in range(0, len(self._targets), _LEARN_TOGETHER):
            yield self._engine.encode(self._targets[start : start + _LEARN_TOGETHER])


def found_of(prediction: Prediction, targets: Sequence[Target]) -> list[Found]:
    """The rows of a prediction whose names are numbers of keypoints; what it cannot tell is there with presence 0."""
    covariances, scalars = prediction.covariances, np.stack([prediction.scores, prediction.presence], axis=-1)
    spreads = np.stack([covariances[..., 0, 0], covariances[..., 0, 1], covariances[..., 1, 1]], axis=-1)
    values = np.concatenate([prediction.points, scalars, spreads], axis=-1)  # (Q, N, 7)
    is_told = prediction.known & np.isfinite(values).all(-1)
    told = np.where(is_told[..., None], values, 0.0).tolist()
    return [
        Found(target.object, int(name), x, y, score, presence, (xx, xy, yy))
        for target, row in zip(targets, told, strict=True)
        for name, (x, y, score, presence, xx, xy, yy) in zip(prediction.names, row, strict=True)
    ]


def _example(rows: Sequence[Shot], keypoints: Sequence[int], encoded: Encoded, number: int, size: int) -> Example:
    """The marks of one object; its pixels are not needed, because its features are there."""
    fit = encoded.fits[number]
    places = {shot.keypoint: (shot.x, shot.y) for shot in rows}
    points = np.array([places.get(keypoint, (0.0, 0.0)) for keypoint in keypoints], dtype=np.float64)
    visible = np.array([keypoint in places for keypoint in keypoints])
    blank = FittedImage(np.zeros((size, size, 3), dtype=np.uint8), fit)
    return Example(blank, tuple(str(keypoint) for keypoint in keypoints), fit.to_input(points), visible)


def _provider(detector: Detector, name: str) -> Provider | None:
    """The source of saliency: the one that was chosen, where the model takes any from outside."""
    if name == OWN or provider_of(detector) is None:
        return provider_for_pictures(detector)
    return build_provider(name)
