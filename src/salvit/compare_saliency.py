"""Compares saliency providers on labelled pictures: by keypoints and boxes, by masks, and by a reference's maps.

No data set of ours has masks of real animals, so one figure stands for them: keypoints should be salient, and what lies
outside all boxes should not. Lowering a threshold from 1 to 0 raises both the share of salient keypoints (recall) and
the share of salient pixels outside (false foreground); the figure is the area under that curve: 1 is perfect, ½ is
blind.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from salvit.data.creatures import SPECIES, draw_creature
from salvit.data.images import read_image
from salvit.data.records import DataSet
from salvit.data.splits import Role, file_of, make_problem
from salvit.geometry import Window
from salvit.saliency.learned import LearnedSaliency
from salvit.saliency.onnx_network import OnnxSaliency
from salvit.saliency.provider import Map, Picture, Provider

LEVELS = 256
IOU_THRESHOLD = 0.5


@dataclass(frozen=True, slots=True)
class Labelled:
    """A picture and what is known about it."""

    name: str
    points: npt.NDArray[np.float64]
    """(N, 2) labelled keypoints of the species that is scored."""
    boxes: tuple[Window, ...]
    """Of all animals in the picture."""
    path: Path | None = None
    """Its file; None for a drawn creature."""
    drawn: Picture | None = None
    mask: npt.NDArray[np.bool_] | None = None
    """(H, W) the true foreground, where it is known."""

    def read(self) -> Picture:
        """The pixels, RGB (H, W, 3)."""
        return np.asarray(read_image(self.path)) if self.path is not None else np.asarray(self.drawn)


@dataclass(slots=True)
class RecallCurve:
    """Keypoint recall against false foreground, gathered picture by picture."""

    at_points: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(LEVELS))
    """Histogram of saliency at keypoints."""
    outside: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(LEVELS))
    """Sum of the pictures' histograms of saliency outside all boxes, each of sum 1."""

    def add(self, saliency: Map, points: npt.NDArray[np.float64], boxes: Sequence[Window]) -> None:
        """Count one picture; where the boxes cover all of it, only its keypoints count."""
        levels = np.clip(saliency * (LEVELS - 1), 0, LEVELS - 1).round().astype(np.int64)
        height, width = levels.shape
        x = np.clip(np.floor(points[:, 0] + 0.5).astype(int), 0, width - 1)
        y = np.clip(np.floor(points[:, 1] + 0.5).astype(int), 0, height - 1)
        self.at_points += np.bincount(levels[y, x], minlength=LEVELS)
        is_outside = ~inside_boxes((height, width), boxes)
        if is_outside.any():
            self.outside += np.bincount(levels[is_outside], minlength=LEVELS) / is_outside.sum()

    def area(self) -> float:
        """The area under the curve; ties count half, as the straight line between two thresholds says."""
        if not (self.at_points.any() and self.outside.any()):
            raise ValueError("no keypoints, or nothing outside the boxes: there is no curve to take the area of")
        recall = np.concatenate([[0.0], np.cumsum(self.at_points[::-1]) / self.at_points.sum()])
        false_foreground = np.concatenate([[0.0], np.cumsum(self.outside[::-1]) / self.outside.sum()])
        return float(np.trapezoid(recall, false_foreground))


def inside_boxes(hw: tuple[int, int], boxes: Sequence[Window]) -> npt.NDArray[np.bool_]:
    """(H, W): which pixels any box touches."""
    inside = np.zeros(hw, dtype=bool)
    for x1, y1, x2, y2 in boxes:
        inside[max(0, int(np.floor(y1))) : int(np.ceil(y2)), max(0, int(np.floor(x1))) : int(np.ceil(x2))] = True
    return inside


def score_iou(
    saliency: npt.NDArray[np.floating], mask: npt.NDArray[np.bool_], threshold: float = IOU_THRESHOLD
) -> float:
    """Intersection over union of {saliency ≥ threshold} and a mask; two empty ones agree."""
    found = saliency >= threshold
    union = int((found | mask).sum())
    return float((found & mask).sum() / union) if union else 1.0


@dataclass(slots=True)
class ProviderFigures:
    """What was measured of one provider."""

    name: str
    added_parameters: int = 0
    """Parameters that it brings beside the backbone that it sits on."""
    curve: RecallCurve = field(default_factory=RecallCurve)
    ious: list[float] = field(default_factory=list)
    """To the reference's maps, both at 0.5."""
    mask_ious: list[float] = field(default_factory=list)
    """To the true masks."""
    seconds: list[float] = field(default_factory=list)
    """Processor time of each picture: on one thread the time that an idle machine takes, whatever else runs."""

    def as_dict(self) -> dict[str, float | str | None]:
        """Percent and milliseconds, for a results file."""
        return {
            "provider": self.name,
            "keypoint_area": round(100 * self.curve.area(), 2),
            "iou_to_reference": round(100 * float(np.mean(self.ious)), 2) if self.ious else None,
            "iou_to_mask": round(100 * float(np.mean(self.mask_ious)), 2) if self.mask_ious else None,
            "added_parameters": self.added_parameters,
            "ms_per_picture": round(1000 * float(np.median(self.seconds)), 2),
        }


def count_parameters(provider: Provider) -> int:
    """Parameters that a provider adds: a decoder, a whole network, or none."""
    if isinstance(provider, LearnedSaliency):
        return sum(parameter.numel() for parameter in provider.decoder.parameters())
    return provider.num_parameters if isinstance(provider, OnnxSaliency) else 0


def compare_providers(
    pictures: Iterable[Labelled], providers: Mapping[str, Provider], reference: str | None = None
) -> list[ProviderFigures]:
    """Run every provider on every picture.

    Args:
        pictures: What to compare on.
        providers: By the name that they are reported under.
        reference: The one of them that the others' maps are compared to.
    """
    if reference is not None and reference not in providers:
        raise ValueError(f"the reference {reference!r} is not among the providers {', '.join(providers)}")
    figures = {name: ProviderFigures(name, count_parameters(provider)) for name, provider in providers.items()}
    for labelled in pictures:
        pixels = labelled.read()
        maps: dict[str, Map] = {}
        for name, provider in providers.items():
            start = time.process_time()
            maps[name] = provider(pixels, labelled.path)
            figures[name].seconds.append(time.process_time() - start)
            figures[name].curve.add(maps[name], labelled.points, labelled.boxes)
            if labelled.mask is not None:
                figures[name].mask_ious.append(score_iou(maps[name], labelled.mask))
        if reference is not None:
            truth = maps[reference] >= IOU_THRESHOLD
            for name in set(maps) - {reference}:
                figures[name].ious.append(score_iou(maps[name], truth))
    return list(figures.values())


def labelled_pictures(
    dataset: DataSet, unseen: str | None, role: Role, *, limit: int | None = None, seed: int = 0
) -> list[Labelled]:
    """The pictures of a role of a data set; ``limit`` takes that many of them, drawn by the seed."""
    problem = make_problem(dataset, unseen)
    boxes: dict[str, list[Window]] = {}
    for record in dataset.records:
        if record.box is not None:
            boxes.setdefault(file_of(record), []).append(record.box)
    points: dict[str, list[npt.NDArray[np.float64]]] = {}
    paths: dict[str, Path] = {}
    for record in problem.records[role]:
        points.setdefault(file_of(record), []).append(record.points[record.visible])
        paths[file_of(record)] = record.path
    names = sorted(paths)
    if limit is not None and limit < len(names):
        names = sorted(random.Random(seed).sample(names, limit))
    return [
        Labelled(name, np.concatenate(points[name]), tuple(boxes.get(name, ())), path=paths[name]) for name in names
    ]


def drawn_creatures(count: int, seed: int = 0) -> Iterable[Labelled]:
    """Creatures of all species in turn, with their true masks."""
    for index in range(count):
        creature = draw_creature(SPECIES[index % len(SPECIES)], seed + index, size_hw=(288, 384))
        yield Labelled(
            f"{creature.species}-{creature.seed}",
            creature.points[creature.v > 0],
            (creature.box,),
            drawn=np.asarray(creature.image),
            mask=creature.mask,
        )
