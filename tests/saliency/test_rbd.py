import time

import numpy as np
import pytest
import torch

from salvit.saliency.rbd import (
    RobustBackground,
    Superpixels,
    background_probability,
    background_weighted_contrast,
    boundary_connectivity,
    cut_superpixels,
    geodesic_distance,
    geodesic_similarity,
    link_border,
    neighbour_edges,
    optimise_saliency,
    score_superpixels,
)

# The toy picture of these tests: 3 × 3 superpixels of one pixel, numbered by rows; the middle one (4) is 30 Lab units
# away from the eight around it, which are all alike.
LABELS = np.arange(9).reshape(3, 3)
IS_BORDER = np.array([True] * 4 + [False] + [True] * 4)
COLOUR_DISTANCE = np.where((np.arange(9)[:, None] == 4) != (np.arange(9) == 4), 30.0, 0.0)


def test_neighbours_share_a_side_and_each_pair_is_listed_once():
    edges = neighbour_edges(np.array([[0, 0, 1], [0, 2, 1]]))
    assert edges.tolist() == [[0, 1], [0, 2], [1, 2]]


def test_one_region_has_no_neighbours():
    assert neighbour_edges(np.zeros((2, 2), dtype=np.int64)).shape == (0, 2)


def test_border_regions_become_neighbours_of_each_other():
    linked = link_border(np.array([[0, 1]]), np.array([True, False, True, True]))
    assert linked.tolist() == [[0, 1], [0, 2], [0, 3], [2, 3]]


def test_geodesic_distance_takes_the_cheapest_path():
    # 0 –7– 1 –2– 2 and no direct edge 0–2: the way is 9, though the colours of 0 and 2 differ by 5 only.
    colours = np.array([[0.0, 7.0, 5.0], [7.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    distance = geodesic_distance(np.array([[0, 1], [1, 2]]), colours)
    assert distance == pytest.approx(np.array([[0, 7, 9], [7, 0, 2], [9, 2, 0]]))


def test_neighbours_of_the_same_colour_are_at_distance_zero_not_unreachable():
    assert geodesic_distance(np.array([[0, 1]]), np.zeros((2, 2))) == pytest.approx(np.zeros((2, 2)), abs=1e-6)


def test_similarity_falls_as_a_gaussian_of_the_geodesic_distance():
    similarity = geodesic_similarity(np.array([[0.0, 10.0, 30.0, np.inf]]))
    assert similarity[0] == pytest.approx([1.0, np.exp(-0.5), np.exp(-4.5), 0.0])


def test_boundary_connectivity_of_the_toy_picture():
    distance = geodesic_distance(link_border(neighbour_edges(LABELS), IS_BORDER), COLOUR_DISTANCE)
    connectivity = boundary_connectivity(geodesic_similarity(distance), IS_BORDER)
    far = np.exp(-4.5)  # 30 / 10 = 3 spreads away
    assert connectivity[0] == pytest.approx(8 / np.sqrt(8 + far), rel=1e-6)  # all 8 of its like are on the border
    assert connectivity[4] == pytest.approx(8 * far / np.sqrt(1 + 8 * far), rel=1e-6)


def test_background_probability_of_no_and_of_unit_connectivity():
    assert background_probability(np.array([0.0, 1.0])) == pytest.approx([0.0, 1 - np.exp(-0.5)])


def test_contrast_counts_only_what_is_background_and_near():
    colours = np.array([[0.0, 20.0, 50.0], [20.0, 0.0, 30.0], [50.0, 30.0, 0.0]])
    places = np.array([[0.0, 0.25, 0.5], [0.25, 0.0, 0.25], [0.5, 0.25, 0.0]])
    contrast = background_weighted_contrast(colours, places, np.array([1.0, 0.0, 0.5]))
    assert contrast[0] == pytest.approx(50 * np.exp(-2.0) * 0.5)
    assert contrast[1] == pytest.approx(20 * np.exp(-0.5) * 1.0 + 30 * np.exp(-0.5) * 0.5)
    assert contrast[2] == pytest.approx(50 * np.exp(-2.0) * 1.0)


def test_optimum_of_two_regions_of_one_colour_is_the_hand_worked_one():
    # w = exp(0) + 0.1 = 1.1; (1 + 1.1) a − 1.1 b = 0 and (1 + 1.1) b − 1.1 a = 1 give a = 1.1 / 3.2, b = 2.1 / 3.2.
    saliency = optimise_saliency(np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([[0, 1]]), np.zeros((2, 2)))
    assert saliency == pytest.approx([1.1 / 3.2, 2.1 / 3.2], abs=1e-5)


def test_optimum_of_two_regions_of_different_colour_is_further_apart():
    args = (np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([[0, 1]]))
    alike, unlike = optimise_saliency(*args, np.zeros((2, 2))), optimise_saliency(*args, np.full((2, 2), 60.0))
    assert unlike[1] - unlike[0] > alike[1] - alike[0]


def test_the_middle_of_the_toy_picture_is_salient_and_the_border_is_not():
    rows, columns = np.mgrid[:3, :3]
    colours = np.zeros((9, 3))
    colours[4, 0] = 30.0
    centres = np.stack([columns.ravel(), rows.ravel()], -1) / 3
    saliency = score_superpixels(Superpixels(LABELS, colours, centres, IS_BORDER))
    assert saliency.argmax() == 4
    assert saliency[4] > 2 * np.delete(saliency, 4).max()


def test_superpixels_measure_colour_place_and_border():
    picture = np.zeros((40, 80, 3), dtype=np.uint8)
    picture[:, 40:] = 255
    found = cut_superpixels(picture, 2)
    assert sorted(found.colours[:, 0].round().tolist()) == [0, 100]  # black and white in Lab
    left = int(found.colours[:, 0].argmin())
    assert found.centres[left] == pytest.approx([19.5 / 80, 19.5 / 80])
    assert found.is_border.all()


def test_a_red_disc_on_green_is_found(disc):
    picture, mask = disc
    saliency = RobustBackground()(picture)
    assert saliency[mask].mean() > 0.9
    assert saliency[~mask].mean() < 0.1


def test_a_384_pixel_picture_takes_at_most_530_ms_on_one_thread(natural_picture):
    provider = RobustBackground()
    torch.set_num_threads(1)
    times = []
    for _ in range(3):
        start = time.process_time()
        provider(natural_picture)
        times.append(time.process_time() - start)
    assert min(times) <= 0.53
