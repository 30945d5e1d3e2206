"""Encoded pictures by the thousand in little memory: features in float16 in a file that goes when they do.

Letters: B images · D channels · H, W cells.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import TracebackType

import numpy as np
import torch

from salvit.types import Encoded


class KeptFeatures:
    """A list of encoded batches, as many times to go through as one likes; use it in a ``with``.

    Features are rounded to float16, as evaluation keeps them. A picture of DINOv2 at 280 px takes 0.6 MB of disk.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="salvit-features-")
        self._batches: list[tuple[tuple[int, ...], Encoded]] = []
        """Shape of the features in the file, and the rest of the batch."""

    def __enter__(self) -> KeptFeatures:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __len__(self) -> int:
        return sum(shape[0] for shape, _ in self._batches)

    def append(self, encoded: Encoded) -> None:
        """Keep one batch more."""
        features = encoded.features.detach().half().cpu().contiguous().numpy()
        self._file.seek(0, 2)
        self._file.write(features.tobytes())
        rest = Encoded(torch.empty(0), encoded.fits, None if encoded.saliency is None else encoded.saliency.cpu())
        self._batches.append((features.shape, rest))

    def __iter__(self) -> Iterator[Encoded]:
        start = 0
        for shape, rest in list(self._batches):
            size = 2 * int(np.prod(shape))
            self._file.seek(start)
            start += size
            values = np.frombuffer(self._file.read(size), dtype=np.float16).reshape(shape)
            yield Encoded(torch.from_numpy(values.astype(np.float32)), rest.fits, rest.saliency)
