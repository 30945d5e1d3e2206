"""The detection file: COCO keypoints with scores, presence and covariances (schema in docs/formats.md)."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import salvit
from salvit.types import Detection, Pack

SCHEMA = "salvit-detections-1"


class DetectionWriter:
    """Writes detections as they come: rows go to a spool beside the file, and the file appears whole at the end."""

    def __init__(self, path: Path, pack: Pack, spool: TextIO) -> None:
        self.count = 0
        self._path, self._pack, self._spool = path, pack, spool

    def write(self, detection: Detection) -> None:
        """Add what was found in one picture."""
        self.count += 1
        file_name = os.path.relpath(detection.path, self._path.parent)
        row = {
            "image": image_row(detection, self.count, file_name),
            "annotation": annotation_row(detection, self.count),
        }
        self._spool.write(json.dumps(row) + "\n")

    def finish(self) -> None:
        """Put the file together from the spool."""
        self._spool.flush()
        partial = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")
        with partial.open("w", encoding="utf-8") as file:
            head = {
                "info": {"schema": SCHEMA, "model": self._pack.model, "version": salvit.__version__},
                "categories": [category_row(self._pack)],
            }
            file.write(json.dumps(head)[:-1])
            for key, plural in (("image", "images"), ("annotation", "annotations")):
                file.write(f', "{plural}": [')
                for number, row in enumerate(self._rows()):
                    file.write((",\n" if number else "\n") + json.dumps(row[key]))
                file.write("\n]")
            file.write("}\n")
        os.replace(partial, self._path)

    def _rows(self) -> Iterator[dict[str, Any]]:
        with Path(self._spool.name).open(encoding="utf-8") as spool:
            for line in spool:
                yield json.loads(line)


@contextmanager
def open_detections(path: Path, pack: Pack, *, overwrite: bool = False) -> Iterator[DetectionWriter]:
    """Open a detection file for writing; whatever ends the work, what was found until then is in the file."""
    check_output(path, overwrite)
    spool_path = path.with_name(f".{path.name}.{os.getpid()}.spool.jsonl")
    with spool_path.open("w", encoding="utf-8") as spool:
        writer = DetectionWriter(path, pack, spool)
        try:
            yield writer
        finally:
            writer.finish()
    spool_path.unlink()


def check_output(path: Path, overwrite: bool) -> None:
    """Refuse to write over a file, or where nothing can be written, before any work is done."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; expected the name of a file to write")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; choose another name, or add --overwrite")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as problem:
        raise PermissionError(f"cannot write {path}: {path.parent} is not a folder that you may write to") from problem


def image_row(detection: Detection, number: int, file_name: str) -> dict[str, Any]:
    """One entry of ``images``."""
    height, width = detection.image_hw
    return {"id": number, "file_name": Path(file_name).as_posix(), "width": width, "height": height}


def annotation_row(detection: Detection, number: int) -> dict[str, Any]:
    """One entry of ``annotations``; a keypoint where the detector abstains is 0, 0, 0."""
    located = detection.located
    keypoints = [
        value
        for (x, y), is_located in zip(detection.points, located, strict=True)
        for value in ((round(float(x), 3), round(float(y), 3), 2) if is_located else (0.0, 0.0, 0))
    ]
    row: dict[str, Any] = {
        "id": number,
        "image_id": number,
        "category_id": 1,
        "keypoints": keypoints,
        "num_keypoints": int(located.sum()),
        "score": float(detection.scores[located].mean()) if located.any() else 0.0,
        "keypoint_scores": [round(float(score), 5) for score in detection.scores * located],
        "keypoint_presence": [round(float(presence), 5) for presence in detection.presence * located],
        "keypoint_covariances": [[[round(float(v), 4) for v in line] for line in one] for one in detection.covariances],
        "iscrowd": 0,
    }
    x1, y1, x2, y2 = detection.box or (0.0, 0.0, float(detection.image_hw[1]), float(detection.image_hw[0]))
    row["bbox"] = [x1, y1, x2 - x1, y2 - y1]
    row["area"] = (x2 - x1) * (y2 - y1)
    return row


def category_row(pack: Pack) -> dict[str, Any]:
    """The one entry of ``categories``; skeletons count from 1, as COCO does."""
    place = {name: number for number, name in enumerate(pack.names, start=1)}
    links = [[place[a], place[b]] for a, b in pack.skeleton if a in place and b in place]
    return {"id": 1, "name": "object", "keypoints": list(pack.names), "skeleton": links}
