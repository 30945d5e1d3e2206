"""Detections on disk: lines as they come, a whole file at the end (schemas in docs/formats.md).

Rows go to ``NAME.partial.jsonl`` beside the file, one line for each object, and the file is put together from it when
all is done. A run that was killed leaves that file, and goes on from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np

import salvit
from salvit.data.support import MarkedImage, Support
from salvit.formats import format_to_write, write
from salvit.formats.targets import check_output, require
from salvit.packs import fingerprint
from salvit.suggest import Candidate, candidate_of
from salvit.types import Detection, Pack

SCHEMA = "salvit-detections-1"
LINES_SCHEMA = "salvit-detection-lines-1"
_NEEDED = {"deeplabcut": ("pandas", "tables"), "sleap": ("sleap_io",), "ultralytics": ("yaml",)}


class DetectionWriter:
    """Writes detections as they come, and the whole file at the end."""

    def __init__(self, path: Path, format: str, pack: Pack, lines: TextIO, done: list[dict[str, Any]]) -> None:
        self.count = len(done)
        self.problems: list[str] = []
        """What the format could not take, a sentence each: known at the end."""
        self.candidates = [_candidate(row, path) for row in done if "descriptor" in row]
        """Pictures that could be suggested, those of an earlier run first."""
        self._path, self._format, self._pack, self._lines = path, format, pack, lines
        self._done = {(row["image"]["file_name"], row.get("index", 0)) for row in done}

    def has(self, path: Path, index: int = 0) -> bool:
        """Whether an earlier run did this object."""
        return (_file_name(path, self._path), index) in self._done

    def write(self, detection: Detection) -> None:
        """Add what was found for one object."""
        self.count += 1
        row: dict[str, Any] = {
            "image": image_row(detection, self.count, _file_name(detection.path, self._path)),
            "annotation": annotation_row(detection, self.count),
            "index": detection.index,
        }
        if detection.descriptor is not None:
            candidate = candidate_of(detection, self._pack)
            self.candidates.append(candidate)
            row |= {"uncertainty": candidate.uncertainty, "descriptor": candidate.descriptor.round(5).tolist()}
        self._lines.write(json.dumps(row) + "\n")

    def finish(self, *, overwrite: bool) -> None:
        """Put the file together from the lines."""
        self._lines.flush()
        if self._format == "coco":
            self._write_coco()
        elif self._format != "lines":
            found = Support(tuple(self._marked()), self._pack.skeleton, [], self._pack.pairs)
            self.problems += write(found, self._path, self._format, overwrite=overwrite)

    def _write_coco(self) -> None:
        unknown = [name for name, known in zip(self._pack.names, self._pack.known.tolist(), strict=True) if not known]
        info = {"schema": SCHEMA, "model": self._pack.model, "version": salvit.__version__, "unknown": unknown}
        numbers: dict[str, int] = {}
        for row in self._rows():
            numbers.setdefault(row["image"]["file_name"], len(numbers) + 1)
        partial = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")
        with partial.open("w", encoding="utf-8") as file:
            file.write(json.dumps({"info": info, "categories": [category_row(self._pack)]})[:-1])
            file.write(', "images": [')
            written: set[str] = set()
            for row in self._rows():
                name = row["image"]["file_name"]
                if name not in written:
                    image = {**row["image"], "id": numbers[name]}
                    file.write((",\n" if written else "\n") + json.dumps(image))
                    written.add(name)
            file.write('\n], "annotations": [')
            for number, row in enumerate(self._rows(), start=1):
                annotation = {**row["annotation"], "id": number, "image_id": numbers[row["image"]["file_name"]]}
                file.write((",\n" if number > 1 else "\n") + json.dumps(annotation))
            file.write("\n]}\n")
        os.replace(partial, self._path)

    def _marked(self) -> Iterator[MarkedImage]:
        """The rows as every format takes them; an object of which nothing was located has no marks."""
        for row in self._rows():
            image, annotation = row["image"], row["annotation"]
            triples = np.array(annotation["keypoints"], dtype=np.float64).reshape(-1, 3)
            x, y, width, height = annotation["bbox"]
            yield MarkedImage(
                path=self._path.parent / image["file_name"],
                names=self._pack.names,
                points=triples[:, :2],
                marked=triples[:, 2] > 0,
                box=(x, y, x + width, y + height),
                image_hw=(image["height"], image["width"]),
                scores=np.array(annotation["keypoint_scores"]),
            )

    def _rows(self) -> Iterator[dict[str, Any]]:
        with Path(self._lines.name).open(encoding="utf-8") as lines:
            next(lines)
            for line in lines:
                yield json.loads(line)


@contextmanager
def open_detections(
    path: Path,
    pack: Pack,
    *,
    format: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[DetectionWriter]:
    """Open a detection file for writing; whatever ends the work, what was found until then is in the file.

    Args:
        path: The file; one that ends in .jsonl is the lines themselves.
        pack: What was looked for.
        format: One of :data:`salvit.formats.FORMATS`; None: told by the file's ending.
        overwrite: Replace files that exist.
        resume: Go on with a run that did not finish, if there is one.
        settings: What else decides what is found; a run with others is not gone on with.
    """
    format = format or ("lines" if path.suffix == ".jsonl" else format_to_write(path))
    lines_path = check_detections(path, format, overwrite=overwrite, resume=resume)
    head: dict[str, Any] = {"schema": LINES_SCHEMA, "model": pack.model, "version": salvit.__version__}
    head |= {"pack": fingerprint(pack), "names": list(pack.names), "settings": dict(settings or {})}
    goes_on = resume and lines_path.exists()
    done = _read_lines(lines_path, head) if goes_on else []
    with lines_path.open("a" if goes_on else "w", encoding="utf-8", buffering=1) as lines:
        if lines.tell() == 0:
            lines.write(json.dumps(head) + "\n")
        writer = DetectionWriter(path, format, pack, lines, done)
        try:
            yield writer
        finally:
            writer.finish(overwrite=overwrite or goes_on)
    if lines_path != path:
        lines_path.unlink()


def check_detections(path: Path, format: str, *, overwrite: bool = False, resume: bool = False) -> Path:
    """Refuse, before any work is done, what could not be written after it; gives the file that lines go to."""
    for module in _NEEDED.get(format, ()):
        require(module, f"files of the format {format}")
    lines = path if format == "lines" else path.with_name(f"{path.name}.partial.jsonl")
    if lines.exists() and not resume and not overwrite:
        raise FileExistsError(f"{lines} exists; --resume goes on with it, --overwrite begins anew")
    is_own = resume and lines.exists()
    if resume and path.exists() and not is_own and not overwrite:
        raise FileExistsError(f"{path} exists and is finished: nothing to resume; --overwrite begins anew")
    for target in [path, *([path.with_suffix(".csv"), path.with_suffix(".h5")] if format == "deeplabcut" else [])]:
        check_output(target, overwrite or is_own)
    return lines


def _read_lines(path: Path, head: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of a run that did not finish; a last line that was cut short is cut off."""
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    try:
        stated, *rows = [json.loads(line) for line in whole.splitlines()] or [{}]
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise ValueError(f"{path} is broken ({problem}): nothing to go on with; --overwrite begins anew") from problem
    for key in ("schema", "model", "pack", "settings") if whole else ():
        if stated.get(key) != head[key]:
            raise ValueError(
                f"{path} is of another run: its {key} is {stated.get(key)}, now it is {head[key]}; "
                "give the same options, or --overwrite to begin anew"
            )
    if len(whole) < len(text):
        os.truncate(path, len(whole))
    return rows


def _file_name(path: Path, out: Path) -> str:
    return Path(os.path.relpath(path, out.parent)).as_posix()


def _candidate(row: Mapping[str, Any], out: Path) -> Candidate:
    return Candidate(out.parent / row["image"]["file_name"], row["uncertainty"], np.array(row["descriptor"]))


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
    if detection.warnings:
        row["warnings"] = list(detection.warnings)
    return row


def category_row(pack: Pack) -> dict[str, Any]:
    """The one entry of ``categories``; skeletons and pairs count from 1, as COCO does."""
    place = {name: number for number, name in enumerate(pack.names, start=1)}
    row: dict[str, Any] = {"id": 1, "name": "object", "keypoints": list(pack.names)}
    row["skeleton"] = [[place[a], place[b]] for a, b in pack.skeleton if a in place and b in place]
    if pack.pairs:
        row["pairs"] = [[place[a], place[b]] for a, b in pack.pairs if a in place and b in place]
    return row
