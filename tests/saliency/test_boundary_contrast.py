import numpy as np
import pytest

from salvit.saliency.boundary_contrast import BoundaryContrast, border_contrast, centre_prior


def test_a_colour_unlike_the_borders_has_the_sum_of_three_of_four_unit_distances():
    lab = np.zeros((20, 20, 3))
    lab[8:12, 8:12, 0] = 40.0
    contrast = border_contrast(lab)
    assert contrast[10, 10] == pytest.approx(3.0)  # at the greatest distance, 1, from each border; one is left out
    assert contrast[0, 0] == pytest.approx(0.0)


def test_an_object_on_one_border_still_stands_out():
    lab = np.zeros((20, 20, 3))
    lab[8:12, :12, 0] = 40.0
    contrast = border_contrast(lab)
    assert contrast[10, 10] > 2.0
    assert contrast[2, 2] < 0.5


def test_centre_prior_is_highest_in_the_middle_and_the_same_on_both_sides():
    prior = centre_prior((5, 7))
    assert prior[2, 3] == prior.max() == 1.0
    assert prior == pytest.approx(prior[::-1, ::-1])


def test_a_red_disc_on_green_is_found(disc):
    picture, mask = disc
    saliency = BoundaryContrast()(picture)
    assert saliency[mask].mean() > 0.6
    assert saliency[~mask].mean() < 0.1
