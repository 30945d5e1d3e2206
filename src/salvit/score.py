"""Scores a prediction file against a frozen list: the second step of evaluation.

A keypoint counts (is valid) where the query shows it and some support does. A scored file and a result are plain
dictionaries (schema in docs/formats.md); figures are in percent unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from salvit.data.augment import View
from salvit.data.frozen import FrozenList
from salvit.data.views import select_keypoints
from salvit.evaluate import Predictions
from salvit.metrics import (
    AUC_TAUS,
    TAUS,
    bootstrap_harmonic,
    coverage,
    distances,
    harmonic_mean,
    mean_interval,
    negative_log_likelihood,
    oks,
    presence_auroc,
    rank_correlation,
    squared_mahalanobis,
)
from salvit.types import BoolArray, FloatArray

SCHEMA = "salvit-scores-1"


@dataclass(frozen=True, slots=True)
class Outcomes:
    """One row for each episode, query and keypoint."""

    episode: npt.NDArray[np.int64]
    kind: npt.NDArray[np.str_]
    species: npt.NDArray[np.str_]
    keypoint: npt.NDArray[np.str_]
    distance: FloatArray
    """In pixels of the image."""
    box_side: FloatArray
    """The longer side of the object's box."""
    image_side: FloatArray
    """The longer side of the image."""
    valid: BoolArray
    known: BoolArray
    """Some support has the keypoint."""
    mahalanobis: FloatArray
    radii: FloatArray
    """(R, 3) of the 1, 2 and 3 σ ellipses, as the predictions state them; 1, 2, 3 where they state none."""
    covariances: FloatArray
    presence: FloatArray
    oks: FloatArray
    """Of the whole query, repeated for its keypoints; NaN where none is valid or pycocotools is not installed."""

    def where(self, rows: BoolArray) -> Outcomes:
        """Some of the rows."""
        return Outcomes(*(getattr(self, field.name)[rows] for field in fields(self)))


def compare(predictions: Predictions, frozen: FrozenList) -> Outcomes:
    """Join predictions to the truth of the list that they were made on."""
    if predictions.about.get("list_hash") != frozen.hash:
        raise ValueError(
            f"the predictions were made on the list {str(predictions.about.get('list_hash'))[:12]}, "
            f"but this list is {frozen.hash[:12]}; score them on the list that they belong to, and on the part of it "
            "(--episodes, --queries, --kind) that was evaluated"
        )
    radii = predictions.about.get("ellipse_radii", [1.0, 2.0, 3.0])
    columns: list[list[Any]] = [[] for _ in fields(Outcomes)]
    for index in range(len(frozen)):
        episode = frozen.draw(index)
        known = np.any([_shown(view, episode.names)[1] for view in episode.supports], axis=0)
        for view in episode.queries:
            row = predictions.rows.get((index, view.record.id))
            if row is None:
                raise ValueError(f"the predictions lack episode {index}, query {view.record.id}; is the file cut?")
            num = len(episode.names)
            labels = ([index] * num, [episode.kind] * num, [episode.species] * num, episode.names)
            values: tuple[Iterable[Any], ...] = (*labels, *_outcome(row, view, episode.names, known, frozen, radii))
            for column, more in zip(columns, values, strict=True):
                column.extend(more)
    return Outcomes(*(np.asarray(column) for column in columns))


def score(outcomes: Outcomes) -> dict[str, Any]:
    """All figures of a run."""
    kinds = [str(kind) for kind in dict.fromkeys(outcomes.kind.tolist())]
    by_kind = {kind: outcomes.where(outcomes.kind == kind) for kind in kinds}
    figures: dict[str, Any] = {
        "schema": SCHEMA,
        "pck": {},
        "interval": {},
        "pooled": {},
        "auc": {},
        "ne": {},
        "ne_interval": {},
        "oks": {},
    }
    for kind, rows in by_kind.items():
        episodes = {tau: episode_pck(rows, tau) for tau in TAUS}
        figures["pck"][kind] = {str(tau): _percent(mean_interval(values)[0]) for tau, values in episodes.items()}
        figures["interval"][kind] = {str(tau): _percent(mean_interval(values)[1]) for tau, values in episodes.items()}
        figures["pooled"][kind] = {str(tau): _percent(_correct(rows, tau)[rows.valid].mean()) for tau in TAUS}
        figures["auc"][kind] = _percent(float(np.mean([episode_pck(rows, tau).mean() for tau in AUC_TAUS])))
        error, half = mean_interval(episode_ne(rows))
        figures["ne"][kind], figures["ne_interval"][kind] = round(error, 5), round(half, 5)
        figures["oks"][kind] = _percent(float(np.nanmean(rows.oks))) if np.isfinite(rows.oks).any() else None
    if set(kinds) >= {"novel", "base"}:
        novel, base = (100 * episode_pck(by_kind[kind], 0.1) for kind in ("novel", "base"))
        figures["harmonic"] = round(harmonic_mean(float(novel.mean()), float(base.mean())), 2)
        figures["ci95"] = round(bootstrap_harmonic(novel, base), 2)
    figures["by_species"] = _by(outcomes, outcomes.species)
    figures["by_keypoint"] = _by(outcomes, outcomes.keypoint)
    figures["calibration"] = _calibration(outcomes)
    figures["coverage"] = list(figures["calibration"]["coverage"].values())
    figures["episodes"] = {kind: len(np.unique(rows.episode)) for kind, rows in by_kind.items()}
    return figures


def episode_pck(outcomes: Outcomes, tau: float) -> FloatArray:
    """PCK of each episode, a share in [0, 1]; episodes without a valid keypoint are left out: (E,)."""
    _, inverse = np.unique(outcomes.episode, return_inverse=True)
    valid = np.bincount(inverse, weights=outcomes.valid)
    correct = np.bincount(inverse, weights=_correct(outcomes, tau) & outcomes.valid)
    return np.asarray(correct[valid > 0] / valid[valid > 0])


def episode_ne(outcomes: Outcomes) -> FloatArray:
    """Mean normalised error of each episode, errors over the longer side of the image; as :func:`episode_pck`: (E,)."""
    _, inverse = np.unique(outcomes.episode, return_inverse=True)
    valid = np.bincount(inverse, weights=outcomes.valid)
    errors = np.bincount(inverse, weights=np.where(outcomes.valid, outcomes.distance / outcomes.image_side, 0.0))
    return np.asarray(errors[valid > 0] / valid[valid > 0])


def _outcome(
    row: dict[str, Any],
    view: View,
    names: tuple[str, ...],
    known: BoolArray,
    frozen: FrozenList,
    radii: list[float],
) -> tuple[Iterable[Any], ...]:
    truth, shown = _shown(view, names)
    points = np.asarray(row["points"], dtype=np.float64)
    if points.shape != (len(names), 2):
        raise ValueError(f"query {view.record.id}: {points.shape} points, expected {(len(names), 2)}")
    distance = distances(points, truth)
    x1, y1, x2, y2 = view.record.box or view.window
    covariances = np.asarray(row["covariances"], dtype=np.float64)
    valid = shown & known
    height, width = frozen.values["records"][view.record.id]["image_hw"]
    similarity = _oks(distance, (x2 - x1) * (y2 - y1), valid)
    num = len(names)
    return (
        distance,
        [max(x2 - x1, y2 - y1)] * num,
        [float(max(height, width))] * num,
        valid,
        known,
        squared_mahalanobis(points, truth, covariances),
        [radii] * num,
        covariances,
        row["presence"],
        [similarity] * num,
    )


def _shown(view: View, names: tuple[str, ...]) -> tuple[FloatArray, BoolArray]:
    """True points in the image, and which of them the view shows."""
    points, visible = select_keypoints(view.record, names)
    x1, y1, x2, y2 = view.window
    edges = points + 0.5
    inside = (edges[:, 0] >= x1) & (edges[:, 0] <= x2) & (edges[:, 1] >= y1) & (edges[:, 1] <= y2)
    return points, visible & inside


def _oks(distance: FloatArray, area: float, valid: BoolArray) -> float:
    try:
        return float(oks(distance[None], np.array([area]), valid[None])[0])
    except ImportError:
        return float("nan")


def _correct(outcomes: Outcomes, tau: float) -> BoolArray:
    return np.asarray(outcomes.distance <= tau * outcomes.box_side)


def _by(outcomes: Outcomes, labels: npt.NDArray[np.str_]) -> dict[str, dict[str, Any]]:
    """Pooled PCK@0.1 by label."""
    correct = _correct(outcomes, 0.1)
    groups = {str(label): (labels == label) & outcomes.valid for label in np.unique(labels)}
    return {
        label: {"pck": _percent(correct[rows].mean()) if rows.any() else None, "keypoints": int(rows.sum())}
        for label, rows in groups.items()
    }


def _calibration(outcomes: Outcomes) -> dict[str, Any]:
    valid = outcomes.valid
    spread = np.sqrt(np.trace(outcomes.covariances, axis1=1, axis2=2) / 2)
    covered, plain = (coverage(outcomes.mahalanobis, valid, radii) for radii in (outcomes.radii, None))
    return {
        "coverage": {f"{k} sigma": round(value, 2) for k, value in covered.items()},
        "ellipse_radii": outcomes.radii[0].tolist(),
        "coverage_of_covariance_alone": {f"{k} sigma": round(value, 2) for k, value in plain.items()},
        "nll": round(negative_log_likelihood(outcomes.mahalanobis, outcomes.covariances, valid), 4),
        "error_rank_correlation": round(rank_correlation(outcomes.distance[valid], spread[valid]), 4),
        "presence_auroc": round(presence_auroc(outcomes.presence[outcomes.known], outcomes.valid[outcomes.known]), 4),
        "mean_ellipse_area": round(float(np.pi * np.sqrt(np.linalg.det(outcomes.covariances[valid])).mean()), 2),
    }


def _percent(share: float) -> float:
    return round(100 * float(share), 2)
