import numpy as np
import pytest

from salvit.saliency.spectral_residual import SpectralResidual, spectral_residual, spectral_saliency


def test_residual_is_the_log_amplitude_less_its_local_mean():
    amplitude = np.ones((5, 5))
    amplitude[2, 2] = np.e**9
    residual = spectral_residual(amplitude)
    # The peak's log is 9 and its 3 × 3 mean 1, so 8 stay; each neighbour's mean is 1 as well.
    assert residual[2, 2] == pytest.approx(8.0, abs=0.1)
    assert residual[1, 1] == pytest.approx(-1.0, abs=0.1)
    assert residual[0, 4] == pytest.approx(0.0, abs=0.02)


def test_the_spectrum_wraps_around():
    amplitude = np.ones((5, 5))
    amplitude[0, 0] = np.e**9
    assert spectral_residual(amplitude)[4, 4] == pytest.approx(-1.0, abs=0.1)


def test_a_single_dot_is_where_saliency_peaks():
    grey = np.full((32, 32), 100.0)
    grey[20, 9] = 200.0
    saliency = spectral_saliency(grey)
    assert np.unravel_index(saliency.argmax(), saliency.shape) == (20, 9)


def test_a_flat_picture_has_no_saliency():
    assert not spectral_saliency(np.full((16, 16), 77.0)).any()


def test_an_odd_one_out_among_a_texture_is_found():
    picture = np.zeros((128, 128, 3), dtype=np.uint8)
    for x in range(4, 128, 16):
        picture[:, x : x + 4] = 200
    picture[60:72, 60:72] = (255, 255, 255)
    saliency = SpectralResidual()(picture)
    row, column = np.unravel_index(saliency.argmax(), saliency.shape)
    assert abs(row - 66) < 12
    assert abs(column - 66) < 12
