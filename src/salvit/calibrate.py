"""Fits on dev what a model's uncertainty is worth: temperature, covariance, ellipses, scores and presence.

Dev images are cut in two by a hash of their file names: what is fitted on one half is judged on the other, and back, so
every figure is of images that the fit did not see; what is kept in the end is fitted on both halves. Report species are
refused by the same gate as in training (:func:`salvit.data.splits.check_allowed`).

Letters: R pairs of a query and a keypoint that some support has · T temperatures.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import scipy.optimize
import torch
import torch.nn.functional as F
from torch import Tensor

from salvit.data.episodes import EpisodePool, EpisodeSettings
from salvit.data.loading import LoadSettings
from salvit.data.splits import Kind, Problem, file_of
from salvit.episode_tensors import CachedEpisodes, EpisodeSource, FreshEpisodes, rng_of_episode
from salvit.features import SaliencyOf, Track, ViewSettings, open_cache
from salvit.metrics import GAUSSIAN_COVERAGE, expected_calibration_error, presence_auroc
from salvit.model.certainty import (
    Calibration,
    Evidence,
    gather_evidence,
    gaussian_nll,
    log_odds,
    map_height,
    presence_log_odds,
    shrinkage,
    squared_distances,
    student_nll,
    total_covariance,
)
from salvit.model.detector import SalViT
from salvit.model.locator import Located, ScaleOutput, fused_logits
from salvit.model.own_saliency import with_own_saliency
from salvit.recipes import Recipe
from salvit.types import FloatArray

TEMPERATURES = tuple(2 ** (step / 4) for step in range(-4, 17))
"""Temperatures of the fused map that are tried: 0.5 to 16, a quarter of an octave apart."""
CORRECT = 0.1
"""A point is right within this share of the longer side of the object's box."""
TAIL = 12.0
"""Degrees of freedom of the errors' distribution that Σ is fitted by. A few far errors would else decide how Σ shrinks
with examples, and 1 σ of sure points would hold too little; chosen on dev (docs/development.md)."""
_SMALLEST = 1e-4
"""A weight below this is 0."""


@dataclass(frozen=True, slots=True)
class DevPairs:
    """What the model said of R pairs, and what is true."""

    moments: Tensor
    """(R, T, 2, 2) moments of the fused map about the point, at every temperature."""
    near: Tensor
    """(R, T)."""
    extent: Tensor
    """(R, T)."""
    cells: Tensor
    """(R, 2, 2) covariance of the winning cell, as the paper has it."""
    scores: Tensor
    """(R,) as the model has them uncalibrated."""
    presence: Tensor
    """(R,) the model's own logit, 0 where it has none."""
    height: Tensor
    """(R,) of the maps."""
    errors: Tensor
    """(R, 2) true point − predicted point, in input pixels."""
    is_right: Tensor
    """(R,) bool: within ``CORRECT`` of the object's size; means nothing where the keypoint is not there."""
    is_there: Tensor
    """(R,) bool: the query shows the keypoint."""
    shots: Tensor
    """(R,) how many supports have the keypoint."""
    is_second: Tensor
    """(R,) bool: the picture is in the second half."""

    def where(self, rows: Tensor) -> DevPairs:
        """Some of the pairs."""
        return DevPairs(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def has_presence(self) -> bool:
        """Whether the model has a logit of its own."""
        return bool(self.presence.any())


@dataclass(frozen=True, slots=True)
class Told:
    """What a calibration, or none, makes of R pairs."""

    covariances: Tensor
    radii: Tensor
    """(R, 3) of the 1, 2 and 3 σ ellipses."""
    scores: Tensor
    presence: Tensor

    def where(self, rows: Tensor) -> Told:
        """Some of the pairs."""
        return Told(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A fit, and how it does on images that it did not see."""

    calibration: Calibration
    pairs: DevPairs
    before: Told
    after: Told
    """Each half by what was fitted on the other."""


def dev_sources(
    recipe: Recipe, problems: Sequence[Problem], model: SalViT, saliency_of: SaliencyOf | None, track: Track
) -> list[tuple[EpisodePool, EpisodeSource]]:
    """Dev episodes of every data set and kind of keypoints, with as many shots as in training; from cached tokens.

    Pictures are looked at near what a model with a finder finds in them, as its users get it.
    """
    settings = recipe.train
    sources: list[tuple[EpisodePool, EpisodeSource]] = []
    for data, problem in zip(recipe.datasets, problems, strict=True):
        asked = EpisodeSettings(shots=settings.shots, queries=settings.queries, crop=data.crop)
        is_one_kind = problem.split.keypoints_by_species or not problem.split.novel
        kinds: tuple[Kind, ...] = ("base",) if is_one_kind else ("novel", "base")
        pools = [EpisodePool(problem, "dev", kind, asked, purpose="calibrate", seed=settings.seed) for kind in kinds]
        if settings.views:
            is_near = model.finder is not None
            shown = ViewSettings(crop=data.crop, views=1, seed=settings.seed, augment=None, is_near=is_near)
            records = problem.records["dev"]
            cache = open_cache(model, problem, records, shown, saliency_of=saliency_of, track=track)
            sources += [(pool, CachedEpisodes(pool, cache, model)) for pool in pools]
        else:
            loading = LoadSettings(size=model.input_size, saliency_of=saliency_of)
            sources += [(pool, FreshEpisodes(pool, loading, model)) for pool in pools]
    return sources


def restrict(recipe: Recipe, names: Sequence[str]) -> Recipe:
    """The recipe with these of its data sets alone."""
    kept = tuple(data for data in recipe.datasets if data.name in names)
    if not kept or len(kept) < len(names):
        known = ", ".join(data.name for data in recipe.datasets)
        raise ValueError(f"a calibration needs dev images of the model's data sets ({known}): --root NAME=DIR")
    return replace(recipe, data=kept[0], also=kept[1:])


def calibrate(
    model: SalViT, sources: Sequence[tuple[EpisodePool, EpisodeSource]], episodes: int, *, track: Track
) -> Calibrated:
    """Fit a calibration on so many dev episodes of each source; the model itself is not changed."""
    before, model.calibration = model.calibration, None
    try:
        parts = []
        work = [(pool, source, index) for index in range(episodes) for pool, source in sources]
        for pool, source, index in track(work, len(work), "dev episodes"):
            parts.append(_look(model, pool, source, index))
    finally:
        model.calibration = before
    pairs = DevPairs(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(DevPairs)))
    names = ", ".join(dict.fromkeys(pool.problem.name for pool, _ in sources))
    return cross_fit(pairs, fitted_on=f"dev of {names}: {len(work)} episodes, {len(pairs.errors)} pairs")


def cross_fit(pairs: DevPairs, fitted_on: str = "") -> Calibrated:
    """Fit on all pairs; judge each half of the images by what was fitted on the other."""
    second = pairs.is_second
    if min(int((pairs.is_there & second).sum()), int((pairs.is_there & ~second).sum())) < 100:
        raise ValueError(f"{len(second)} pairs are too few to calibrate on: take more dev episodes")
    after = _joined([(tell(pairs.where(half), fit(pairs.where(~half))), half) for half in (second, ~second)])
    return Calibrated(fit(pairs, fitted_on), pairs, untold(pairs), after)


@torch.no_grad()
def _look(model: SalViT, pool: EpisodePool, source: EpisodeSource, index: int) -> DevPairs:
    """One episode's pairs whose keypoint some support has."""
    episode = source.load(index)
    drawn = pool.draw_records(rng_of_episode(pool.seed, index))
    n = episode.num_real
    shots = episode.support_mask[:, :n].sum(0)  # (N,)
    support, query = (with_own_saliency(model.prior, seen) for seen in (episode.support, episode.query))
    output = model(support, episode.support_points[:, :n], episode.support_mask[:, :n], query)
    second = torch.tensor([is_second_half(file_of(record)) for record in drawn.queries])
    found = pairs_of(
        output.scales,
        model.conclude(output.scales, shots=shots),
        model.input_size,
        shots,
        truth=episode.query_points[:, :n],
        is_there=episode.valid[:, :n],
        sizes=episode.box_sides,
        is_second=second.to(shots.device),
        presence=output.presence,
    )
    columns = [getattr(found, field.name).cpu() for field in fields(found)]
    return DevPairs(*(column.double() if column.is_floating_point() else column for column in columns))


def pairs_of(
    scales: tuple[ScaleOutput, ...],
    located: Located,
    input_size: int,
    shots: Tensor,
    *,
    truth: Tensor,
    is_there: Tensor,
    sizes: Tensor,
    is_second: Tensor,
    presence: Tensor | None,
) -> DevPairs:
    """The pairs of known keypoints of some queries.

    Args:
        scales: Branches of every scale, of Q queries and N keypoints.
        located: What was predicted.
        input_size: l0.
        shots: (N,) how many supports have each keypoint.
        truth: (Q, N, 2) in the input.
        is_there: (Q, N).
        sizes: (Q,) longer side of each object's box, in the input.
        is_second: (Q,).
        presence: (Q, N) logits, where the model has them.
    """
    logits, points, known = fused_logits(scales), located.points_input, shots > 0
    told = [gather_evidence(logits / temperature, points, input_size, known) for temperature in TEMPERATURES]
    errors = truth - points
    each = (
        torch.stack([one.moments for one in told], dim=2),
        torch.stack([one.near for one in told], dim=2),
        torch.stack([one.extent for one in told], dim=2),
        located.covariances,
        located.scores,
        torch.zeros_like(located.scores) if presence is None else presence,
        map_height(scales),
        errors,
        errors.norm(dim=-1) <= CORRECT * sizes[:, None],
        is_there,
        shots.to(errors).expand_as(is_there),
        is_second[:, None].expand_as(is_there),
    )
    return DevPairs(*(value[:, known].flatten(0, 1) for value in each))


def is_second_half(file: str) -> bool:
    """Which half of dev an image is in, by a hash of its name."""
    return hashlib.sha256(f"calibration {file}".encode()).digest()[0] % 2 == 1


def fit(pairs: DevPairs, fitted_on: str = "") -> Calibration:
    """Temperature and weights of Σ by the likelihood of the true points; then radii, and two logistic regressions.

    Choice: Σ is scaled so that its 2 σ ellipse holds what a Gaussian's does, because 2 σ is what is drawn. Errors are a
    mixture of near misses and far ones, so 1 and 3 σ of one covariance cannot be right as well: they get radii.
    """
    seen = pairs.where(pairs.is_there)
    best, (spread, cell, shots, sure) = _fit_covariance(seen)
    factor = shrinkage(seen.shots, seen.near[:, best], shots, sure)
    covariances = total_covariance(seen.moments[:, best], seen.cells, spread, cell, factor)
    distance = squared_distances(seen.errors, covariances).sqrt()
    shares = torch.tensor(list(GAUSSIAN_COVERAGE.values()), dtype=distance.dtype)
    radii = torch.quantile(distance, shares).tolist()
    scale = radii[1] / 2
    right = _fit_logistic(_features(seen, best), seen.is_right)
    own = [pairs.presence] if pairs.has_presence else []
    tells = torch.stack([*_features(pairs, best).unbind(1), pairs.height, *own], dim=1)
    presence = _fit_logistic(tells, pairs.is_there)
    return Calibration(
        temperature=TEMPERATURES[best],
        spread=round(spread * scale**2, 6),
        cell=round(cell * scale**2, 6),
        radii=(round(radii[0] / scale, 4), 2.0, round(radii[2] / scale, 4)),
        right=(right[0], right[1], right[2]),
        presence=(presence[0], presence[1], presence[2], presence[4] if own else 0.0),
        height=presence[3],
        shots=round(shots, 6),
        sure=round(sure, 6),
        fitted_on=fitted_on,
    )


def tell(pairs: DevPairs, calibration: Calibration) -> Told:
    """What a calibration makes of pairs; the same as :func:`salvit.model.certainty.calibrated` does of a prediction."""
    number = min(range(len(TEMPERATURES)), key=lambda n: abs(TEMPERATURES[n] - calibration.temperature))
    evidence = Evidence(pairs.moments[:, number], pairs.near[:, number], pairs.extent[:, number])
    return Told(
        total_covariance(
            evidence.moments,
            pairs.cells,
            calibration.spread,
            calibration.cell,
            shrinkage(pairs.shots, evidence.near, calibration.shots, calibration.sure),
        ),
        torch.tensor(calibration.radii, dtype=pairs.errors.dtype).expand(len(pairs.errors), 3),
        log_odds(calibration.right, evidence).sigmoid(),
        presence_log_odds(calibration, evidence, pairs.height, pairs.presence).sigmoid(),
    )


def untold(pairs: DevPairs) -> Told:
    """What the model says by itself: the paper's covariance, its own presence, or the score in its place."""
    radii = torch.tensor([1.0, 2.0, 3.0], dtype=pairs.errors.dtype).expand(len(pairs.errors), 3)
    presence = pairs.presence.sigmoid() if pairs.has_presence else pairs.scores
    return Told(pairs.cells, radii, pairs.scores, presence)


def judge(pairs: DevPairs, told: Told) -> dict[str, float]:
    """Figures by name: coverage in percent at the stated radii, NLL, and of score and presence ECE (percent), AUROC."""
    there = pairs.is_there
    distance = squared_distances(pairs.errors, told.covariances).sqrt()
    inside = (distance[:, None] <= told.radii)[there].double().mean(0)
    nll = gaussian_nll(pairs.errors[there], told.covariances[there]).mean()
    area = torch.pi * 4 * told.covariances[there].det().clamp_min(0).sqrt().mean()
    scores, right = told.scores[there].numpy(), pairs.is_right[there].numpy()
    presence, is_there = told.presence.numpy(), there.numpy()
    return {
        **{f"coverage_{k}_sigma": 100 * float(share) for k, share in zip((1, 2, 3), inside, strict=True)},
        "nll": float(nll),
        "ellipse_area_2_sigma": float(area),
        "score_ece": 100 * expected_calibration_error(scores, right),
        "score_auroc": presence_auroc(scores, right),
        "presence_ece": 100 * expected_calibration_error(presence, is_there),
        "presence_auroc": presence_auroc(presence, is_there),
    }


def _fit_covariance(pairs: DevPairs) -> tuple[int, tuple[float, float, float, float]]:
    """What makes dev's errors likeliest: the temperature's number; weights of moments and cell in Σ, its two powers."""
    found = []
    start = torch.tensor([0.0, -2.0, 0.0, 0.0], dtype=pairs.errors.dtype)
    limits = [(-8.0, 8.0), (-8.0, 8.0), (0.0, 1.0), (0.0, 1.0)]
    for number in range(len(TEMPERATURES)):
        moments, near = pairs.moments[:, number], pairs.near[:, number]

        def loss(values: Tensor, moments: Tensor = moments, near: Tensor = near) -> Tensor:
            factor = shrinkage(pairs.shots, near, values[2], values[3])
            covariances = total_covariance(moments, pairs.cells, values[0].exp(), values[1].exp(), factor)
            return student_nll(pairs.errors, covariances, TAIL).mean()

        start = _minimise(loss, start, limits)  # from those of the temperature before
        found.append((float(loss(start)), number, start.tolist()))
    _, best, (spread, cell, shots, sure) = min(found)
    weights = math.exp(spread), math.exp(cell)
    return best, (weights[0], weights[1] if weights[1] >= _SMALLEST else 0.0, shots, sure)


def _features(pairs: DevPairs, number: int) -> Tensor:
    return torch.stack([pairs.near[:, number], pairs.extent[:, number]], dim=1)


def _fit_logistic(features: Tensor, labels: Tensor) -> list[float]:
    """Constant and weights of a logistic regression, a little ridge on the weights: (R, F), (R,) bool -> F + 1."""
    mean, deviation = features.mean(0), features.std(0).clamp_min(1e-9)
    standard, target = (features - mean) / deviation, labels.to(features)

    def loss(weights: Tensor) -> Tensor:
        logits = weights[0] + standard @ weights[1:]
        return F.binary_cross_entropy_with_logits(logits, target) + 1e-4 * weights.square().sum()

    best = _minimise(loss, torch.zeros(features.shape[1] + 1, dtype=features.dtype))
    weights = best[1:] / deviation
    return [round(value, 6) for value in (float(best[0] - (weights * mean).sum()), *weights.tolist())]


def _minimise(
    loss: Callable[[Tensor], Tensor], start: Tensor, limits: Sequence[tuple[float, float]] | None = None
) -> Tensor:
    """The least of a smooth function of a few numbers, each within its limits."""

    def value_and_slope(numbers: FloatArray) -> tuple[float, FloatArray]:
        values = torch.tensor(numbers, dtype=start.dtype, requires_grad=True)
        value = loss(values)
        (slope,) = torch.autograd.grad(value, values)
        return float(value.detach()), slope.double().numpy()

    found = scipy.optimize.minimize(value_and_slope, start.numpy(), jac=True, method="L-BFGS-B", bounds=limits)
    return torch.tensor(found.x, dtype=start.dtype)


def _joined(parts: Sequence[tuple[Told, Tensor]]) -> Told:
    """Parts put back at their rows."""
    size = len(parts[0][1])
    columns = []
    for field in fields(Told):
        first = getattr(parts[0][0], field.name)
        whole = torch.zeros(size, *first.shape[1:], dtype=first.dtype)
        for told, rows in parts:
            whole[rows] = getattr(told, field.name)
        columns.append(whole)
    return Told(*columns)
