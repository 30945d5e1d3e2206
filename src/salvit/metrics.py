"""PCK and friends: pure functions on arrays.

Letters: Q queries · N keypoints · E episodes. A keypoint counts where ``valid`` is True.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from salvit.types import BoolArray, FloatArray

TAUS = (0.05, 0.1, 0.15, 0.2)
"""The thresholds that reports show."""
AUC_TAUS = tuple(round(0.01 * step, 2) for step in range(1, 21))
"""The thresholds that the area under the PCK curve is taken over: 0.01 to 0.20."""
GAUSSIAN_COVERAGE = {1: 1 - np.exp(-0.5), 2: 1 - np.exp(-2.0), 3: 1 - np.exp(-4.5)}
"""How much of a 2-D Gaussian lies within 1, 2 and 3 σ: 1 − exp(−k²/2) = 39.3, 86.5 and 98.9 %."""


def distances(points: FloatArray, truth: FloatArray) -> FloatArray:
    """Euclidean distances (..., N) of points and their truth, both (..., N, 2)."""
    return np.asarray(np.linalg.norm(points - truth, axis=-1))


def is_correct(distance: FloatArray, box_sides: FloatArray, tau: float) -> BoolArray:
    """Whether keypoints are correct (paper Sec. 4.1, PCK): d ≤ τ · max(w_bbx, h_bbx).

    Shapes: distance (Q, N), box_sides (Q,) the longer side of each object's box -> (Q, N).
    """
    return np.asarray(distance <= tau * box_sides[:, None])


def mean_interval(values: Sequence[float] | FloatArray) -> tuple[float, float]:
    """Mean, and half the width of its 95 % t-interval."""
    from scipy import stats

    array = np.asarray(values, dtype=np.float64)
    if array.size < 2:
        return float(array.mean()) if array.size else float("nan"), float("nan")
    half = stats.t.ppf(0.975, array.size - 1) * array.std(ddof=1) / np.sqrt(array.size)
    return float(array.mean()), float(half)


def harmonic_mean(a: float, b: float) -> float:
    """2ab / (a + b), the paper's headline of novel and base PCK; 0 where both are."""
    return 2 * a * b / (a + b) if a + b > 0 else 0.0


def bootstrap_harmonic(novel: FloatArray, base: FloatArray, *, seed: int = 0, draws: int = 2000) -> float:
    """Half the width of the 95 % interval of the harmonic mean, by resampling episodes of each kind: (E,), (E,)."""
    rng = np.random.default_rng(seed)
    means = [np.take(kind, rng.integers(0, kind.size, (draws, kind.size))).mean(1) for kind in (novel, base)]
    harmonic = 2 * means[0] * means[1] / np.maximum(means[0] + means[1], 1e-12)
    low, high = np.percentile(harmonic, [2.5, 97.5])
    return float(high - low) / 2


def paired_bootstrap(one: FloatArray, other: FloatArray, *, seed: int = 0, draws: int = 10000) -> dict[str, float]:
    """Difference of two runs on the same episodes (E,), its 95 % interval, and how often it is not above 0."""
    if one.shape != other.shape:
        raise ValueError(f"a paired comparison needs the same episodes in both: got {one.size} and {other.size}")
    rng = np.random.default_rng(seed)
    difference = one - other
    means = np.take(difference, rng.integers(0, difference.size, (draws, difference.size))).mean(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return {
        "difference": float(difference.mean()),
        "low": float(low),
        "high": float(high),
        "p_not_above_zero": float((means <= 0).mean()),
    }


def squared_mahalanobis(points: FloatArray, truth: FloatArray, covariances: FloatArray) -> FloatArray:
    """(x − x̂)ᵀ Σ⁻¹ (x − x̂): (..., 2), (..., 2), (..., 2, 2) -> (...)."""
    error = (points - truth)[..., None]
    return np.asarray((error * np.linalg.solve(covariances, error)).sum((-2, -1)))


def coverage(mahalanobis: FloatArray, valid: BoolArray, radii: FloatArray | None = None) -> dict[int, float]:
    """Share of true points within the ellipses of 1, 2, 3 σ, in percent.

    Args:
        mahalanobis: (R,) squared distances.
        valid: (R,).
        radii: (R, 3) distances that a calibrated model states for these ellipses; None: 1, 2, 3.
    """
    bounds = np.array([1.0, 2.0, 3.0]) if radii is None else radii[valid]
    inside = mahalanobis[valid][:, None] <= bounds**2
    return {k: 100 * float(inside[:, k - 1].mean()) if len(inside) else float("nan") for k in (1, 2, 3)}


def negative_log_likelihood(mahalanobis: FloatArray, covariances: FloatArray, valid: BoolArray) -> float:
    """Mean of −log N(x; x̂, Σ) in natural units: ½ d² + ½ log det Σ + log 2π."""
    values = 0.5 * mahalanobis + 0.5 * np.log(np.linalg.det(covariances)) + np.log(2 * np.pi)
    return float(values[valid].mean()) if valid.any() else float("nan")


def rank_correlation(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float:
    """Spearman's correlation; NaN where one of the two does not vary."""
    from scipy import stats

    if one.size < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return float(stats.spearmanr(one, other).statistic)


def presence_auroc(presence: FloatArray, is_there: BoolArray) -> float:
    """Chance that a keypoint that is there gets a higher presence than one that is not; NaN without both."""
    from scipy import stats

    there, absent = int(is_there.sum()), int((~is_there).sum())
    if there == 0 or absent == 0:
        return float("nan")
    ranks = stats.rankdata(presence)
    return float((ranks[is_there].sum() - there * (there + 1) / 2) / (there * absent))


def expected_calibration_error(probability: FloatArray, outcome: BoolArray, bins: int = 10) -> float:
    """Mean over predictions of |share of true outcomes − mean probability| in their bin of equal width: (R,), (R,)."""
    number = np.minimum((probability * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(number, weights=outcome - probability, minlength=bins)
    return float(np.abs(gaps).sum() / max(len(probability), 1))


def oks(distance: FloatArray, areas: FloatArray, valid: BoolArray, sigma: float = 0.05) -> FloatArray:
    """Object keypoint similarity of each query by COCOeval, with one σ for all keypoints.

    Shapes: distance (Q, N), areas (Q,) of the boxes, valid (Q, N) -> (Q,); NaN where nothing is valid.
    """
    from pycocotools.cocoeval import COCOeval

    num = distance.shape[1]
    judge = COCOeval(iouType="keypoints")
    judge.params.kpt_oks_sigmas = np.full(num, sigma)
    values = np.full(len(distance), np.nan)
    for q in np.flatnonzero(valid.any(1)):
        truth = np.stack([np.zeros(num), np.zeros(num), 2.0 * valid[q]], axis=1).ravel()
        found = np.stack([distance[q], np.zeros(num), np.ones(num)], axis=1).ravel()
        side = float(np.sqrt(areas[q]))
        judge._gts = {(0, 0): [{"keypoints": truth.tolist(), "bbox": [0, 0, side, side], "area": float(areas[q])}]}
        judge._dts = {(0, 0): [{"keypoints": found.tolist(), "score": 1.0}]}
        values[q] = judge.computeOks(0, 0)[0, 0]
    return values
