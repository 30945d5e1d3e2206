from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salvit.data.crops import draw_window, inner_window, saliency_window, zoom_window

INNER, OUTER = (20.0, 10.0, 60.0, 50.0), (0.0, 0.0, 80.0, 60.0)


@given(st.integers(0, 10_000))
def test_a_random_crop_keeps_the_box_and_goes_at_most_four_fifths_of_the_way(seed):
    x1, y1, x2, y2 = draw_window(INNER, OUTER, "gt-random", np.random.default_rng(seed))
    assert 4.0 <= x1 <= 20.0 and 2.0 <= y1 <= 10.0 and 60.0 <= x2 <= 76.0 and 50.0 <= y2 <= 58.0


def test_the_other_crops_are_the_box_or_the_whole():
    rng = np.random.default_rng(0)
    assert draw_window(INNER, OUTER, "gt-tight", rng) == draw_window(INNER, OUTER, "saliency", rng) == INNER
    assert draw_window(INNER, OUTER, "none", rng) == OUTER
    with pytest.raises(ValueError, match="unknown crop 'tight'; expected one of gt-random"):
        draw_window(INNER, OUTER, "tight", rng)


def test_box_or_whole_picture_is_a_draw_between_the_two():
    windows = [draw_window(INNER, OUTER, "gt-or-none", np.random.default_rng(seed)) for seed in range(400)]
    is_whole = [window == OUTER for window in windows]
    assert 0.4 < np.mean(is_whole) < 0.6
    assert all(4.0 <= window[0] <= 20.0 for window, whole in zip(windows, is_whole, strict=True) if not whole)


@given(st.integers(0, 10_000))
def test_a_mixed_crop_keeps_the_box_and_is_near_half_of_the_time(seed):
    x1, y1, x2, y2 = draw_window(INNER, OUTER, "gt-mixed", np.random.default_rng(seed))
    assert 4.0 <= x1 <= 20.0 and 0.0 <= y1 <= 10.0 and 60.0 <= x2 <= 76.0 and 50.0 <= y2 <= 60.0


def test_near_crops_go_a_quarter_of_the_box_beyond_it_at_most():
    wide = (0.0, 0.0, 1000.0, 1000.0)
    box = (400.0, 400.0, 440.0, 420.0)
    windows = [draw_window(box, wide, "gt-mixed", np.random.default_rng(seed)) for seed in range(400)]
    is_near = [box[0] - window[0] <= 10.0 and window[2] - box[2] <= 10.0 for window in windows]
    assert 0.4 < np.mean(is_near) < 0.6
    assert all(box[1] - window[1] <= 10.0 for window, near in zip(windows, is_near, strict=True) if near)


def test_the_kept_window_is_the_box_cut_to_the_image_or_all_of_it(record):
    assert inner_window(replace(record, box=(-5.0, 10.0, 60.0, 90.0)), (60, 80), "gt-random") == (0.0, 10.0, 60.0, 60.0)
    assert inner_window(replace(record, box=None), (60, 80), "gt-tight") == OUTER


def test_the_salient_window_is_widened_by_a_tenth_and_scaled_to_the_image():
    saliency = np.zeros((30, 40), dtype=np.float32)  # half the image's size
    saliency[10:20, 10:30] = 0.5
    # salient: x 20…60, y 20…40 in the image; a tenth of the longer side is 4
    assert saliency_window(saliency, (60, 80)) == (16.0, 16.0, 64.0, 44.0)
    assert saliency_window(np.zeros((30, 40), dtype=np.float32), (60, 80)) == OUTER


def test_the_salient_crop_without_a_map_is_an_error(record):
    with pytest.raises(ValueError, match="needs a saliency map"):
        inner_window(record, (60, 80), "saliency")


FIRST = (100.0, 50.0, 300.0, 150.0)


def test_the_window_is_the_hull_and_a_quarter_of_its_longer_side():
    points = np.array([[180.0, 90.0], [220.0, 110.0], [200.0, 100.0]])
    assert zoom_window(points, (0.0, 0.0, 150.0 + 250.0, 300.0)) == (150.0, 50.0, 250.0, 150.0)  # at least 100
    assert zoom_window(points, FIRST) == (170.0, 75.0, 230.0, 125.0)  # 20 + 10 and, at least 25, 10 + 10


def test_a_single_point_gives_the_nearest_look_and_none_the_first():
    assert zoom_window(np.array([[200.0, 100.0]]), FIRST) == (175.0, 75.0, 225.0, 125.0)
    assert zoom_window(np.empty((0, 2)), FIRST) == FIRST


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=1, max_size=8))
def test_the_window_lies_in_the_first_and_is_never_empty(points):
    x1, y1, x2, y2 = zoom_window(np.array(points), FIRST)
    assert FIRST[0] <= x1 < x2 <= FIRST[2] and FIRST[1] <= y1 < y2 <= FIRST[3]
    assert max(x2 - x1, y2 - y1) >= 25.0 - 1e-6
