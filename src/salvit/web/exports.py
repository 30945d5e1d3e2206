"""What a project holds, as files: COCO keypoints, and every other format of the command line."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import salvit
from salvit.data.support import MarkedImage, Support
from salvit.detections import SCHEMA, annotation_row, image_row
from salvit.formats import FORMATS, write
from salvit.projects import Project
from salvit.types import Detection

_FILES = {
    "csv": "points.csv", "sleap": "points.slp", "label-studio": "label-studio.json",
    "deeplabcut": "CollectedData_salvit.csv", "ultralytics": "data.yaml",
}  # fmt: skip
_WITH_PICTURES = ("deeplabcut", "ultralytics")
"""Formats whose pictures must lie beside them."""


def detections_of(project: Project, *, only_marks: bool = False) -> list[Detection]:
    """One detection for each object that has points: marks where people made them, what was found otherwise.

    A point that is probably absent (under the project's threshold), or said to be absent, is not located.
    """
    overview = project.overview()
    names = tuple(point["name"] for point in overview["keypoints"])
    column = {point["id"]: number for number, point in enumerate(overview["keypoints"])}
    threshold = overview["settings"]["threshold"]
    detections = []
    for picture in project.pictures():
        for thing in picture["objects"]:
            points = [point for point in thing["points"] if point["kind"] != "found" or not only_marks]
            if points:
                detections.append(_detection(project, picture, thing, points, names, column, threshold))
    return detections


def to_coco(project: Project, detections: list[Detection]) -> dict[str, Any]:
    """COCO keypoints (docs/formats.md); file names are relative to the project's folder."""
    overview = project.overview()
    names = [point["name"] for point in overview["keypoints"]]
    place = {point["id"]: number for number, point in enumerate(overview["keypoints"], start=1)}
    images: dict[str, dict[str, Any]] = {}
    annotations = []
    for number, detection in enumerate(detections, start=1):
        file_name = os.path.relpath(detection.path, project.folder)
        image = images.setdefault(file_name, image_row(detection, len(images) + 1, file_name))
        annotations.append({**annotation_row(detection, number), "image_id": image["id"]})
    return {
        "info": {"schema": SCHEMA, "model": overview["settings"]["model"], "version": salvit.__version__},
        "categories": [
            {
                "id": 1,
                "name": "object",
                "keypoints": names,
                "skeleton": [[place[first], place[second]] for first, second in overview["skeleton"]],
            }
        ],
        "images": list(images.values()),
        "annotations": annotations,
    }


def _detection(
    project: Project,
    picture: dict[str, Any],
    thing: dict[str, Any],
    points: list[dict[str, Any]],
    names: tuple[str, ...],
    column: dict[int, int],
    threshold: float,
) -> Detection:
    count = len(names)
    places, covariances = np.zeros((count, 2)), np.zeros((count, 2, 2))
    scores, presence, located = np.zeros(count), np.zeros(count), np.zeros(count, dtype=bool)
    for point in points:
        n = column[point["keypoint"]]
        places[n], scores[n], presence[n] = (point["x"], point["y"]), point["score"], point["presence"]
        located[n] = point["kind"] in ("placed", "confirmed") or (
            point["kind"] == "found" and point["presence"] >= threshold
        )
        if "covariance" in point:
            xx, xy, yy = point["covariance"]
            covariances[n] = [[xx, xy], [xy, yy]]
    box = None if thing["box"] is None else tuple(thing["box"])
    return Detection(
        path=project.locate(picture["path"]),
        image_hw=(picture["height"], picture["width"]),
        names=names,
        points=places,
        scores=scores,
        presence=presence,
        covariances=covariances,
        located=located,
        box=box,
    )


def to_support(project: Project, detections: Sequence[Detection]) -> Support:
    """The same for all other formats; an object whose points people checked all is a person's work, without scores."""
    overview = project.overview()
    names = {point["id"]: point["name"] for point in overview["keypoints"]}
    images = tuple(
        MarkedImage(
            one.path, one.names, one.points, one.located, one.box, one.image_hw,
            None if (one.scores[one.located] == 1.0).all() else one.scores,
        )
        for one in detections
    )  # fmt: skip

    def named(links: list[list[int]]) -> tuple[tuple[str, str], ...]:
        return tuple((names[first], names[second]) for first, second in links)

    return Support(images, named(overview["skeleton"]), pairs=named(overview["pairs"]))


def present_formats() -> list[str]:
    """Formats that a project can be written in here: some need packages of the extra ``formats``."""
    needs = {"deeplabcut": ("pandas", "tables"), "sleap": ("sleap_io",), "ultralytics": ("yaml",)}
    return [name for name in FORMATS if all(find_spec(package) for package in needs.get(name, ()))]


def export(project: Project, format: str, *, only_marks: bool = False) -> Path:
    """Write a project in a format; returns the file, alone in a new folder that the caller removes.

    Paths in it are relative to the project's folder; formats that want the pictures beside them give a zip file.
    """
    if format not in present_formats():
        raise ValueError(f"unknown format {format!r}; known here: {', '.join(present_formats())}")
    detections = detections_of(project, only_marks=only_marks)
    if not detections:
        raise ValueError("there is no point to write yet; mark one, or find them first")
    folder = Path(tempfile.mkdtemp(prefix="export-", dir=project.home))
    name = _plain(project.folder.name)
    if format == "coco":
        target = folder / f"{name}.json"
        target.write_text(json.dumps(to_coco(project, detections), indent=1), encoding="utf-8")
        return target
    support = to_support(project, detections)
    if format in _WITH_PICTURES:
        inside = folder / name
        write(support, inside / _FILES[format], format)
        packed = Path(shutil.make_archive(str(folder / f"{name}-{format}"), "zip", folder, name))
        shutil.rmtree(inside)
        return packed
    beside = project.folder / f".{folder.name}{Path(_FILES[format]).suffix}"
    try:
        write(support, beside, format)
        return beside.rename(folder / f"{name}-{_FILES[format]}")
    finally:
        beside.unlink(missing_ok=True)


def _plain(name: str) -> str:
    """A name that any header and file system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "project"
