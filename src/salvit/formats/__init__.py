"""Files of marked pictures and of detections, in the formats that other tools use: one module for each.

``read`` gives a :class:`salvit.data.support.Support` whatever the format; ``write`` takes one. docs/formats.md says
what each format can hold and what it cannot.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from salvit.data.support import Support
from salvit.formats.targets import check_output

Format = Literal["coco", "csv", "deeplabcut", "sleap", "ultralytics", "label-studio"]
FORMATS: tuple[str, ...] = get_args(Format)


def read(path: Path | str, format: str | None = None) -> Support:
    """Read marked pictures.

    What cannot be used is left out and named in ``problems``; a file that cannot be read at all is an error.

    Args:
        path: A file, or a folder that holds a ``data.yaml`` (Ultralytics) or a ``CollectedData`` file (DeepLabCut).
        format: One of :data:`FORMATS`; None: told by the file's ending and content.
    """
    path = _inside(Path(path))
    match format or guess_format(path):
        case "coco":
            from salvit.formats import coco

            return coco.read(path)
        case "csv":
            from salvit.formats import point_table

            return point_table.read(path)
        case "deeplabcut":
            from salvit.formats import deeplabcut

            return deeplabcut.read(path)
        case "sleap":
            from salvit.formats import sleap

            return sleap.read(path)
        case "ultralytics":
            from salvit.formats import ultralytics

            return ultralytics.read(path)
        case "label-studio":
            from salvit.formats import label_studio

            return label_studio.read(path)
    raise ValueError(f"unknown format {format!r}; known: {', '.join(FORMATS)}")


def write(support: Support, path: Path | str, format: str | None = None, *, overwrite: bool = False) -> list[str]:
    """Write marked pictures or detections; gives what had to be left out, a sentence each.

    Args:
        support: What to write; pictures with ``scores`` are written as a detector's work where the format knows that.
        path: The file; for Ultralytics the ``data.yaml``, whose folder takes pictures and labels.
        format: One of :data:`FORMATS`; None: told by the file's ending.
        overwrite: Replace files that exist.
    """
    path = Path(path)
    format = format or format_to_write(path)
    check_output(path, overwrite)
    match format:
        case "coco":
            from salvit.formats import coco

            return coco.write(support, path)
        case "csv":
            from salvit.formats import point_table

            return point_table.write(support, path)
        case "deeplabcut":
            from salvit.formats import deeplabcut

            return deeplabcut.write(support, path, overwrite=overwrite)
        case "sleap":
            from salvit.formats import sleap

            return sleap.write(support, path)
        case "ultralytics":
            from salvit.formats import ultralytics

            return ultralytics.write(support, path, overwrite=overwrite)
        case "label-studio":
            from salvit.formats import label_studio

            return label_studio.write(support, path)
    raise ValueError(f"unknown format {format!r}; known: {', '.join(FORMATS)}")


def guess_format(path: Path) -> str:
    """The format of a file that exists, by its ending and, for .json and .csv, by its content."""
    match path.suffix.lower():
        case ".slp":
            return "sleap"
        case ".h5" | ".hdf5":
            return "deeplabcut"
        case ".yaml" | ".yml":
            return "ultralytics"
        case ".csv":
            return "deeplabcut" if _begins_with(path, "scorer") else "csv"
        case ".json":
            return "label-studio" if _begins_with(path, "[") else "coco"
    raise ValueError(
        f"{path}: expected .json (COCO keypoints, Label Studio), .csv (image,keypoint,x,y or DeepLabCut), .h5 "
        f"(DeepLabCut), .slp (SLEAP) or data.yaml (Ultralytics), got {path.suffix!r}"
    )


def format_to_write(path: Path) -> str:
    """The format that a new file's name tells."""
    name = path.name.lower()
    endings = {".json": "coco", ".csv": "csv", ".slp": "sleap", ".h5": "deeplabcut"}
    endings |= {".yaml": "ultralytics", ".yml": "ultralytics"}
    if name.startswith("collecteddata") and name.endswith(".csv"):
        return "deeplabcut"
    if path.suffix.lower() not in endings:
        raise ValueError(f"{path}: the ending tells no format; expected {', '.join(endings)}, or name it with --format")
    return endings[path.suffix.lower()]


def _inside(path: Path) -> Path:
    """The file that a folder of a format is read by."""
    if not path.is_dir():
        if not path.is_file():
            raise FileNotFoundError(f"the file {path} does not exist; expected marked pictures in a known format")
        if path.stat().st_size == 0:
            raise ValueError(f"{path} is empty (0 bytes); expected marked pictures in a known format")
        return path
    for pattern in ("data.yaml", "data.yml", "CollectedData*.csv", "CollectedData*.h5"):
        if found := sorted(path.glob(pattern)):
            return found[0]
    raise ValueError(f"{path} is a folder without data.yaml (Ultralytics) and CollectedData file (DeepLabCut)")


def _begins_with(path: Path, text: str) -> bool:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return file.read(4096).lstrip().startswith(text)


__all__ = ["FORMATS", "Format", "check_output", "format_to_write", "guess_format", "read", "write"]
