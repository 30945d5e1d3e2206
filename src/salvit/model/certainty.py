"""How sure a prediction is: what the fused map says, and what that is worth on dev (ours, not the paper's).

The paper's covariance is the winning cell's own: it knows how exact the offset is, not that the cell may be wrong. The
fused map knows of other places; how far it is to be trusted is fitted on dev (:mod:`salvit.calibrate`) and kept in the
model's file as a :class:`Calibration`.

Letters: Q query images · N keypoints · R errors · s side of the fused map's lattice. Symbols: P fused probabilities ·
T its temperature · x̂ predicted point · l0 side of the input · Σ covariance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from salvit.model.locator import Located, ScaleOutput, fused_logits

NEAR = 0.1
"""Mass of the map within this share of the input's side from the predicted point speaks for the point."""
MOST_SHOTS = 5
"""Calibrations are fitted to episodes of at most so many."""
LOG_2_PI = math.log(2 * math.pi)
SURE = 1e-6
"""Probabilities are kept so far from 0 and 1 before their logit is taken."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What was fitted on dev; plain numbers."""

    temperature: float
    """T of the fused map; 1: the map as it is."""
    spread: float
    """Weight of the map's moments in Σ."""
    cell: float
    """Weight of the winning cell's own covariance in Σ."""
    radii: tuple[float, float, float]
    """Mahalanobis distances within which 39.3, 86.5 and 98.9 % of dev's true points lie: what a Gaussian has at 1, 2
    and 3. The second is 2, because Σ is scaled so; the others differ, because real errors have a heavier tail."""
    right: tuple[float, float, float]
    """Log-odds that the point is right: constant, weight of the mass near it, weight of the object's extent."""
    presence: tuple[float, float, float, float]
    """Log-odds that the keypoint is there to be seen: as ``right``, and the weight of the model's own logit, 0 where it
    has none."""
    height: float = 0.0
    """Weight of the height of the maps in the log-odds of presence."""
    shots: float = 0.0
    """Σ shrinks by this power of the number of examples that have the keypoint: more of them, better known."""
    sure: float = 0.0
    """Σ shrinks by this power of the odds that the point is near: a sharp map is surer than its moments say."""
    fitted_on: str = ""
    """Which data, how many episodes and pictures, in words."""

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.spread <= 0 or self.cell < 0:
            raise ValueError(
                "a calibration needs temperature and spread above 0 and cell at least 0, got "
                f"{self.temperature}, {self.spread} and {self.cell}"
            )
        if not 0 < self.radii[0] < self.radii[1] < self.radii[2]:
            raise ValueError(f"a calibration's radii must grow from above 0, got {self.radii}")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the fused map at one temperature says of each predicted point: all that a calibration looks at."""

    moments: Tensor
    """(Q, N, 2, 2) second moments about the point, in square input pixels."""
    near: Tensor
    """(Q, N) logit of the mass near the point."""
    extent: Tensor
    """(Q, N) logarithm of the spread of all keypoints' maps together over l0: how large the object is."""


def calibrated(
    located: Located,
    scales: tuple[ScaleOutput, ...],
    calibration: Calibration,
    input_size: int,
    shots: Tensor | None = None,
    fused: Tensor | None = None,
) -> Located:
    """The same points with a covariance, a score and a presence that mean what they say.

    Args:
        located: What was decoded from ``scales``.
        scales: Branches of every scale.
        calibration: Fitted on dev.
        input_size: l0.
        shots: (N,) how many examples have each keypoint; those that none has do not tell the object's size. None: one
            each.
        fused: (Q, N, s, s) what :func:`fused_logits` made of ``scales``, where it did.
    """
    known = None if shots is None else shots > 0
    examples = torch.ones(()).to(located.scores) if shots is None else shots.to(located.scores)
    logits = fused_logits(scales) if fused is None else fused
    evidence = gather_evidence(logits / calibration.temperature, located.points_input, input_size, known)
    own = None if located.presence is None else located.presence.clamp(SURE, 1 - SURE).logit()
    presence = presence_log_odds(calibration, evidence, map_height(scales), own)
    return replace(
        located,
        scores=log_odds(calibration.right, evidence).sigmoid(),
        covariances=total_covariance(
            evidence.moments,
            located.covariances,
            calibration.spread,
            calibration.cell,
            shrinkage(examples, evidence.near, calibration.shots, calibration.sure),
        ),
        presence=presence.sigmoid(),
    )


def gather_evidence(logits: Tensor, points_input: Tensor, input_size: int, known: Tensor | None = None) -> Evidence:
    """What a map says of points: logits (Q, N, s, s), already divided by T, and points (Q, N, 2)."""
    probability = logits.flatten(-2).softmax(-1).view_as(logits)
    means, moments = map_moments(probability, points_input, input_size)
    near = near_mass(probability, points_input, input_size).clamp(SURE, 1 - SURE).logit()
    extent = (object_extent(means, moments, points_input, known) / input_size).log()  # (Q,)
    return Evidence(moments, near, extent[:, None].expand_as(near))


def map_moments(probability: Tensor, points_input: Tensor, input_size: int) -> tuple[Tensor, Tensor]:
    """Mean of a map, and its second moments about a point (ours).

        M = Σ_c P_c (x_c − x̂)(x_c − x̂)ᵀ + (l0/s)²/12 · I

    with x_c the centre of cell c. The last term is what a point has that lies anywhere in its cell, so M can be
    inverted even where one cell has all of the mass.
    Shapes: probability (Q, N, s, s), points_input x̂ (Q, N, 2) -> (Q, N, 2), (Q, N, 2, 2).
    """
    side = probability.shape[-1]
    line = lattice_line(side, input_size, probability)
    columns, rows = probability.sum(-2), probability.sum(-1)  # (Q, N, s): marginals of x and y
    x, y = line - points_input[..., :1], line - points_input[..., 1:]  # (Q, N, s)
    means = torch.stack([(columns * line).sum(-1), (rows * line).sum(-1)], dim=-1)
    within = (input_size / side) ** 2 / 12
    xx, yy = (columns * x.square()).sum(-1) + within, (rows * y.square()).sum(-1) + within
    xy = ((probability * x[..., None, :]).sum(-1) * y).sum(-1)
    return means, torch.stack([torch.stack([xx, xy], -1), torch.stack([xy, yy], -1)], -2)


def near_mass(probability: Tensor, points_input: Tensor, input_size: int) -> Tensor:
    """Mass of the cells whose centre is within ``NEAR`` · l0 of the point: (Q, N, s, s), (Q, N, 2) -> (Q, N)."""
    line = lattice_line(probability.shape[-1], input_size, probability)
    x, y = line - points_input[..., :1], line - points_input[..., 1:]  # (Q, N, s)
    is_near = x.square()[..., None, :] + y.square()[..., :, None] <= (NEAR * input_size) ** 2
    return (probability * is_near).sum((-2, -1))


def map_height(scales: tuple[ScaleOutput, ...]) -> Tensor:
    """The greatest logit of each map, in the mean over scales: (Q, N, S²) each -> (Q, N) (ours).

    A softmax makes every map sum to 1; before it, a map in which nothing is like the keypoint is low everywhere.
    """
    return torch.stack([scale.logits.amax(-1) for scale in scales]).mean(0)


def object_extent(means: Tensor, moments: Tensor, points_input: Tensor, known: Tensor | None) -> Tensor:
    """Standard deviation of the mean of all known keypoints' maps, in pixels (ours).

        E‖x − μ‖² = mean over n of (tr M_n − ‖m_n − x̂_n‖² + ‖m_n − μ‖²),   μ = mean of the means m_n

    Whether a point is right is a matter of the object's size; where nobody has said how large the object is, the
    places of its keypoints tell.
    Shapes: (Q, N, 2), (Q, N, 2, 2), (Q, N, 2), known (N,) -> (Q,).
    """
    if known is not None and bool(known.any()):
        means, moments, points_input = means[:, known], moments[:, known], points_input[:, known]
    own = moments.diagonal(dim1=-2, dim2=-1).sum(-1) - (means - points_input).square().sum(-1)  # (Q, N)
    between = (means - means.mean(1, keepdim=True)).square().sum(-1)
    return (own + between).mean(1).sqrt()


def total_covariance(
    moments: Tensor, cell: Tensor, spread: float | Tensor, weight: float | Tensor, factor: float | Tensor = 1.0
) -> Tensor:
    """Σ = k (a · M + b · Σ_cell) (ours): where else the point may be, and how exact it is where it is. (..., 2, 2)."""
    return (spread * moments + weight * cell) * factor


def shrinkage(examples: Tensor, near: Tensor, shots: float | Tensor, sure: float | Tensor) -> Tensor:
    """The factor k = K^−γ · (m / (1 − m))^−δ of K examples and a mass m near the point (ours), for covariances.

    More than ``MOST_SHOTS`` examples count as so many: nothing is known of what more of them are worth.
    Shapes: examples K and near, the logit of m, (...) -> (..., 1, 1).
    """
    factor: Tensor = examples.clamp(1, MOST_SHOTS) ** -shots * torch.exp(-sure * near)
    return factor[..., None, None]


def log_odds(weights: tuple[float, float, float], evidence: Evidence) -> Tensor:
    """w_0 + w_1 · logit(near mass) + w_2 · log(extent / l0): (Q, N)."""
    return weights[0] + weights[1] * evidence.near + weights[2] * evidence.extent


def presence_log_odds(calibration: Calibration, evidence: Evidence, height: Tensor, own: Tensor | None) -> Tensor:
    """:func:`log_odds` of presence + v · height of the maps + w_3 · the model's own logit, where it has one: (Q, N)."""
    told = log_odds(calibration.presence[:3], evidence) + calibration.height * height
    return told if own is None else told + calibration.presence[3] * own


def squared_distances(errors: Tensor, covariances: Tensor) -> Tensor:
    """eᵀ Σ⁻¹ e: (R, 2), (R, 2, 2) -> (R,)."""
    x, y = errors.unbind(-1)
    xx, xy, yy = covariances[..., 0, 0], covariances[..., 0, 1], covariances[..., 1, 1]
    return (yy * x**2 - 2 * xy * x * y + xx * y**2) / (xx * yy - xy**2)


def gaussian_nll(errors: Tensor, covariances: Tensor) -> Tensor:
    """½ eᵀ Σ⁻¹ e + ½ log det Σ + log 2π: (R, 2), (R, 2, 2) -> (R,)."""
    return 0.5 * squared_distances(errors, covariances) + 0.5 * covariances.det().log() + LOG_2_PI


def student_nll(errors: Tensor, covariances: Tensor, tail: float) -> Tensor:
    """½ (ν + 2) log(1 + eᵀ Σ⁻¹ e / ν) + ½ log det Σ + log 2π, a Student's t of ν = ``tail``: (R, 2), (R, 2, 2) -> (R,).

    With ν → ∞ it is :func:`gaussian_nll`; the fewer degrees of freedom, the less a far error counts.
    """
    spread = 0.5 * (tail + 2) * torch.log1p(squared_distances(errors, covariances) / tail)
    return spread + 0.5 * covariances.det().log() + LOG_2_PI


def lattice_line(side: int, input_size: int, like: Tensor) -> Tensor:
    """Centres of the cells along one side, in pixels: (s,)."""
    return (torch.arange(side, device=like.device, dtype=like.dtype) + 0.5) * (input_size / side) - 0.5
