"""Keeps saliency maps on disk, so that each is computed once.

A map's key is the hash of the picture's pixels, the provider and its settings: another picture under the same name, or
another setting, is another entry. Entries are 8-bit PNG files, as in the paper's own code. Every write goes to a file
of its own and is then renamed, so that several processes may share a folder; at worst a map is computed twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from salvit.backbones.weights import cache_folder
from salvit.saliency.provider import Map, Picture, Provider

DEFAULT_LIMIT_MB = 1000
_CHECK_EVERY = 64
_VERSION = "1"
"""Changes when the algorithm of a provider does, so that old maps are not taken for new ones."""


class CachedProvider:
    """A provider with a folder of its earlier answers."""

    def __init__(self, provider: Provider, folder: Path | None = None, limit_mb: float = DEFAULT_LIMIT_MB) -> None:
        self.provider = provider
        self.folder = default_folder() if folder is None else folder
        self.limit_mb = limit_mb
        self.name = provider.name
        self._settings = provider.settings  # hashing a network's weights once is enough
        self._writes = 0

    @property
    def settings(self) -> str:
        """Those of the provider."""
        return self._settings

    def __call__(self, picture: Picture, source: Path | None = None) -> Map:
        """The map from the folder, or a new one that is put there; both are rounded to 8 bits, so they are the same."""
        path = self.folder / f"{map_key(picture, self.name, self._settings)}.png"
        kept = read_map(path, picture.shape[:2])
        if kept is not None:
            with contextlib.suppress(OSError):
                os.utime(path)  # marks it as used: the oldest go first
            return kept
        levels = (self.provider(picture, source) * 255).round().astype(np.uint8)
        self._store(path, levels)
        return np.asarray(levels / np.float32(255), dtype=np.float32)

    def _store(self, path: Path, levels: Picture) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=self.folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                Image.fromarray(levels).save(file, format="PNG")
            os.replace(partial, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(partial)
            raise
        self._writes += 1
        if self._writes % _CHECK_EVERY == 1:
            trim_cache(self.folder, self.limit_mb)


def default_folder() -> Path:
    """Where maps are kept."""
    return cache_folder() / "saliency"


def map_key(picture: Picture, name: str, settings: str) -> str:
    """SHA-256 of the pixels, their shape, the provider and its settings."""
    digest = hashlib.sha256(f"{_VERSION}\n{name}\n{settings}\n{picture.shape}\n".encode())
    digest.update(np.ascontiguousarray(picture).data)
    return digest.hexdigest()


def read_map(path: Path, hw: tuple[int, int]) -> Map | None:
    """A kept map; None where there is none, or a broken one or one of another size (it is then made anew)."""
    try:
        with Image.open(path) as image:
            levels = np.asarray(image.convert("L"))
    except (OSError, SyntaxError):
        return None
    return np.asarray(levels / np.float32(255), dtype=np.float32) if levels.shape == hw else None


def trim_cache(folder: Path, limit_mb: float) -> int:
    """Remove the longest unused maps until the folder is under the limit; gives the number removed."""
    entries = []
    for path in folder.glob("*.png"):
        with contextlib.suppress(OSError):  # another process may have removed it
            state = path.stat()
            entries.append((state.st_mtime_ns, state.st_size, path))
    spare = sum(size for _, size, _ in entries) - limit_mb * 1e6
    removed = 0
    for _, size, path in sorted(entries):
        if spare <= 0:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            removed += 1
        spare -= size
    return removed


def clear_cache(folder: Path | None = None) -> tuple[int, float]:
    """Remove every map, and what stopped processes left behind; gives their number and megabytes."""
    folder = default_folder() if folder is None else folder
    count, size = 0, 0.0
    for path in [*folder.glob("*.png"), *folder.glob("*.part")]:
        with contextlib.suppress(OSError):
            size += path.stat().st_size / 1e6
            path.unlink()
            count += path.suffix == ".png"
    return count, size
