from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salvit.data.crops import NEAR_MARGIN, draw_window, inner_window, near_window, saliency_window, zoom_window

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


@pytest.mark.parametrize(("crop", "share", "most"), [("gt-mixed", 0.5, 10.0), ("gt-near", 0.8, 16.0)])
def test_near_crops_go_a_little_beyond_the_box_and_are_their_share_of_all(crop, share, most):
    wide = (0.0, 0.0, 1000.0, 1000.0)
    box = (400.0, 400.0, 440.0, 420.0)
    windows = [draw_window(box, wide, crop, np.random.default_rng(seed)) for seed in range(400)]
    is_near = [box[0] - window[0] <= most and window[2] - box[2] <= most for window in windows]
    assert abs(np.mean(is_near) - share) < 0.08
    near = [window for window, near in zip(windows, is_near, strict=True) if near]
    assert all(box[1] - window[1] <= most for window in near)
    assert max(box[0] - window[0] for window in near) > 0.9 * most


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


# --- near looks -----------------------------------------------------------------------------------------------------


def test_a_near_window_is_the_box_and_a_share_of_its_longer_side():
    assert NEAR_MARGIN == 0.2
    assert near_window((150.0, 80.0, 200.0, 100.0), FIRST) == (140.0, 70.0, 210.0, 110.0)
    assert near_window((150.0, 80.0, 200.0, 100.0), FIRST, margin=0.0) == (150.0, 80.0, 200.0, 100.0)
    assert near_window((150.0, 80.0, 200.0, 100.0), FIRST, margin=0.12) == (144.0, 74.0, 206.0, 106.0)


def test_a_near_window_is_cut_to_the_first():
    assert near_window((90.0, 80.0, 200.0, 149.0), FIRST, margin=0.1) == (100.0, 69.0, 211.0, 150.0)
    assert near_window((0.0, 0.0, 900.0, 900.0), FIRST) == FIRST


def test_a_near_window_holds_the_pixels_of_marks():
    box = (150.0, 80.0, 200.0, 100.0)
    held = np.array([[120.5, 90.5], [160.5, 140.5]])  # of pixels (120, 90) and (160, 140)
    assert near_window(box, FIRST, held) == (120.0, 70.0, 210.0, 141.0)
    assert near_window(box, FIRST, np.array([[160.5, 90.5]])) == near_window(box, FIRST)
    assert near_window(box, FIRST, np.empty((0, 2))) == near_window(box, FIRST)
    assert near_window(box, FIRST, np.array([[20.5, 90.5]]))[0] == 100.0, "not beyond the first window"
    assert all(isinstance(side, float) for side in near_window(box, FIRST, held))


@pytest.mark.parametrize(
    "box",
    [
        (400.0, 60.0, 500.0, 90.0),  # beyond the first
        (90.0, 60.0, 100.5, 90.0),  # half a column of it is left
        (200.0, 100.0, 200.0, 100.0),  # a point
        (150.0, 100.0, 151.0, 100.2),
    ],
)
def test_where_next_to_nothing_is_left_the_near_window_is_the_first(box):
    assert near_window(box, FIRST, margin=0.0) == FIRST


def test_marks_alone_make_a_window():
    assert near_window((200.0, 100.0, 200.0, 100.0), FIRST, np.array([[200.5, 100.5], [220.5, 110.5]])) == (
        *(200.0, 100.0),
        *(221.0, 111.0),
    )


@given(
    st.tuples(*(st.floats(-500, 500) for _ in range(4))),
    st.lists(st.tuples(st.floats(100.5, 299.5), st.floats(50.5, 149.5)), max_size=4),
)
def test_a_near_window_lies_in_the_first_holds_its_marks_and_is_never_empty(sides, marks):
    box = (min(sides[0], sides[2]), min(sides[1], sides[3]), max(sides[0], sides[2]), max(sides[1], sides[3]))
    held = np.array(marks).reshape(-1, 2)
    x1, y1, x2, y2 = near_window(box, FIRST, held)
    assert FIRST[0] <= x1 < x2 <= FIRST[2] and FIRST[1] <= y1 < y2 <= FIRST[3] and min(x2 - x1, y2 - y1) >= 1
    assert ((held >= (x1, y1)) & (held <= (x2, y2))).all()
