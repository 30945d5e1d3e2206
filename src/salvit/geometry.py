"""The one pixel convention, and every change of coordinates.

Convention: points are ``(x, y)``, sizes are ``(height, width)``. Pixel centres are integers, so the top left pixel is
the point (0, 0) and covers the square from −0.5 to +0.5; scaling therefore acts about −0.5. Windows and boxes are
``(x1, y1, x2, y2)`` in *edge* coordinates: the whole image of width w and height h is ``(0, 0, w, h)``, and the point
x lies at edge coordinate x + 0.5.

Only this file scales points. Frames, as they appear in names: ``points_image`` (pixels of the file as it is shown,
EXIF rotation applied), ``points_input`` (pixels of the square that a network sees), ``points_grid`` (cells).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Window = tuple[float, float, float, float]
MEAN_COLOUR = (124, 116, 104)
"""The mean of ImageNet, which the padding of a fitted picture is filled with."""
Points = TypeVar("Points")
"""A NumPy array or a torch tensor: plain arithmetic only."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How a window of an image was scaled and padded into a square input; maps points there and back."""

    window: Window
    """The part of the image that was taken, xyxy in edge coordinates."""
    size: int
    """Side of the square input in pixels."""
    inner_hw: tuple[int, int]
    """Height and width of the scaled window inside the square."""
    pad_xy: tuple[int, int]
    """Pixels of padding to the left and above."""

    @property
    def scale_xy(self) -> Array:
        """Input pixels per image pixel, (2,)."""
        x1, y1, x2, y2 = self.window
        return np.array([self.inner_hw[1] / (x2 - x1), self.inner_hw[0] / (y2 - y1)])

    def to_input(self, points_image: npt.ArrayLike) -> Array:
        """Map points (..., 2) of the image into the input."""
        edges = np.asarray(points_image, dtype=np.float64) + 0.5 - np.array(self.window[:2])
        return np.asarray(edges * self.scale_xy + np.array(self.pad_xy) - 0.5)

    def to_image(self, points_input: npt.ArrayLike) -> Array:
        """Map points (..., 2) of the input back into the image."""
        edges = np.asarray(points_input, dtype=np.float64) + 0.5 - np.array(self.pad_xy)
        return np.asarray(edges / self.scale_xy + np.array(self.window[:2]) - 0.5)

    def covariance_to_image(self, covariance_input: npt.ArrayLike) -> Array:
        """Map covariances (..., 2, 2) of the input back into the image."""
        inverse = 1.0 / self.scale_xy
        return np.asarray(covariance_input, dtype=np.float64) * np.outer(inverse, inverse)


@dataclass(frozen=True, slots=True)
class Affine:
    """A straight-lined change of frame: x' = a x + b y + c, y' = d x + e y + f, in edge coordinates.

    PIL's affine transform works in edge coordinates too: it takes the values of the inverse.
    """

    values: tuple[float, float, float, float, float, float]
    """(a, b, c, d, e, f)."""

    def apply(self, points: npt.ArrayLike) -> Array:
        """Map points (..., 2), given and returned as points (pixel centres are integers)."""
        a, b, c, d, e, f = self.values
        edges = np.asarray(points, dtype=np.float64) + 0.5
        x, y = edges[..., 0], edges[..., 1]
        return np.stack([a * x + b * y + c, d * x + e * y + f], -1) - 0.5

    def bounds(self, window: Window) -> Window:
        """The smallest upright window that holds a window's four corners after the change."""
        x1, y1, x2, y2 = window
        corners = self.apply(np.array([[x1, y1], [x2, y1], [x1, y2], [x2, y2]]) - 0.5) + 0.5
        low, high = corners.min(0), corners.max(0)
        return (float(low[0]), float(low[1]), float(high[0]), float(high[1]))

    def then(self, later: Affine) -> Affine:
        """This change followed by another."""
        a, b, c, d, e, f = self.values
        p, q, r, s, t, u = later.values
        return Affine(
            (p * a + q * d, p * b + q * e, p * c + q * f + r, s * a + t * d, s * b + t * e, s * c + t * f + u)
        )

    def inverse(self) -> Affine:
        """The way back."""
        a, b, c, d, e, f = self.values
        det = a * e - b * d
        if det == 0:
            raise ValueError(f"the affine change {self.values} flattens the plane and has no inverse")
        return Affine(
            (e / det, -b / det, (b * f - c * e) / det, -d / det, a / det, (c * d - a * f) / det),
        )


def affine_of_fit(fit: Fit) -> Affine:
    """The change from image to input that a fit makes."""
    (scale_x, scale_y), (x1, y1), (pad_x, pad_y) = fit.scale_xy, fit.window[:2], fit.pad_xy
    return Affine((float(scale_x), 0.0, float(pad_x - x1 * scale_x), 0.0, float(scale_y), float(pad_y - y1 * scale_y)))


def affine_turn(degrees: float, image_hw: tuple[int, int], *, is_flipped: bool = False) -> Affine:
    """Turn an image about its centre, counter-clockwise as it is seen, after mirroring it left to right if asked."""
    height, width = image_hw
    angle = math.radians(degrees)
    cos, sin, x, y = math.cos(angle), math.sin(angle), width / 2, height / 2
    turn = Affine((cos, sin, x - cos * x - sin * y, -sin, cos, y + sin * x - cos * y))
    return Affine((-1.0, 0.0, float(width), 0.0, 1.0, 0.0)).then(turn) if is_flipped else turn


def fit_square(window: Window, size: int) -> Fit:
    """Fit a window into a square: its long side becomes ``size``, the short side is padded on both ends."""
    x1, y1, x2, y2 = window
    width, height = x2 - x1, y2 - y1
    if not (width > 0 and height > 0):
        raise ValueError(f"the window {window} is empty; expected x1 < x2 and y1 < y2")
    scale = size / max(width, height)
    inner_hw = (max(1, min(size, round(height * scale))), max(1, min(size, round(width * scale))))
    pad_xy = ((size - inner_hw[1]) // 2, (size - inner_hw[0]) // 2)
    return Fit((float(x1), float(y1), float(x2), float(y2)), size, inner_hw, pad_xy)


def whole_window(image_hw: tuple[int, int]) -> Window:
    """The window that holds the whole image."""
    return (0.0, 0.0, float(image_hw[1]), float(image_hw[0]))


def clip_window(window: Window, image_hw: tuple[int, int]) -> Window:
    """Cut a window to the image; a window outside it is an error."""
    height, width = image_hw
    x1, y1, x2, y2 = window
    clipped = (max(0.0, float(x1)), max(0.0, float(y1)), min(float(width), float(x2)), min(float(height), float(y2)))
    if not (clipped[2] > clipped[0] and clipped[3] > clipped[1]):
        raise ValueError(
            f"the box {tuple(float(side) for side in window)} does not meet the image of {width}×{height} pixels; "
            "expected x1,y1,x2,y2 in pixels with x1 < x2 and y1 < y2"
        )
    return clipped


def grow_window(window: Window, margin: float) -> Window:
    """Widen a window on each side by ``margin`` times its longer side."""
    x1, y1, x2, y2 = window
    by = margin * max(x2 - x1, y2 - y1)
    return (x1 - by, y1 - by, x2 + by, y2 + by)


def is_inside(points_image: npt.ArrayLike, image_hw: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Whether points (..., 2) lie on a pixel of the image; NaN does not."""
    points = np.asarray(points_image, dtype=np.float64)
    limit = np.array([image_hw[1], image_hw[0]]) - 0.5
    return np.asarray(((points >= -0.5) & (points <= limit)).all(-1))


def flip_points(points: Points, width: int) -> Points:
    """Mirror points (..., 2) of an image of that width left to right: x ↦ width − 1 − x."""
    mirrored = points.clone() if hasattr(points, "clone") else points.copy()  # type: ignore[attr-defined]
    mirrored[..., 0] = (width - 1) - mirrored[..., 0]
    return mirrored  # type: ignore[no-any-return]


def grid_to_input(points_grid: Points, stride: float) -> Points:
    """Cell indices to input pixels: the centre of cell i lies at stride · (i + ½) − ½."""
    return (points_grid + 0.5) * stride - 0.5  # type: ignore[operator,return-value]


def input_to_grid(points_input: Points, stride: float) -> Points:
    """Input pixels to cell indices (fractional): the inverse of :func:`grid_to_input`."""
    return (points_input + 0.5) / stride - 0.5  # type: ignore[operator,return-value]


def to_shares(points_image: npt.ArrayLike, image_hw: tuple[int, int]) -> Array:
    """Points (..., 2) as shares of the image: 0 is its left or upper edge, 1 the other; (x + ½) / width."""
    return np.asarray((np.asarray(points_image, dtype=np.float64) + 0.5) / np.array([image_hw[1], image_hw[0]]))


def from_shares(shares: npt.ArrayLike, image_hw: tuple[int, int]) -> Array:
    """Shares of an image back to points: the inverse of :func:`to_shares`."""
    return np.asarray(np.asarray(shares, dtype=np.float64) * np.array([image_hw[1], image_hw[0]]) - 0.5)
