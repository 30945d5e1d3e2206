"""How every reader makes a record, and how it counts what it could not use: never silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from salvit.data.images import image_hw as read_image_hw
from salvit.geometry import Window, clip_window, grow_window, is_inside
from salvit.types import Record

HULL_MARGIN = 0.1
"""A box that is made of points is widened on each side by this share of its longer side."""
MAX_EXAMPLES = 5
"""So many examples of each problem are kept; the count goes on."""


@dataclass(slots=True)
class ReadReport:
    """What a reader met: counts of problems by name, each with a few examples."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, problem: str, example: str) -> None:
        """Count one problem."""
        self.counts[problem] += 1
        kept = self.examples.setdefault(problem, [])
        if len(kept) < MAX_EXAMPLES:
            kept.append(example)

    def to_mapping(self) -> dict[str, Any]:
        """Plain values for JSON: {problem: {count, examples}}."""
        return {name: {"count": count, "examples": self.examples[name]} for name, count in sorted(self.counts.items())}


@dataclass(frozen=True, slots=True)
class DataSet:
    """All records of a data set on disk, in the order of its files, and what its reader met."""

    name: str
    root: Path
    records: tuple[Record, ...]
    report: ReadReport
    num_images: int
    """Images that the annotation names, with or without records."""


@dataclass(slots=True)
class RecordBuilder:
    """Builds the records of one data set: checks image, points and box, and counts what is wrong."""

    names: tuple[str, ...]
    """Keypoint names, unless :meth:`add` is given others."""
    keep_missing: bool = False
    """Keep records whose image file is not there (their path leads nowhere): for counting only."""
    report: ReadReport = field(default_factory=ReadReport)
    records: list[Record] = field(default_factory=list)
    _sizes: dict[Path, tuple[int, int] | None] = field(default_factory=dict)
    _used: Counter[str] = field(default_factory=Counter)

    def add(
        self,
        *,
        file: str,
        path: Path,
        species: str,
        points: npt.ArrayLike,
        v: npt.ArrayLike,
        box: Sequence[float] | None,
        stated_hw: tuple[int, int] | None = None,
        names: tuple[str, ...] | None = None,
    ) -> None:
        """Make one record, or count why not.

        Args:
            file: The image's name inside the data set; with a running index it makes the record's id.
            path: Where the image lies.
            species: Species or category.
            points: (N, 2).
            v: (N,) in {0, 1, 2}.
            box: xyxy; None or an empty one gives the hull of the points plus 10 %, flagged.
            stated_hw: Height and width as the annotation states them, used where the image is not there.
            names: The record's own keypoint names, where they differ from the builder's.
        """
        index = self._used[file]
        self._used[file] += 1
        record_id = f"{file}#{index}"
        names = self.names if names is None else names
        points_image = np.array(points, dtype=np.float64)
        labels = np.nan_to_num(np.array(v, dtype=np.float64)).clip(-1, 3).astype(np.int64)
        if points_image.shape != (len(names), 2) or labels.shape != (len(names),):
            self.report.add("wrong number of keypoints", record_id)
            return
        image_hw = self._image_hw(path)
        if image_hw is None:
            if not self.keep_missing:
                return
            image_hw = stated_hw
        elif stated_hw is not None and image_hw != stated_hw:
            self.report.add("image size differs from the annotation", record_id)
        labels = self._check_points(points_image, labels, image_hw, record_id)
        window, is_from_points = self._check_box(box, points_image, labels, image_hw, record_id)
        self.records.append(
            Record(record_id, path, species, names, points_image, labels, window, is_from_points, image_hw)
        )

    def finish(self, name: str, root: Path, num_images: int) -> DataSet:
        """The data set; one without any record is an error."""
        if not self.records:
            met = ", ".join(f"{problem}: {count}" for problem, count in self.report.counts.items()) or "nothing at all"
            raise ValueError(f"{root}: no usable record of {name} was found ({met}); is this the right folder?")
        return DataSet(name, root, tuple(self.records), self.report, num_images)

    def _image_hw(self, path: Path) -> tuple[int, int] | None:
        if path not in self._sizes:
            try:
                self._sizes[path] = read_image_hw(path)
            except FileNotFoundError:
                self._sizes[path] = None
                self.report.add("image missing", path.name)
            except (OSError, ValueError) as problem:
                self._sizes[path] = None
                self.report.add("image unreadable", str(problem))
        return self._sizes[path]

    def _check_points(
        self,
        points: npt.NDArray[np.float64],
        labels: npt.NDArray[np.int64],
        image_hw: tuple[int, int] | None,
        record_id: str,
    ) -> npt.NDArray[np.int64]:
        """A point outside the image, or not finite, is not labelled; it is not moved."""
        if not np.isin(labels, (0, 1, 2)).all():
            self.report.add("visibility not 0, 1 or 2", record_id)
            labels = np.clip(labels, 0, 2)
        inside = np.isfinite(points).all(-1) if image_hw is None else is_inside(points, image_hw)
        for _ in range(int(((labels > 0) & ~inside).sum())):
            self.report.add("keypoint outside the image", record_id)
        labels = np.where(inside, labels, 0)
        if not labels.any():
            self.report.add("no keypoint", record_id)
        return labels

    def _check_box(
        self,
        box: Sequence[float] | None,
        points: npt.NDArray[np.float64],
        labels: npt.NDArray[np.int64],
        image_hw: tuple[int, int] | None,
        record_id: str,
    ) -> tuple[Window | None, bool]:
        """The stated box, or the hull of the points plus 10 % and True."""
        if box is None:
            self.report.add("no box", record_id)
        elif (problem := _box_problem(box, image_hw)) is not None:
            self.report.add(problem, record_id)
        else:
            x1, y1, x2, y2 = (float(side) for side in box)
            return (x1, y1, x2, y2), False
        if not labels.any():
            return None, False
        return hull_box(points[labels > 0], image_hw), True


def hull_box(points: npt.NDArray[np.float64], image_hw: tuple[int, int] | None) -> Window:
    """The upright box around the pixels of points (N, 2), plus 10 % of its longer side, cut to the image."""
    low, high = points.min(0), points.max(0) + 1.0
    box = grow_window((float(low[0]), float(low[1]), float(high[0]), float(high[1])), HULL_MARGIN)
    return box if image_hw is None else clip_window(box, image_hw)


def _box_problem(box: Sequence[float], image_hw: tuple[int, int] | None) -> str | None:
    try:
        sides = np.array(box, dtype=np.float64)
    except (ValueError, TypeError):
        return "box is not four numbers"
    if sides.shape != (4,) or not np.isfinite(sides).all():
        return "box is not four numbers"
    x1, y1, x2, y2 = box
    if x2 <= x1 or y2 <= y1:
        return "box of zero size"
    if image_hw is not None and (x1 >= image_hw[1] or y1 >= image_hw[0] or x2 <= 0 or y2 <= 0):
        return "box outside the image"
    return None
