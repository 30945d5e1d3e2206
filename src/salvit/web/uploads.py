"""Takes pictures in: those that a browser sends, and those that lie in the project's folder."""

from __future__ import annotations

import filecmp
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from PIL import Image

from salvit.data.images import SUFFIXES, image_hw, read_image
from salvit.projects import Project, check_name, resolve_inside
from salvit.web.limits import Limits

FOLDER = "pictures"
"""Where uploaded pictures go, inside the project's folder."""
THUMBNAIL = 320
_SHOWN_AS_THEY_ARE = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp"}


def store_upload(project: Project, name: str, content: BinaryIO, limits: Limits) -> tuple[str, tuple[int, int]]:
    """Copy an uploaded picture into the project; returns its path there and its (height, width).

    The file is written beside its place, decoded as a proof that it is an image, and only then given its name. One of
    the same name and content is the same picture; one of the same name only gets a number.
    """
    parts = check_name(name, SUFFIXES)
    target = resolve_inside(project.folder, "/".join([FOLDER, *parts]))
    incoming = project.home / "incoming"
    incoming.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=incoming, suffix=target.suffix, delete=False) as file:
        partial = Path(file.name)
        shutil.copyfileobj(content, file)
    try:
        if partial.stat().st_size > limits.file_bytes:
            raise ValueError(f"{name}: larger than the limit of {limits.file_bytes / 2**20:.0f} MB for one picture")
        hw = _check(partial, name, limits)
        target.parent.mkdir(parents=True, exist_ok=True)
        placed = _place(partial, resolve_inside(project.folder, "/".join([FOLDER, *parts])))
    finally:
        partial.unlink(missing_ok=True)
    return placed.relative_to(project.folder).as_posix(), hw


def scan_folder(project: Project, limits: Limits) -> tuple[list[int], list[str]]:
    """Add the pictures that lie in the project's folder; returns their numbers, and what was left out and why."""
    root, known = project.folder, project.known_paths()
    files = (Path(place) / name for place, folders, names in _walk(root) for name in sorted(names))
    return add_files(project, ((file.relative_to(root).as_posix(), file) for file in files), known, limits)


def add_files(
    project: Project, files: Iterable[tuple[str, Path]], known: set[str], limits: Limits
) -> tuple[list[int], list[str]]:
    """Add pictures where they are, by the path that the project keeps; links out of the project are left out."""
    found, problems = [], []
    for path, file in files:
        if path in known or file.suffix.lower() not in SUFFIXES:
            continue
        try:
            project.locate(path)
            found.append((path, image_hw(file, max_pixels=limits.pixels)))
        except (OSError, ValueError) as problem:
            problems.append(str(problem))
        if len(known) + len(found) > limits.pictures:
            raise ValueError(f"a project holds at most {limits.pictures} pictures; make another one for the rest")
    return (project.add_images(found) if found else []), problems


def thumbnail(project: Project, image: int, limits: Limits) -> Path:
    """A small copy of a picture, made once."""
    folder = project.home / "thumbnails"
    folder.mkdir(exist_ok=True)
    small = folder / f"{image}.jpg"
    file = project.file(image)
    if not small.is_file() or small.stat().st_mtime < file.stat().st_mtime:
        picture = read_image(file, max_pixels=limits.pixels, at_least=THUMBNAIL)
        picture.thumbnail((THUMBNAIL, THUMBNAIL), Image.Resampling.BILINEAR)
        _save(picture, small)
    return small


def shown_file(project: Project, image: int, limits: Limits) -> Path:
    """A file of a picture that a browser can show: its own, or a copy as JPEG (TIFF, HEIC)."""
    file = project.file(image)
    if file.suffix.lower() in _SHOWN_AS_THEY_ARE:
        return file
    folder = project.home / "shown"
    folder.mkdir(exist_ok=True)
    copy = folder / f"{image}.jpg"
    if not copy.is_file():
        _save(read_image(file, max_pixels=limits.pixels), copy)
    return copy


def _walk(root: Path) -> Iterable[tuple[str, list[str], list[str]]]:
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield place, folders, names


def _check(file: Path, name: str, limits: Limits) -> tuple[int, int]:
    try:
        hw = image_hw(file, max_pixels=limits.pixels)
        read_image(file, max_pixels=limits.pixels, at_least=THUMBNAIL)
    except (OSError, ValueError) as problem:
        reason = str(problem).replace(str(file), name)
        raise ValueError(reason if reason.startswith(name) else f"{name}: {reason}") from problem
    return hw


def _place(partial: Path, target: Path) -> Path:
    """Give a file its name without ever replacing another."""
    for number in range(1, 1000):
        wanted = target if number == 1 else target.with_stem(f"{target.stem}-{number}")
        try:
            os.link(partial, wanted)
        except FileExistsError:
            if filecmp.cmp(partial, wanted, shallow=False):
                return wanted
            continue
        wanted.chmod(0o644)
        return wanted
    raise ValueError(f"{target.name}: a thousand pictures have this name; rename it")


def _save(picture: Image.Image, path: Path) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        picture.save(file, "JPEG", quality=88)
    os.replace(file.name, path)
