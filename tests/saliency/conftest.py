import numpy as np
import pytest
from scipy.ndimage import gaussian_filter


@pytest.fixture
def disc():
    """A red disc on a green ground, (96, 128), and its true mask."""
    rows, columns = np.mgrid[:96, :128]
    mask = (rows - 48) ** 2 + (columns - 70) ** 2 < 24**2
    picture = np.where(mask[..., None], (200, 40, 30), (60, 150, 60)).astype(np.uint8)
    noise = np.random.default_rng(0).integers(-6, 7, picture.shape)
    return (picture + noise).clip(0, 255).astype(np.uint8), mask


@pytest.fixture
def natural_picture():
    """A 384 × 384 picture with structure at many sizes, as photographs have."""
    rng = np.random.default_rng(1)
    layers = sum(gaussian_filter(rng.normal(size=(384, 384, 3)), (s, s, 0)) * s for s in (1, 3, 9, 27))
    return ((layers - layers.min()) / np.ptp(layers) * 255).astype(np.uint8)
