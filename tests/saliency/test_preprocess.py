import numpy as np
import pytest

from salvit.saliency.preprocess import blur_map, pool_map, preprocess_map, spread_by_distance


def test_distance_transform_of_a_line_is_the_hand_worked_one():
    # Foreground in cells 2 to 4 of 7: inside distances 1 2 1, outside 2 1 … 1 2.
    line = np.array([[0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0]], dtype=np.float32)
    depth = np.array([0, 0, 0.5, 1, 0.5, 0, 0])
    signed = np.array([0, 0.25, 0.75, 1, 0.75, 0.25, 0])  # ½ + ½ (depth − outside / 2)
    assert spread_by_distance(line)[0] == pytest.approx(0.5 * signed + 0.5 * depth)


def test_the_signed_part_keeps_the_range_of_the_map():
    line = np.array([[0.2, 0.2, 0.6, 0.6, 0.6, 0.2, 0.2]], dtype=np.float32)
    spread = spread_by_distance(line)[0]
    assert spread[0] == pytest.approx(0.5 * 0.2)  # the lowest of the map, and no depth
    assert spread[3] == pytest.approx(0.5 * 0.6 + 0.5)  # the highest of the map, and full depth


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_map_without_a_border_stays_as_it_is(value):
    flat = np.full((4, 5), value, dtype=np.float32)
    assert (spread_by_distance(flat) == flat).all()


def test_saliency_falls_with_the_distance_to_the_object():
    square = np.zeros((21, 21), dtype=np.float32)
    square[8:13, 8:13] = 1
    row = spread_by_distance(square)[10]
    assert (np.diff(row[:11]) > 0).all()
    assert (np.diff(row[10:]) < 0).all()


def test_blur_keeps_the_sum_away_from_the_sides_and_reaches_three_sigma():
    dot = np.zeros((61, 61), dtype=np.float32)
    dot[30, 30] = 1
    blurred = blur_map(dot, 5)
    assert blurred.sum() == pytest.approx(1.0, rel=1e-4)
    assert blurred[30, 15] > 0
    assert blurred[30, 14] == 0


def test_outside_the_picture_saliency_counts_as_zero():
    assert blur_map(np.ones((40, 40), dtype=np.float32), 5)[0, 0] == pytest.approx(0.29, abs=0.03)


def test_preprocessing_stays_in_range_and_changes_nothing_in_place(disc):
    before = disc[1].astype(np.float32)
    kept = before.copy()
    after = preprocess_map(before)
    assert (before == kept).all()
    assert after.min() >= 0
    assert after.max() <= 1
    assert after.dtype == np.float32


def test_pooling_takes_the_mean_of_each_cell():
    assert pool_map(np.arange(16, dtype=np.float32).reshape(4, 4), (2, 2)).tolist() == [[2.5, 4.5], [10.5, 12.5]]


def test_pooling_refuses_broken_cells():
    with pytest.raises(ValueError, match="whole cells"):
        pool_map(np.ones((10, 10), dtype=np.float32), (3, 3))
