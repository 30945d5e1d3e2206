"""Names and paths that come from outside: nothing leaves the project's folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

LONGEST_PART = 120
_DEPTH = 8
_REFUSED = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\]')


def check_name(name: str, suffixes: tuple[str, ...]) -> tuple[str, ...]:
    """The parts of a relative file name that a browser sent; anything that could lead elsewhere is an error.

    Args:
        name: Parts are separated by ``/``, as browsers send them for a dropped folder.
        suffixes: Endings that are taken, in lower case with their dot.
    """
    if name.startswith("/") or re.match(r"^[A-Za-z]:", name):
        raise ValueError(f"the name {name!r} is an absolute path; expected a name inside the project")
    if _REFUSED.search(name):
        raise ValueError(f"the name {name!r} holds a character that file names may not have; rename the file")
    parts = tuple(name.split("/"))
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"the name {name!r} leads out of its folder or is empty; expected a plain name")
    if len(parts) > _DEPTH or any(len(part.encode()) > LONGEST_PART for part in parts):
        raise ValueError(
            f"the name {name[:60]!r}… is too long: at most {_DEPTH} folders, {LONGEST_PART} bytes in each part"
        )
    if any(part.startswith(".") for part in parts):
        raise ValueError(f"the name {name!r} has a part that begins with a dot; hidden files are not taken")
    if not parts[-1].lower().endswith(suffixes):
        raise ValueError(f"{name!r} is not an image by its ending; expected {', '.join(suffixes[:6])} …")
    return parts


def resolve_inside(folder: Path, path: str) -> Path:
    """The file at a relative path of a folder; a way out of the folder, also by a symbolic link, is an error."""
    root = os.path.realpath(folder)
    target = os.path.realpath(os.path.join(root, path))
    if os.path.commonpath([root, target]) != root:
        raise ValueError(f"{path} leads out of the project's folder; links to other places are not followed")
    return Path(target)
