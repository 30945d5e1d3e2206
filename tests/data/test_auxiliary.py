import numpy as np
import pytest

from salvit.data.auxiliary import auxiliary_names, default_paths, interpolate, random_paths
from salvit.data.splits import read_split

POINTS = np.array([[0.0, 0.0], [8.0, 4.0], [3.0, 90.0]])
SEEN = np.array([True, True, True])


def test_points_lie_at_a_quarter_a_half_and_three_quarters():
    points, visible = interpolate(POINTS, SEEN, ((0, 1),), 100)
    assert points.tolist() == [[2, 1], [4, 2], [6, 3]] and visible.all()
    assert auxiliary_names(("a", "b", "c"), ((0, 1),)) == ("a~b@0.25", "a~b@0.5", "a~b@0.75")


def test_both_ends_must_be_there():
    _, visible = interpolate(POINTS, np.array([True, False, True]), ((0, 1), (0, 2)), 100)
    assert visible.tolist() == [False] * 3 + [True] * 3


def test_a_point_outside_the_image_is_dropped():
    _, visible = interpolate(POINTS, SEEN, ((1, 2),), 60)
    assert visible.tolist() == [True, True, False]  # y = 25.5, 47, 68.5


def test_a_point_beside_the_object_is_dropped():
    saliency = np.zeros((2, 100, 100), dtype=np.uint8)
    saliency[1, 1, 2], saliency[1, 2, 4] = 31, 30
    _, visible = interpolate(np.stack([POINTS, POINTS]), np.stack([SEEN, SEEN]), ((0, 1),), 100, saliency)
    assert visible.tolist() == [[False, False, False], [True, False, False]]
    _, single = interpolate(POINTS, SEEN, ((0, 1),), 100, saliency[1])
    assert single.tolist() == [True, False, False]


def test_no_path_gives_no_point():
    points, visible = interpolate(np.stack([POINTS, POINTS]), np.stack([SEEN, SEEN]), (), 100)
    assert points.shape == (2, 0, 2) and visible.shape == (2, 0)


def test_default_paths_are_those_whose_ends_are_in_the_episode():
    assert default_paths(("nose", "right_ear", "x"), read_split("animal_pose").paths) == ((0, 1),)
    assert len(default_paths(read_split("animal_pose").base, read_split("animal_pose").paths)) == 6


@pytest.mark.parametrize(("known", "expected"), [(7, 6), (3, 3), (1, 0)])
def test_random_paths_are_six_different_pairs_of_known_keypoints(known, expected):
    is_known = np.arange(9) < known
    paths = random_paths(is_known, np.random.default_rng(0))
    assert len(set(paths)) == len(paths) == expected
    assert all(first < last < known for first, last in paths)
