"""Decodes image files to RGB and fits them to a network's input."""

from __future__ import annotations

import threading
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from salvit.geometry import MEAN_COLOUR, Fit, Window, clip_window, fit_square, grow_window, whole_window
from salvit.types import FittedImage

MAX_PIXELS = 100_000_000
"""Larger images are refused before they are decoded, unless a caller allows more."""
BOX_MARGIN = 0.1
"""A given box is widened on each side by this share of its longer side before it is cropped."""
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".heic", ".heif")
"""Endings of files that are taken for images when a folder is searched."""
VIDEO_SUFFIXES = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".wmv")

_open_lock = threading.Lock()


def read_image(path: Path, *, max_pixels: int = MAX_PIXELS, at_least: int | None = None) -> Image.Image:
    """Decode an image file to RGB as a person sees it: EXIF rotation applied, transparency laid on white.

    Args:
        path: The file.
        max_pixels: Refuse larger images before decoding.
        at_least: A JPEG file may be decoded at a half, a quarter or an eighth of its size (which is faster), where that
            divides both sides and the long side keeps this many pixels; the caller must then go by the size that it
            gets. None: full size.

    Raises:
        OSError: The file is missing, is not an image, or is broken.
        ValueError: It is larger than ``max_pixels``, or is a video.
    """
    image = _open(path, max_pixels)
    with image:
        if at_least is not None and image.format == "JPEG":
            _shrink_while_decoding(image, at_least)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)
                image.load()
        except (OSError, SyntaxError, ValueError, EOFError, MemoryError) as problem:
            raise OSError(
                f"{path}: the image is broken or cut short ({problem}); expected a complete file"
            ) from problem
        return to_rgb(ImageOps.exif_transpose(image))


def to_rgb(image: Image.Image) -> Image.Image:
    """Any PIL mode to 8-bit RGB: 16 bits are scaled down, transparency is laid on white, an animation gives a frame."""
    if image.mode == "RGB":
        return image.copy() if image.readonly else image
    if image.mode.startswith("I") or image.mode == "F":
        return _scale_to_8_bits(image).convert("RGB")
    if "A" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def image_hw(path: Path, *, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Height and width of an image file as a person sees it, without decoding it."""
    with _open(path, max_pixels) as image:
        turned = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
        width, height = image.size
        return (width, height) if turned else (height, width)


def fit_image(image: Image.Image, size: int, window: Window | None = None, source: str = "") -> FittedImage:
    """Scale a window of an RGB image (or all of it) into a square, centred, padded with the mean colour."""
    full_hw = (image.height, image.width)
    window = whole_window(full_hw) if window is None else clip_window(window, full_hw)
    fit = fit_square(window, size)
    return FittedImage(fit_pixels(image, fit), fit, source, image_hw=full_hw)


def fit_pixels(image: Image.Image, fit: Fit) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    """Resample the window of a fit into its square: (S, S, 3) uint8."""
    (x, y), (height, width) = fit.pad_xy, fit.inner_hw
    inner = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR, box=fit.window, reducing_gap=2.0))
    if (height, width) == (fit.size, fit.size):
        return inner.copy()
    pixels = mean_square(fit.size).copy()
    pixels[y : y + height, x : x + width] = inner
    return pixels


@cache
def mean_square(size: int) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    """(S, S, 3) of mean colour, read-only: copying it is ten times as fast as spreading one colour."""
    square = np.full((size, size, 3), MEAN_COLOUR, dtype=np.uint8)
    square.flags.writeable = False
    return square


def read_and_fit(
    path: Path, size: int, box: Window | None = None, *, max_pixels: int = MAX_PIXELS, margin: float = BOX_MARGIN
) -> FittedImage:
    """Read a file and fit it to a square; with a box, only the box and a margin around it."""
    if box is None:
        full_hw = image_hw(path, max_pixels=max_pixels)
        image = read_image(path, max_pixels=max_pixels, at_least=size)
        fit = fit_square(whole_window(full_hw), size)
        decoded = Fit(whole_window((image.height, image.width)), size, fit.inner_hw, fit.pad_xy)
        return FittedImage(fit_pixels(image, decoded), fit, str(path), image_hw=full_hw)
    image = read_image(path, max_pixels=max_pixels)
    full_hw = (image.height, image.width)
    window = clip_window(grow_window(clip_window(box, full_hw), margin), full_hw)
    return fit_image(image, size, window, str(path))


def _open(path: Path, max_pixels: int) -> Image.Image:
    """Open without decoding; our own limit stands in for PIL's."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"{path} {what}; expected an image file")
    if path.stat().st_size == 0:
        raise OSError(f"{path}: the file is empty (0 bytes)")
    if path.suffix.lower() in VIDEO_SUFFIXES:
        raise ValueError(
            f"{path} is a video; extract its frames first, for example: ffmpeg -i {path.name} -vf fps=5 frames/%05d.jpg"
        )
    if path.suffix.lower() in (".heic", ".heif"):
        _register_heif(path)
    try:
        with _open_lock:
            limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
            try:
                image = Image.open(path)
            finally:
                Image.MAX_IMAGE_PIXELS = limit
    except UnidentifiedImageError as problem:
        raise OSError(f"{path}: not an image that can be read; expected JPEG, PNG, WebP, TIFF or BMP") from problem
    except (OSError, SyntaxError, ValueError) as problem:
        raise OSError(f"{path}: the image is broken or cut short ({problem})") from problem
    width, height = image.size
    if width * height > max_pixels:
        image.close()
        raise ValueError(
            f"{path}: {width}×{height} pixels are more than the limit of {max_pixels / 1e6:.0f} megapixels; "
            "scale the image down, or raise the limit with --max-megapixels"
        )
    return image


def _shrink_while_decoding(image: Image.Image, at_least: int) -> None:
    width, height = image.size
    for divisor in (8, 4, 2):
        if max(width, height) // divisor >= at_least and width % divisor == 0 and height % divisor == 0:
            image.draft("RGB", (width // divisor, height // divisor))
            return


def _register_heif(path: Path) -> None:
    try:
        from pillow_heif import register_heif_opener
    except ImportError as problem:
        raise OSError(f"{path}: HEIC needs a plug-in; install it with `pip install pillow-heif`") from problem
    register_heif_opener()


def _scale_to_8_bits(image: Image.Image) -> Image.Image:
    """16-bit, 32-bit and float pixels to 8 bits: by the full range where it is known, by their own range otherwise."""
    values = np.asarray(image, dtype=np.float64)
    values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    if image.mode.startswith("I") and values.min() >= 0 and 255 < values.max() <= 65535:
        low, high = 0.0, 65535.0
    elif values.min() >= 0 and values.max() <= 255 and image.mode != "F":
        low, high = 0.0, 255.0
    else:
        low, high = float(values.min()), max(float(values.max()), float(values.min()) + 1e-9)
    return Image.fromarray(((values - low) / (high - low) * 255.0).round().astype(np.uint8), mode="L")
