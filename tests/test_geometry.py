import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salvit.geometry import (
    clip_window,
    fit_square,
    flip_points,
    from_shares,
    grid_to_input,
    grow_window,
    input_to_grid,
    is_inside,
    to_shares,
    whole_window,
)

sides = st.integers(1, 8000)


@given(sides, sides, st.sampled_from([32, 224, 320, 384]), st.floats(0, 1), st.floats(0, 1))
def test_points_survive_the_way_to_the_input_and_back(height, width, size, u, v):
    fit = fit_square(whole_window((height, width)), size)
    point = np.array([[u * width - 0.5, v * height - 0.5]])
    assert np.allclose(fit.to_image(fit.to_input(point)), point, atol=1e-3)


@given(sides, sides, st.floats(0.01, 0.45), st.floats(0.55, 1.0), st.integers(28, 400))
def test_points_survive_with_a_box(height, width, low, high, size):
    window = (low * width, low * height, high * width, high * height)
    fit = fit_square(window, size)
    point = np.array([[width / 3, height / 7], [0.0, 0.0]])
    assert np.allclose(fit.to_image(fit.to_input(point)), point, atol=1e-3)


@given(sides, sides, st.integers(28, 400))
def test_a_fit_lies_inside_the_square_and_fills_its_long_side(height, width, size):
    fit = fit_square(whole_window((height, width)), size)
    assert max(fit.inner_hw) == size
    assert fit.pad_xy[0] + fit.inner_hw[1] <= size and fit.pad_xy[1] + fit.inner_hw[0] <= size
    assert abs(2 * fit.pad_xy[0] + fit.inner_hw[1] - size) <= 1


def test_scaling_acts_about_the_corner_of_the_first_pixel():
    # 2×2 pixels to 4×4: the first pixel's centre becomes the corner of four, at 0.5.
    fit = fit_square(whole_window((2, 2)), 4)
    assert fit.to_input([[0, 0], [1, 1]]).tolist() == [[0.5, 0.5], [2.5, 2.5]]


def test_a_wide_image_is_padded_above_and_below():
    fit = fit_square(whole_window((100, 200)), 50)
    assert (fit.inner_hw, fit.pad_xy) == ((25, 50), (0, 12))
    assert fit.to_input([[-0.5, -0.5]]).tolist() == [[-0.5, 11.5]]


def test_covariances_go_back_with_the_square_of_the_scale():
    fit = fit_square(whole_window((100, 200)), 50)  # scale 1/4
    assert np.allclose(fit.covariance_to_image(np.eye(2)), 16 * np.eye(2))


def test_an_empty_window_is_refused():
    with pytest.raises(ValueError, match="empty"):
        fit_square((5, 5, 5, 9), 32)


def test_a_box_is_cut_to_the_image_and_one_outside_is_refused():
    assert clip_window((-5, 10, 500, 20), (100, 200)) == (0, 10, 200, 20)
    with pytest.raises(ValueError, match="does not meet the image of 200×100"):
        clip_window((300, 10, 400, 20), (100, 200))


def test_a_window_grows_by_its_longer_side():
    assert grow_window((10, 10, 30, 20), 0.1) == (8, 8, 32, 22)


def test_inside_means_on_a_pixel_and_nan_is_not():
    points = [[-0.5, 0], [199.5, 99.5], [199.6, 0], [0, -0.6], [np.nan, 0]]
    assert is_inside(points, (100, 200)).tolist() == [True, True, False, False, False]


def test_flipping_twice_gives_the_same_points_and_leaves_the_first_alone():
    points = np.array([[0.0, 3.0], [9.0, 4.0]])
    flipped = flip_points(points, 10)
    assert flipped.tolist() == [[9.0, 3.0], [0.0, 4.0]] and points[0, 0] == 0.0
    assert np.array_equal(flip_points(flipped, 10), points)


def test_the_centre_of_a_cell_lies_between_its_pixels():
    assert grid_to_input(0.0, 32) == 15.5
    assert input_to_grid(grid_to_input(3.25, 14), 14) == pytest.approx(3.25)


def test_shares_of_an_image_run_from_edge_to_edge():
    points = np.array([[-0.5, -0.5], [0.0, 0.0], [99.5, 49.5]])
    assert np.allclose(to_shares(points, (50, 100)), [[0, 0], [0.005, 0.01], [1, 1]])
    assert np.allclose(from_shares(to_shares(points, (50, 100)), (50, 100)), points)
