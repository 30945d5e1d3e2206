import numpy as np
import pytest

from salvit.saliency.failures import empty_map, failure_sweep, reverse_map, shift_map, spoil_map, threshold_map

MAP = np.array([[0.0, 0.25], [0.5, 1.0]], dtype=np.float32)


def test_a_threshold_of_zero_makes_all_foreground_and_of_one_only_the_surest():
    assert threshold_map(MAP, 0.0).tolist() == [[1, 1], [1, 1]]
    assert threshold_map(MAP, 0.5).tolist() == [[0, 0], [1, 1]]
    assert threshold_map(MAP, 1.0).tolist() == [[0, 0], [0, 1]]


def test_a_threshold_outside_the_range_is_refused():
    with pytest.raises(ValueError, match="0 to 1"):
        threshold_map(MAP, 1.5)


def test_reversing_twice_gives_the_map_back():
    assert reverse_map(MAP).tolist() == [[1.0, 0.75], [0.5, 0.0]]
    assert (reverse_map(reverse_map(MAP)) == MAP).all()


def test_an_emptied_map_is_zero():
    assert not empty_map(MAP).any()


def test_a_shift_moves_right_and_down_and_brings_in_zeros():
    assert shift_map(MAP, (0.5, 0.0)).tolist() == [[0, 0.0], [0, 0.5]]
    assert shift_map(MAP, (0.0, -0.5)).tolist() == [[0.5, 1.0], [0, 0]]


def test_a_shift_beyond_the_picture_empties_it():
    assert not shift_map(MAP, (1.0, 0.0)).any()


def test_every_failure_of_the_sweep_keeps_shape_type_and_range():
    saliency = np.random.default_rng(0).random((12, 9)).astype(np.float32)
    kinds = set()
    for kind, strength in failure_sweep():
        spoilt = spoil_map(saliency, kind, strength)
        assert spoilt.shape == saliency.shape
        assert spoilt.dtype == np.float32
        assert 0 <= spoilt.min() <= spoilt.max() <= 1
        kinds.add(kind)
    assert kinds == {"threshold", "reversed", "emptied", "shifted"}


def test_an_unknown_failure_is_refused():
    with pytest.raises(ValueError, match="known: threshold"):
        spoil_map(MAP, "melted", 0.5)
