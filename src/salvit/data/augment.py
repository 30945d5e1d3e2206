"""Training-time changes to an image and everything that is marked on it, in one resampling.

An image is mirrored, turned about its centre, then a window that keeps the box is cut from the turned image and fitted
to the square input. All of it is one affine change, drawn before the image is read, so that a view is a plain value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from salvit.data.crops import Crop, draw_window, inner_window
from salvit.geometry import Affine, Window, affine_turn, clip_window, whole_window
from salvit.types import BoolArray, FloatArray, Record

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class AugmentSettings:
    """How training views are changed; the values are the authors' (colour changes are off in their runs)."""

    flip: float = 0.5
    """Probability of mirroring, where left/right pairs are known."""
    turn: float = 0.25
    """Probability of turning."""
    degrees: float = 15.0
    """Turn by at most so much, either way."""
    scale: tuple[float, float] = (0.75, 1.25)
    """Show the object larger or smaller by a factor between these; the box is always kept whole."""
    colour: float = 0.0
    """Brightness, contrast and saturation change by a factor within 1 ± this."""

    def __post_init__(self) -> None:
        if not 0 <= self.flip <= 1 or not 0 <= self.turn <= 1:
            raise ValueError(f"flip and turn are probabilities in [0, 1], got {self.flip} and {self.turn}")
        if not 0 < self.scale[0] <= self.scale[1] or not 0 <= self.colour < 1 or not 0 <= self.degrees <= 45:
            raise ValueError(
                f"expected 0 < scale[0] ≤ scale[1], 0 ≤ colour < 1 and 0 ≤ degrees ≤ 45; got {self.scale}, "
                f"{self.colour} and {self.degrees}"
            )


@dataclass(frozen=True, slots=True)
class Change:
    """One drawn augmentation."""

    is_flipped: bool = False
    degrees: float = 0.0
    colour: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Factors of brightness, contrast and saturation."""


@dataclass(frozen=True, slots=True)
class View:
    """A record, the part of its image that is shown, and how the image is changed: enough to load the same pixels."""

    record: Record
    window: Window
    """xyxy in edge coordinates of the image, or of the turned image if there is a change."""
    change: Change | None = None


def draw_view(
    record: Record,
    image_hw: tuple[int, int],
    crop: Crop,
    rng: np.random.Generator,
    settings: AugmentSettings | None = None,
    *,
    can_flip: bool = False,
    saliency: npt.NDArray[np.float32] | None = None,
) -> View:
    """Draw the window of a record and, with settings, an augmentation.

    Args:
        record: What is shown.
        image_hw: Size of its image.
        crop: How the window is chosen.
        rng: Draws; the same state gives the same view.
        settings: None: no augmentation.
        can_flip: Left/right pairs are known, so the image may be mirrored.
        saliency: (h, w) over the whole image; needed by the crop ``saliency`` only.
    """
    inner = inner_window(record, image_hw, crop, saliency)
    outer = whole_window(image_hw)
    if settings is None:
        return View(record, draw_window(inner, outer, crop, rng))
    is_flipped = bool(rng.random() < settings.flip) and can_flip
    degrees = float(rng.uniform(-settings.degrees, settings.degrees)) if rng.random() < settings.turn else 0.0
    factor = float(rng.uniform(*settings.scale))
    brightness, contrast, saturation = (1.0 + settings.colour * rng.uniform(-1.0, 1.0, 3)).tolist()
    turn = affine_turn(degrees, image_hw, is_flipped=is_flipped)
    turned_inner = turn.bounds(inner)
    window = draw_window(turned_inner, turn.bounds(outer), crop, rng)
    change = Change(is_flipped, degrees, (brightness, contrast, saturation))
    return View(record, _scale_window(window, turned_inner, factor), change)


def _scale_window(window: Window, inner: Window, factor: float) -> Window:
    """Shrink a window about its centre by a factor > 1, or widen it by one < 1, but never cut into the inner window."""
    x1, y1, x2, y2 = window
    half_x, half_y = (x2 - x1) / 2 / factor, (y2 - y1) / 2 / factor
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    return (min(x - half_x, inner[0]), min(y - half_y, inner[1]), max(x + half_x, inner[2]), max(y + half_y, inner[3]))


def change_affine(view: View, image_hw: tuple[int, int]) -> Affine:
    """The mirroring and turning of a view: image → turned image."""
    change = view.change or Change()
    return affine_turn(change.degrees, image_hw, is_flipped=change.is_flipped)


def changed_box(view: View, image_hw: tuple[int, int]) -> Window:
    """The upright window around the record's box in the turned image; the whole image where there is no box."""
    box = whole_window(image_hw) if view.record.box is None else clip_window(view.record.box, image_hw)
    return change_affine(view, image_hw).bounds(box)


def exchange_sides(
    points: FloatArray, visible: BoolArray, names: tuple[str, ...], pairs: Pairs
) -> tuple[FloatArray, BoolArray]:
    """Give each left keypoint the place of its right partner and back: the mirror image of a left eye is a right eye.

    Args:
        points: (N, 2), already mirrored.
        visible: (N,).
        names: N names.
        pairs: Left/right names; pairs that are not among the names are passed over.
    """
    order = list(range(len(names)))
    place = {name: index for index, name in enumerate(names)}
    for left, right in pairs:
        if left in place and right in place:
            order[place[left]], order[place[right]] = place[right], place[left]
    return points[order], visible[order]


def change_colour(image: Image.Image, factors: tuple[float, float, float]) -> Image.Image:
    """Scale brightness and contrast (about mid-grey) through one table, and saturation towards the grey image."""
    brightness, contrast, saturation = factors
    if (brightness, contrast) != (1.0, 1.0):
        levels = (np.arange(256) * brightness - 127.5) * contrast + 127.5
        image = image.point(np.clip(np.rint(levels), 0, 255).astype(int).tolist() * len(image.getbands()))
    if saturation != 1.0:
        image = Image.blend(image.convert("L").convert(image.mode), image, saturation)
    return image
