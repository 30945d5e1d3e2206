"""From a view to what a network sees: the image is read once and resampled once, points and saliency go with it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from salvit.data.augment import Change, Pairs, View, change_affine, change_colour, changed_box, exchange_sides
from salvit.data.images import fit_pixels, mean_square, read_image
from salvit.data.occlude import Occlusion, hide_boxes
from salvit.geometry import MEAN_COLOUR, Affine, Fit, Window, affine_of_fit, fit_square
from salvit.types import BoolArray, FloatArray, Record

Plane = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class LoadedView:
    """One image as a network sees it, with everything that is marked on it in the same frame."""

    pixels: npt.NDArray[np.uint8]
    """(S, S, 3) RGB."""
    points_input: FloatArray
    """(N, 2)."""
    visible: BoolArray
    """(N,) the keypoint is labelled and lies inside the window."""
    box_input: Window
    """The upright box around the object, xyxy in edge coordinates."""
    to_input: Affine
    """Image → input; its inverse leads back."""
    saliency: Plane | None = None
    """(S, S) in 0 … 255, zero in the padding."""


def select_keypoints(record: Record, names: tuple[str, ...]) -> tuple[FloatArray, BoolArray]:
    """Points (N, 2) and visibility (N,) of the named keypoints; one that the record does not know is not visible."""
    return _pick(record.points, record.visible, record.names, names)


def load_view(
    view: View,
    size: int,
    names: tuple[str, ...],
    *,
    pairs: Pairs = (),
    saliency: npt.NDArray[np.float32] | None = None,
    occlusion: Occlusion | None = None,
) -> LoadedView:
    """Read and fit one view.

    Args:
        view: What to show.
        size: Side of the square input.
        names: The keypoints to take along, N of them.
        pairs: Left/right names, which a mirrored view exchanges.
        saliency: (h, w) in [0, 1] over the whole image, of any resolution.
        occlusion: Covers boxes of the image, in its pixels.
    """
    image = read_image(view.record.path)
    image_hw = (image.height, image.width)
    plane = None if saliency is None else _to_plane(saliency, image_hw)
    if occlusion is not None:
        hidden, dimmed = hide_boxes(
            np.asarray(image),
            occlusion,
            saliency=None if plane is None else np.asarray(plane),
            object_box=view.record.box,
        )
        image, plane = Image.fromarray(hidden), None if dimmed is None else Image.fromarray(dimmed)
    fit = fit_square(view.window, size)
    to_input = change_affine(view, image_hw).then(affine_of_fit(fit))
    change = view.change or Change()
    image = change_colour(image, change.colour)
    if change.degrees == 0:
        pixels, fitted = fit_upright(image, plane, fit, is_flipped=change.is_flipped)
    else:
        pixels, fitted = warp(image, plane, to_input, fit)
    points, visible = to_input.apply(view.record.points), view.record.visible
    if change.is_flipped:
        points, visible = exchange_sides(points, visible, view.record.names, pairs)
    points, visible = _pick(points, visible, view.record.names, names)
    visible &= _inside_window(points, fit)
    box = affine_of_fit(fit).bounds(changed_box(view, image_hw))
    return LoadedView(pixels, points, visible, box, to_input, fitted)


def fit_upright(
    image: Image.Image, plane: Image.Image | None, fit: Fit, *, is_flipped: bool
) -> tuple[npt.NDArray[np.uint8], Plane | None]:
    """Resample an image that is not turned: scaling alone costs a quarter of a general affine change.

    Where the window goes beyond the image, the image is widened with mean colour first, and saliency with zero.
    """
    if is_flipped:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        plane = None if plane is None else plane.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    x1, y1, x2, y2 = fit.window
    left, top = max(0, math.ceil(-x1)), max(0, math.ceil(-y1))
    right, bottom = max(0, math.ceil(x2 - image.width)), max(0, math.ceil(y2 - image.height))
    if left or top or right or bottom:
        border = (left, top, right, bottom)
        image = ImageOps.expand(image, border, MEAN_COLOUR)
        plane = None if plane is None else ImageOps.expand(plane, border, 0)
        fit = replace(fit, window=(x1 + left, y1 + top, x2 + left, y2 + top))
    return fit_pixels(image, fit), None if plane is None else _fit_plane(plane, fit)


def warp(
    image: Image.Image, plane: Image.Image | None, to_input: Affine, fit: Fit
) -> tuple[npt.NDArray[np.uint8], Plane | None]:
    """Resample image and saliency together by one affine change; mean colour and zero outside image and window.

    Bilinear sampling skips pixels when it shrinks by more than two, so a much larger image is averaged in whole blocks
    first.
    """
    a, b, _, d, e, _ = to_input.values
    shrink = int(1 / max(np.hypot(a, d), np.hypot(b, e)))
    back = to_input.inverse()
    if shrink >= 2:
        image, plane = image.reduce(shrink), None if plane is None else plane.reduce(shrink)
        back = back.then(Affine((1 / shrink, 0.0, 0.0, 0.0, 1 / shrink, 0.0)))
    fill: tuple[int, ...] = MEAN_COLOUR
    if plane is not None:
        # four planes cost as much as three; PIL would multiply RGB by the fourth if it were called alpha
        image, fill = Image.merge("RGBX", (*image.split(), plane)), (*MEAN_COLOUR, 0)
    warped = image.transform(
        (fit.size, fit.size), Image.Transform.AFFINE, back.values, Image.Resampling.BILINEAR, fillcolor=fill
    )
    pixels = np.array(warped if plane is None else warped.convert("RGB"))
    fitted = None if plane is None else np.array(warped.getchannel(3))
    for region in _padding(fit):
        pixels[region] = mean_square(fit.size)[region]
        if fitted is not None:
            fitted[region] = 0
    return pixels, fitted


def _padding(fit: Fit) -> list[tuple[slice, slice]]:
    """The regions of the input outside the scaled window."""
    (x, y), (height, width), every = fit.pad_xy, fit.inner_hw, slice(None)
    strips = [(slice(0, y), every), (slice(y + height, None), every)]
    return [*strips, (every, slice(0, x)), (every, slice(x + width, None))]


def _to_plane(saliency: npt.NDArray[np.float32], image_hw: tuple[int, int]) -> Image.Image:
    """A map in [0, 1] to 8 bits at the size of the image."""
    if saliency.ndim != 2:
        raise ValueError(f"a saliency map is (height, width), got the shape {saliency.shape}")
    plane = Image.fromarray(np.rint(np.clip(saliency, 0, 1) * 255).astype(np.uint8))
    if saliency.shape != image_hw:
        plane = plane.resize((image_hw[1], image_hw[0]), Image.Resampling.BILINEAR)
    return plane


def _fit_plane(plane: Image.Image, fit: Fit) -> Plane:
    inner = plane.resize((fit.inner_hw[1], fit.inner_hw[0]), Image.Resampling.BILINEAR, box=fit.window)
    fitted = np.zeros((fit.size, fit.size), dtype=np.uint8)
    (x, y), (height, width) = fit.pad_xy, fit.inner_hw
    fitted[y : y + height, x : x + width] = np.asarray(inner)
    return fitted


def _pick(
    points: FloatArray, visible: BoolArray, have: tuple[str, ...], names: tuple[str, ...]
) -> tuple[FloatArray, BoolArray]:
    """The rows of the wanted names, in their order; a name that is not there gives a row that is not visible."""
    place = {name: index for index, name in enumerate(have)}
    picked, is_seen = np.zeros((len(names), 2)), np.zeros(len(names), dtype=bool)
    for row, name in enumerate(names):
        if name in place:
            picked[row], is_seen[row] = points[place[name]], visible[place[name]]
    return picked, is_seen


def _inside_window(points_input: FloatArray, fit: Fit) -> BoolArray:
    low = np.array(fit.pad_xy) - 0.5
    high = low + np.array([fit.inner_hw[1], fit.inner_hw[0]])
    return np.asarray(((points_input >= low) & (points_input <= high)).all(-1))
