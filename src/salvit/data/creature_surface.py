"""From a creature's frame to pixels: the camera, and coordinates on the skin of a part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from salvit.data.creature_bodies import Array, Part


@dataclass(frozen=True, slots=True)
class Camera:
    """Takes points of the creature's frame to pixels (pixel centres are integers)."""

    rotation: Array
    """(3, 3) to right, up, towards the viewer."""
    scale: float
    """Pixels per unit."""
    origin: Array
    """(2,) pixel of the frame's origin."""
    mirror: float
    """−1 for a creature that faces the viewer's left."""

    def to_pixels(self, points: Array) -> Array:
        """(..., 3) to (..., 2)."""
        axes = self.rotation[:2] * np.array([[self.mirror], [-1.0]]) * self.scale
        return np.asarray(points @ axes.T + self.origin)

    def towards_viewer(self, vectors: Array) -> Array:
        """How far vectors (..., 3) point to the viewer: (...)."""
        return np.asarray(vectors @ self.rotation[2])


class Surface:
    """The skin of a tube as a sheet: a place is how far along it lies, and at what angle around."""

    def __init__(self, part: Part) -> None:
        steps = np.diff(part.spine, axis=0)
        lengths = np.sqrt((steps**2).sum(1))
        tangents = steps / np.maximum(lengths, 1e-9)[:, None]
        (x, y, n), (tx, ty, tn) = part.lateral, np.concatenate([tangents, tangents[-1:]]).T
        ups = np.stack([y * tn - n * ty, n * tx - x * tn, x * ty - y * tx], 1)  # lateral × tangent
        self._ups = ups / np.maximum(np.sqrt((ups**2).sum(1)), 1e-9)[:, None]
        self._table = np.column_stack([part.spine, part.radii, self._ups])
        self._lateral = part.lateral
        self.length = float(lengths.sum())
        """Length of the spine."""
        self.thick = float(np.median(part.radii))
        """The usual radius."""

    def at(self, along: Array, around: Array) -> tuple[Array, Array]:
        """Points (..., 3) and their outward directions (..., 3).

        Args:
            along: From 0 at the start to 1 at the end.
            around: Angle from the top, positive to the near side.
        """
        along, around = np.broadcast_arrays(along, around)
        last = len(self._table) - 1
        at = np.clip(along, 0, 1) * last
        i = np.minimum(at.astype(int), last - 1)
        row = self._table[i] + (self._table[i + 1] - self._table[i]) * (at - i)[..., None]
        normal = np.cos(around)[..., None] * row[..., 4:] + np.sin(around)[..., None] * self._lateral
        return row[..., :3] + row[..., 3:4] * normal, normal
