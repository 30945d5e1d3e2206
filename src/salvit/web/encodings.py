"""Features of pictures, kept in memory and on disk up to a limit, so that a correction never encodes anything again.

Choice: kept as 16-bit floats, and used so from the start, so that a point does not depend on where its features came
from. The difference to ``salvit detect`` is far below a pixel.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import OrderedDict
from pathlib import Path

import torch

from salvit.geometry import Fit, Window
from salvit.tensor_files import read_tensors, write_tensors
from salvit.types import Encoded

_FORMAT = "salvit-encoding-1"


def encoding_key(model: str, path: Path, box: Window | None) -> str:
    """What names an encoding: model, file as it is now, and box. A file that changes gets another key."""
    facts = os.stat(path)
    return hashlib.sha256(repr((model, str(path), facts.st_mtime_ns, facts.st_size, box)).encode()).hexdigest()[:32]


class Encodings:
    """A cache with two floors: memory, then files; the oldest use goes first."""

    def __init__(self, folder: Path, memory_bytes: int, disk_bytes: int) -> None:
        self._folder, self._most_memory, self._most_disk = folder, memory_bytes, disk_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self._memory: OrderedDict[str, Encoded] = OrderedDict()
        self._in_memory = 0
        for partial in folder.glob(".*.part"):
            partial.unlink(missing_ok=True)
        files = sorted(folder.glob("*.safetensors"), key=lambda file: file.stat().st_mtime)
        self._disk = OrderedDict((file.stem, file.stat().st_size) for file in files)

    @property
    def held_bytes(self) -> int:
        """Bytes in memory."""
        return self._in_memory

    def __contains__(self, key: str) -> bool:
        return key in self._memory or key in self._disk

    def get(self, key: str) -> Encoded | None:
        """The encoding of one picture, or None."""
        if key in self._memory:
            self._memory.move_to_end(key)
            return self._memory[key]
        if key not in self._disk:
            return None
        try:
            encoded = self._read(key)
        except (OSError, ValueError, KeyError):  # removed or cut short: it is made again
            del self._disk[key]
            return None
        self._disk.move_to_end(key)
        self._hold(key, encoded)
        return encoded

    def put(self, key: str, encoded: Encoded) -> Encoded:
        """Keep the encoding of one picture; returns it as it is kept."""
        saliency = None if encoded.saliency is None else encoded.saliency.half().cpu()
        looked = None if encoded.looked is None else encoded.looked.half().cpu()
        kept = Encoded(encoded.features.half().cpu(), encoded.fits, saliency, looked)
        self._hold(key, kept)
        self._write(key, kept)
        return kept

    def _hold(self, key: str, encoded: Encoded) -> None:
        if key in self._memory:
            self._in_memory -= _size(self._memory.pop(key))
        self._memory[key] = encoded
        self._in_memory += _size(encoded)
        while self._in_memory > self._most_memory and len(self._memory) > 1:
            self._in_memory -= _size(self._memory.popitem(last=False)[1])

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.safetensors"

    def _read(self, key: str) -> Encoded:
        tensors, facts = read_tensors(self._file(key), _FORMAT, "an encoding of salvit")
        window, size, inner_hw, pad_xy = json.loads(facts["fit"])
        x1, y1, x2, y2 = window
        fit = Fit((x1, y1, x2, y2), size, (inner_hw[0], inner_hw[1]), (pad_xy[0], pad_xy[1]))
        return Encoded(tensors["features"], (fit,), tensors.get("saliency"), tensors.get("looked"))

    def _write(self, key: str, encoded: Encoded) -> None:
        (fit,) = encoded.fits
        tensors = {"features": encoded.features, "saliency": encoded.saliency, "looked": encoded.looked}
        kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        facts = {"fit": json.dumps([fit.window, fit.size, fit.inner_hw, fit.pad_xy])}
        try:
            write_tensors(self._file(key), kept, _FORMAT, facts)
        except OSError:  # a full disk: memory still serves
            return
        self._disk[key] = _size(encoded)
        while sum(self._disk.values()) > self._most_disk and len(self._disk) > 1:
            oldest, _ = self._disk.popitem(last=False)
            self._file(oldest).unlink(missing_ok=True)


def join_encodings(parts: list[Encoded]) -> Encoded:
    """Several pictures as one batch of 32-bit floats: features, fits and saliency."""
    saliency = [part.saliency.float() for part in parts if part.saliency is not None]
    return Encoded(
        torch.cat([part.features for part in parts]).float(),
        tuple(part.fits[0] for part in parts),
        torch.cat(saliency) if len(saliency) == len(parts) else None,
    )


def join_to_search(parts: list[Encoded]) -> Encoded:
    """Several pictures as one batch to look for keypoints in.

    Where the head has looked at all of them, that and the features, which filters alone read then, stay as they are
    kept.
    """
    looked = [part.looked for part in parts if part.looked is not None]
    if len(looked) < len(parts):
        return join_encodings(parts)
    fits = tuple(part.fits[0] for part in parts)
    return Encoded(torch.cat([part.features for part in parts]), fits, looked=torch.cat(looked))


def _size(encoded: Encoded) -> int:
    parts = (encoded.features, encoded.saliency, encoded.looked)
    return sum(part.nbytes for part in parts if part is not None)
