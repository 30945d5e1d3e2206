"""Hides parts of images: blocks on keypoints for the occlusion study, foreground patches for training.

Test blocks (paper Sec. 4.3): centred on a keypoint with probability p, area 0.01 to 0.04 of the object's box, aspect
0.7 to 1.4; grey, filled with their own mean colour, or covered by a piece of background. Training masks (Sec. 3.4): 2
to 12 foreground patches; the picture gets grey, saliency and features get zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from salvit.geometry import MEAN_COLOUR, Window
from salvit.types import BoolArray, FloatArray

Pixels = npt.NDArray[np.uint8]
Occluder = Literal["grey", "average", "background"]
OCCLUDERS: tuple[str, ...] = get_args(Occluder)
AREA = (0.01, 0.04)
"""Area of a block as a share of the object's box."""
ASPECT = (0.7, 1.4)
"""Width of a block over its height."""
BACKGROUND = 0.6
"""A point of less saliency is background."""
MASK_PROBABILITY = 0.5
"""A training image is masked with this probability."""
MASKED_PATCHES = (2, 12)
"""So many patches are masked, both ends included."""
FOREGROUND = 0.4
"""A pixel of at least this saliency is foreground."""
FOREGROUND_SHARE = 0.1
"""A patch is foreground if at least this share of its pixels is."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """One block for each keypoint of a record, drawn once, whatever the probability that is studied later."""

    boxes: FloatArray
    """(N, 4) xyxy in edge coordinates of the image, cut at its border."""
    draws: FloatArray
    """(N,) in [0, 1): the block is used when this is below the probability; 1 where there is no keypoint."""

    def chosen(self, probability: float) -> FloatArray:
        """The blocks (M, 4) that hide keypoints at a probability; those of a lower one are among them."""
        if not 0 <= probability <= 1:
            raise ValueError(f"the probability of occlusion is {probability}; expected a number in [0, 1]")
        return self.boxes[self.draws < probability]


@dataclass(frozen=True, slots=True)
class Occlusion:
    """What hides parts of one image."""

    occluder: Occluder
    boxes: FloatArray
    """(M, 4)."""
    seed: int
    """Chooses where pieces of background come from."""

    @property
    def key(self) -> str:
        """Tells views of one record apart by what hides it and where; empty where nothing does."""
        return f"{self.occluder} {np.round(self.boxes, 2).tolist()}" if len(self.boxes) else ""


def sample_blocks(
    points_image: FloatArray,
    visible: BoolArray,
    box: Window,
    image_hw: tuple[int, int],
    rng: np.random.Generator,
) -> Blocks:
    """Draw one block for each of N keypoints; a keypoint that is not visible gets one that is never used."""
    num, (height, width) = len(points_image), image_hw
    area = rng.uniform(*AREA, num) * (box[2] - box[0]) * (box[3] - box[1])
    aspect = rng.uniform(*ASPECT, num)
    draws = np.where(visible, rng.random(num), 1.0)
    half = np.stack([np.sqrt(area * aspect), np.sqrt(area / aspect)], -1) / 2
    centre = points_image + 0.5
    boxes = np.concatenate([centre - half, centre + half], -1).clip(0, [width, height, width, height])
    return Blocks(boxes, draws)


def hide_boxes(
    pixels: Pixels,
    occlusion: Occlusion,
    *,
    saliency: npt.NDArray[np.uint8] | None = None,
    object_box: Window | None = None,
) -> tuple[Pixels, npt.NDArray[np.uint8] | None]:
    """Cover boxes of an image; saliency is zero beneath them.

    Args:
        pixels: (H, W, 3); not changed.
        occlusion: Which boxes, in pixels of this image, and what covers them. They are cut at the border; a box that
            covers no whole pixel hides nothing.
        saliency: (H, W) in 0 … 255; also tells where background is.
        object_box: Tells where background is if there is no saliency: outside the box.
    """
    hidden, dimmed = pixels.copy(), None if saliency is None else saliency.copy()
    rng = np.random.default_rng(occlusion.seed)
    background = _background_points(pixels.shape[:2], saliency, object_box) if len(occlusion.boxes) else None
    for box in occlusion.boxes:
        x1, y1, x2, y2 = _whole_pixels(box, (pixels.shape[0], pixels.shape[1]))
        if x2 <= x1 or y2 <= y1:
            continue
        region = (slice(y1, y2), slice(x1, x2))
        if occlusion.occluder == "grey":
            hidden[region] = MEAN_COLOUR
        elif occlusion.occluder == "average":
            hidden[region] = np.rint(pixels[region].reshape(-1, 3).mean(0))
        elif occlusion.occluder == "background":
            assert background is not None
            hidden[region] = _background_piece(pixels, background, (y2 - y1, x2 - x1), rng)
        else:
            raise ValueError(f"unknown occluder {occlusion.occluder!r}; expected one of {', '.join(OCCLUDERS)}")
        if dimmed is not None:
            dimmed[region] = 0
    return hidden, dimmed


def _whole_pixels(box: npt.ArrayLike, image_hw: tuple[int, int]) -> tuple[int, int, int, int]:
    x1, y1, x2, y2 = np.rint(np.asarray(box, dtype=np.float64)).astype(int)
    height, width = image_hw
    return max(0, int(x1)), max(0, int(y1)), min(width, int(x2)), min(height, int(y2))


def _background_points(
    image_hw: tuple[int, ...], saliency: npt.NDArray[np.uint8] | None, object_box: Window | None
) -> npt.NDArray[np.int64]:
    """(P, 2) y, x of background pixels; where none is known, the image's border."""
    if saliency is not None:
        is_background = saliency < BACKGROUND * 255
    else:
        is_background = np.ones(image_hw[:2], dtype=bool)
        if object_box is not None:
            x1, y1, x2, y2 = _whole_pixels(object_box, (image_hw[0], image_hw[1]))
            is_background[y1:y2, x1:x2] = False
    if not is_background.any():
        is_background[[0, -1], :] = True
        is_background[:, [0, -1]] = True
    return np.argwhere(is_background)


def _background_piece(
    pixels: Pixels, background: npt.NDArray[np.int64], block_hw: tuple[int, int], rng: np.random.Generator
) -> Pixels:
    """A piece of the block's size around a random background point, moved so that it lies in the image."""
    y, x = background[rng.integers(len(background))]
    top = int(np.clip(y - block_hw[0] // 2, 0, pixels.shape[0] - block_hw[0]))
    left = int(np.clip(x - block_hw[1] // 2, 0, pixels.shape[1] - block_hw[1]))
    return pixels[top : top + block_hw[0], left : left + block_hw[1]]


def sample_patch_mask(
    saliency: npt.NDArray[np.uint8], rng: np.random.Generator, *, patch: int, probability: float = MASK_PROBABILITY
) -> BoolArray:
    """Choose the foreground patches that a training image loses: (G, G) bool, True = hidden.

    Choice: as in the authors' code nothing is hidden where there are fewer foreground patches than were drawn, so that
    a small object is never hidden whole.

    Args:
        saliency: (S, S) in 0 … 255, S = G · patch.
        rng: Draws.
        patch: Side of a patch in pixels: the stride of the tokens.
        probability: Of masking at all.
    """
    size = saliency.shape[0]
    if saliency.shape != (size, size) or size % patch:
        raise ValueError(f"a map of {saliency.shape} is not a square of whole patches of {patch} pixels")
    grid = size // patch
    mask = np.zeros(grid * grid, dtype=bool)
    if rng.random() < probability:
        salient = (saliency >= FOREGROUND * 255).reshape(grid, patch, grid, patch).mean((1, 3))
        foreground = np.flatnonzero(salient >= FOREGROUND_SHARE)
        count = int(rng.integers(MASKED_PATCHES[0], MASKED_PATCHES[1] + 1))
        if count <= len(foreground):
            mask[rng.choice(foreground, count, replace=False)] = True
    return mask.reshape(grid, grid)


def hide_patches(
    pixels: Pixels, saliency: npt.NDArray[np.uint8] | None, mask: BoolArray
) -> tuple[Pixels, npt.NDArray[np.uint8] | None]:
    """The occluded view of a training image: hidden patches are grey and not salient; features are left to the model.

    Args:
        pixels: (S, S, 3); not changed.
        saliency: (S, S) or None.
        mask: (G, G), True = hidden.
    """
    patch = pixels.shape[0] // mask.shape[0]
    is_hidden = mask.repeat(patch, 0).repeat(patch, 1)
    hidden = np.where(is_hidden[..., None], np.array(MEAN_COLOUR, dtype=np.uint8), pixels)
    return hidden, None if saliency is None else np.where(is_hidden, 0, saliency).astype(np.uint8)
