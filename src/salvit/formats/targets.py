"""Where files are written: nothing of a user's is written over, a file appears whole, pictures are put beside it."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from salvit.data.images import image_hw
from salvit.data.support import MarkedImage, Support


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


def partial_name(path: Path) -> Path:
    """A hidden name beside a file, with the same ending, under which it is written before it takes its place."""
    return path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step: it is there whole, or as it was before."""
    partial = partial_name(path)
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def require(module: str, what: str) -> Any:
    """A module of the extra ``formats``, or an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        raise ValueError(f"{what} need the package {module!r}; install it: pip install 'salvit[formats]'") from problem


def leads_out(name: str) -> bool:
    """Whether a path that a file names goes up with ``..``: in formats whose pictures lie in their own folder."""
    return ".." in name.replace("\\", "/").split("/")


def size_of(marked: MarkedImage) -> tuple[int, int]:
    """Height and width of a marked picture: its file's, or what was stated where there is no file."""
    if marked.image_hw is not None and not marked.path.is_file():
        return marked.image_hw
    return image_hw(marked.path)


def by_picture(support: Support) -> dict[Path, list[MarkedImage]]:
    """The marked objects of each picture, in the order in which they come."""
    pictures: dict[Path, list[MarkedImage]] = {}
    for marked in support.images:
        pictures.setdefault(marked.path, []).append(marked)
    return pictures


def place_pictures(
    paths: Iterable[Path], folder: Path, *, below: Path | None = None, overwrite: bool = False
) -> tuple[dict[Path, Path], list[str]]:
    """Copy pictures into a folder, each under a name of its own; those that lie there already stay as they are.

    Args:
        paths: Pictures, each once.
        folder: Where they should lie.
        below: Where this is given, pictures anywhere below it stay where they are too.
        overwrite: Replace pictures of the same name.

    Returns:
        Where each picture is now, and what could not be copied, a sentence each.
    """
    placed: dict[Path, Path] = {}
    problems: list[str] = []
    taken: set[str] = set()
    paths = list(paths)
    for path in paths:
        if not path.is_file():
            problems.append(f"{path} does not exist, so it cannot be put into {folder}; left out")
            continue
        here = path.resolve()
        if here.parent == folder.resolve() or (below is not None and here.is_relative_to(below.resolve())):
            placed[path] = here
            taken.add(path.stem.lower())
    for path in paths:
        if path in placed or not path.is_file():
            continue
        stem, number = path.stem, 1
        while stem.lower() in taken:
            number += 1
            stem = f"{path.stem}-{number}"
        taken.add(stem.lower())
        target = folder / f"{stem}{path.suffix}"
        if target.exists() and not overwrite and not _is_same(path, target):
            problems.append(f"{target} exists and is another picture than {path}; left out (--overwrite replaces it)")
            continue
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        placed[path] = target.resolve()
    return placed, problems


def _is_same(one: Path, other: Path) -> bool:
    return one.stat().st_size == other.stat().st_size and one.read_bytes() == other.read_bytes()
