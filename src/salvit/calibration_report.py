"""A calibration as a table and as reliability plots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from salvit.calibrate import Calibrated, DevPairs, Told, judge
from salvit.metrics import GAUSSIAN_COVERAGE
from salvit.model.certainty import squared_distances
from salvit.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from rich.table import Table

_NAMES = {
    **{f"coverage_{k}_sigma": f"coverage of {k} σ, %" for k in (1, 2, 3)},
    "nll": "NLL",
    "ellipse_area_2_sigma": "mean area of 2 σ, input px²",
    "score_ece": "score: ECE, %",
    "score_auroc": "score: AUROC",
    "presence_ece": "presence: ECE, %",
    "presence_auroc": "presence: AUROC",
}
_FEWEST = 20
"""A bin of fewer pairs is not drawn."""


def table_of(result: Calibrated) -> Table:
    """Figures on dev before and after, each image judged by what was fitted on the other half.

    The halves stand apart too: what one fit has too much of, the other often has too little, so their mean flatters.
    """
    from rich.table import Table

    pairs, halves = result.pairs, (~result.pairs.is_second, result.pairs.is_second)
    before, after = judge(pairs, result.before), judge(pairs, result.after)
    apart = [judge(pairs.where(half), result.after.where(half)) for half in halves]
    table = Table(
        "on dev", "a Gaussian has", "before", "after", "each half by the other", title=result.calibration.fitted_on
    )
    for key, name in _NAMES.items():
        is_coverage = key.startswith("coverage")
        wanted = f"{100 * GAUSSIAN_COVERAGE[int(key.split('_')[1])]:.1f}" if is_coverage else ""
        digits = 3 if key.endswith("auroc") else 0 if key.startswith("ellipse") else 1 if is_coverage else 2
        each = " · ".join(f"{half[key]:.{digits}f}" for half in apart)
        table.add_row(name, wanted, f"{before[key]:.{digits}f}", f"{after[key]:.{digits}f}", each)
    return table


def draw_reliability(result: Calibrated, path: Path) -> None:
    """Three plots beside each other: coverage, scores, presence; before and after, on images that no fit saw."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("plots need matplotlib: pip install 'salvit[train]'") from None
    figure = Figure(figsize=(12.5, 4.4), dpi=120, layout="constrained")
    panels = figure.subplots(1, 3)
    told = (("before", result.before, "C7"), ("after", result.after, "C0"))
    there = result.pairs.is_there.numpy()
    for name, one, colour in told:
        _draw_coverage(panels[0], result.pairs, one, name, colour)
        _draw_bins(panels[1], one.scores.numpy()[there], result.pairs.is_right.numpy()[there], name, colour)
        _draw_bins(panels[2], one.presence.numpy(), there, name, colour)
    words = (
        ("ellipses", "share that a Gaussian has inside", "share of true points inside"),
        ("scores", "score", "share of points within 0.1 of the object's size"),
        ("presence", "presence", "share of keypoints that are there"),
    )
    for axes, (title, along, up) in zip(panels, words, strict=True):
        axes.plot([0, 1], [0, 1], color="black", linewidth=0.8, linestyle=":")
        axes.set(title=title, xlabel=along, ylabel=up, xlim=(0, 1), ylim=(0, 1))
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="upper left")
    figure.suptitle(result.calibration.fitted_on, fontsize=10)
    figure.savefig(path)


def _draw_coverage(axes: Any, pairs: DevPairs, told: Told, name: str, colour: str) -> None:
    """The share inside the ellipse of every number of σ, and marks at 1, 2, 3 σ with the stated radii."""
    there = pairs.is_there
    distance = squared_distances(pairs.errors, told.covariances).sqrt()[there].numpy()
    sigmas = np.linspace(0, 4, 81)
    shares = [(distance <= sigma).mean() for sigma in sigmas]
    axes.plot(1 - np.exp(-(sigmas**2) / 2), shares, color=colour, linewidth=1.2, label=f"{name}: Σ alone")
    inside = (distance[:, None] <= told.radii[there].numpy()).mean(0)
    axes.plot(list(GAUSSIAN_COVERAGE.values()), inside, "o", color=colour, label=f"{name}: 1, 2, 3 σ as stated")


def _draw_bins(axes: Any, probability: FloatArray, outcome: BoolArray, name: str, colour: str) -> None:
    number = np.minimum((probability * 10).astype(np.int64), 9)
    bins = [rows for n in range(10) if (rows := number == n).sum() >= _FEWEST]
    xs, ys = [probability[rows].mean() for rows in bins], [outcome[rows].mean() for rows in bins]
    axes.plot(xs, ys, "o-", color=colour, markersize=4, linewidth=1.2, label=name)
    axes.bar(xs, [rows.mean() for rows in bins], width=0.03, color=colour, alpha=0.25)
