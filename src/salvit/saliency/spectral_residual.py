"""Saliency from the residual of the log spectrum (Hou and Zhang, CVPR 2007).

Natural pictures share one shape of amplitude spectrum; what departs from it, brought back to the picture, stands out.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy.ndimage import gaussian_filter, uniform_filter

from salvit.saliency.provider import Map, Picture, check_picture, resize_map, stretch

Array = npt.NDArray[np.float64]


class SpectralResidual:
    """The provider ``spectral_residual``.

    Choice: a longer side of 64 pixels as in the paper; the final blur there is 2.5 pixels of the small picture.
    """

    name = "spectral_residual"

    def __init__(self, longest: int = 64, blur: float = 2.5) -> None:
        self.longest = longest
        self.blur = blur

    @property
    def settings(self) -> str:
        """Working size and blur."""
        return f"longest={self.longest} blur={self.blur}"

    def __call__(self, picture: Picture, source: Path | None = None) -> Map:
        """The map of one picture."""
        height, width = check_picture(picture).shape[:2]
        scale = self.longest / max(height, width)
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        small = Image.fromarray(picture).resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0).convert("L")
        saliency = gaussian_filter(spectral_saliency(np.asarray(small, dtype=np.float64)), self.blur)
        return resize_map(stretch(saliency), (height, width))


def spectral_residual(amplitude: Array) -> Array:
    """Log spectrum less its local mean: R(f) = L(f) − h₃(f) ∗ L(f), L = log A (their Eq. (1) to (3)).

    ``h₃`` is the 3×3 mean; the spectrum is periodic, so its ends meet. Shapes: (H, W) -> (H, W).
    Not in the paper: 1e-6 of the largest amplitude is added, so that the log of an absent frequency is finite.
    """
    log_amplitude = np.log(amplitude + 1e-6 * max(float(amplitude.max()), 1.0))
    return np.asarray(log_amplitude - uniform_filter(log_amplitude, size=3, mode="wrap"))


def spectral_saliency(grey: Array) -> Array:
    """S(x) = |F⁻¹[exp(R(f) + i P(f))]|² with P the phase of the picture (their Eq. (4)); (H, W) -> (H, W)."""
    if np.ptp(grey) == 0:
        return np.zeros_like(grey)  # a flat picture has no phase, only rounding noise
    spectrum = np.fft.fft2(grey)
    phase = np.angle(spectrum)
    back = np.fft.ifft2(np.exp(spectral_residual(np.abs(spectrum)) + 1j * phase))
    return np.square(np.abs(back))
