"""What the fused map says of a point, by hand."""

import math

import numpy as np
import pytest
import torch

from salvit.config import from_mapping, to_mapping
from salvit.metrics import squared_mahalanobis
from salvit.model.certainty import (
    Calibration,
    Evidence,
    calibrated,
    gather_evidence,
    gaussian_nll,
    log_odds,
    map_height,
    map_moments,
    near_mass,
    object_extent,
    shrinkage,
    squared_distances,
    student_nll,
    total_covariance,
)
from salvit.model.locator import ScaleOutput, decode_agreed

PLAIN = Calibration(
    temperature=2.0, spread=3.0, cell=0.5, radii=(0.7, 2.0, 3.5), right=(0.1, 0.2, 0.3), presence=(0.4, 0.5, 0.6, 0.7)
)


def two_cells(first=0.75):
    """A lattice of 4 × 4 over 40 px: ¾ of the mass at (4.5, 4.5), the centre of a cell, and ¼ at (24.5, 14.5)."""
    probability = torch.zeros(1, 1, 4, 4)
    probability[0, 0, 0, 0], probability[0, 0, 1, 2] = first, 1 - first
    return probability


def test_moments_of_two_cells_by_hand():
    means, moments = map_moments(two_cells(), torch.tensor([[[4.5, 4.5]]]), 40)
    torch.testing.assert_close(means[0, 0], torch.tensor([0.75 * 4.5 + 0.25 * 24.5, 0.75 * 4.5 + 0.25 * 14.5]))
    # about the first cell's centre the other is at (20, 10); a cell of 10 px has 100 / 12 of its own
    within = 100 / 12
    expected = torch.tensor([[0.25 * 400 + within, 0.25 * 200], [0.25 * 200, 0.25 * 100 + within]])
    torch.testing.assert_close(moments[0, 0], expected)


def test_moments_are_about_the_point_and_not_about_the_mean():
    # from (14.5, 4.5) the cells are at (−10, 0) and (10, 10)
    _, moments = map_moments(two_cells(), torch.tensor([[[14.5, 4.5]]]), 40)
    within = 100 / 12
    torch.testing.assert_close(moments[0, 0], torch.tensor([[100 + within, 25.0], [25.0, 25 + within]]))


def test_a_map_that_is_sure_of_one_cell_still_has_a_covariance():
    _, moments = map_moments(two_cells(1.0), torch.tensor([[[4.5, 4.5]]]), 40)
    torch.testing.assert_close(moments[0, 0], torch.eye(2) * 100 / 12)


def test_near_mass_counts_the_cells_around_the_point():
    # within 0.1 · 40 = 4 px
    assert near_mass(two_cells(), torch.tensor([[[6.0, 6.0]]]), 40).item() == 0.75
    assert near_mass(two_cells(), torch.tensor([[[24.5, 11.0]]]), 40).item() == 0.25
    assert near_mass(two_cells(), torch.tensor([[[14.5, 4.5]]]), 40).item() == 0


def test_the_height_is_the_mean_of_the_greatest_logits():
    scales = tuple(
        ScaleOutput(logits, torch.zeros(1, 1, cells, 2), torch.zeros(1, 1, cells, 2, 3))
        for logits, cells in ((torch.tensor([[[1.0, 5.0, -2.0, 0.0]]]), 4), (torch.tensor([[[-3.0]]]), 1))
    )
    assert map_height(scales).tolist() == [[1.0]]  # of 5 and −3


def test_the_extent_is_the_spread_of_all_known_maps_together():
    # two sure keypoints at (4.5, 4.5) and (24.5, 14.5): 20 and 10 apart, so variances 100 and 25, and the cells' own
    maps = torch.cat([two_cells(1.0), two_cells(0.0)], dim=1)
    points = torch.tensor([[[4.5, 4.5], [14.5, 4.5]]])  # the second point is not where its map is: it does not matter
    means, moments = map_moments(maps, points, 40)
    assert object_extent(means, moments, points, None).item() == pytest.approx(math.sqrt(125 + 200 / 12))
    only = object_extent(means, moments, points, torch.tensor([True, False])).item()
    assert only == pytest.approx(math.sqrt(200 / 12))
    nobody = object_extent(means, moments, points, torch.tensor([False, False])).item()
    assert nobody == pytest.approx(math.sqrt(125 + 200 / 12))


def test_covariance_and_log_odds_by_hand():
    moments, cell = torch.tensor([[4.0, 1.0], [1.0, 2.0]]), torch.eye(2)
    torch.testing.assert_close(total_covariance(moments, cell, 3.0, 0.5), torch.tensor([[12.5, 3.0], [3.0, 6.5]]))
    evidence = Evidence(moments, torch.tensor([[2.0]]), torch.tensor([[-1.0]]))
    assert log_odds((0.1, 0.2, 0.3), evidence).item() == pytest.approx(0.1 + 0.4 - 0.3)


def scales(seed=0):
    torch.manual_seed(seed)
    return tuple(
        ScaleOutput(3 * torch.randn(2, 5, s * s), torch.rand(2, 5, s * s, 2) - 0.5, torch.randn(2, 5, s * s, 2, 3))
        for s in (2, 3, 4)
    )


def test_calibration_changes_what_is_said_of_points_and_not_the_points():
    found = decode_agreed(scales(), 96)
    told = calibrated(found, scales(), PLAIN, 96)
    assert torch.equal(told.points_input, found.points_input)
    assert ((told.scores > 0) & (told.scores < 1)).all() and ((told.presence > 0) & (told.presence < 1)).all()
    assert (torch.linalg.eigvalsh(told.covariances) > 0).all()
    assert not torch.allclose(told.covariances, found.covariances)


def test_a_higher_temperature_is_less_sure():
    found = decode_agreed(scales(), 96)
    sizes = [
        calibrated(found, scales(), Calibration(**{**to_mapping(PLAIN), "temperature": T}), 96).covariances.det().mean()
        for T in (0.5, 1.0, 2.0, 4.0)
    ]
    assert sizes == sorted(sizes)


def test_the_models_own_logit_of_presence_counts_by_its_weight():
    from dataclasses import replace

    found = decode_agreed(scales(), 96)
    without = calibrated(found, scales(), PLAIN, 96).presence.logit()
    half = calibrated(replace(found, presence=torch.full((2, 5), 0.5)), scales(), PLAIN, 96).presence.logit()
    sure = calibrated(replace(found, presence=torch.full((2, 5), 0.9)), scales(), PLAIN, 96).presence.logit()
    torch.testing.assert_close(half, without)
    torch.testing.assert_close(sure - without, torch.full((2, 5), 0.7 * math.log(9)))


def test_evidence_of_extreme_maps_is_finite():
    logits = torch.full((1, 2, 4, 4), -200.0)
    logits[0, :, 0, 0] = 200.0
    evidence = gather_evidence(logits, torch.tensor([[[4.5, 4.5], [34.5, 34.5]]]), 40)
    assert all(torch.isfinite(getattr(evidence, name)).all() for name in ("moments", "near", "extent"))


def test_a_calibration_comes_back_from_plain_values_and_refuses_nonsense():
    assert from_mapping(Calibration, to_mapping(PLAIN)) == PLAIN
    with pytest.raises(ValueError, match="temperature and spread above 0"):
        Calibration(**{**to_mapping(PLAIN), "temperature": 0.0})
    with pytest.raises(ValueError, match="radii must grow"):
        Calibration(**{**to_mapping(PLAIN), "radii": (1.0, 2.0, 1.5)})
    with pytest.raises(ValueError, match="unknown setting"):
        from_mapping(Calibration, {**to_mapping(PLAIN), "sigma": 1.0})


def test_ellipses_shrink_by_a_power_of_the_examples_and_no_further_than_five_of_them():
    even = torch.zeros(5)  # as much mass near the point as elsewhere
    assert shrinkage(torch.tensor([0, 1, 4, 5, 100]), even, 0.5, 0.3).flatten().tolist() == pytest.approx(
        [1, 1, 0.5, 5**-0.5, 5**-0.5]
    )
    assert shrinkage(torch.tensor([1.0, 3.0]), torch.zeros(4, 2), 0.0, 0.0).shape == (4, 2, 1, 1)


def test_ellipses_shrink_by_a_power_of_the_odds_that_the_point_is_near():
    odds = torch.tensor([0.25, 1.0, 16.0])
    assert shrinkage(torch.ones(3), odds.log(), 0.5, 0.5).flatten().tolist() == pytest.approx([2.0, 1.0, 0.25])


def test_distances_and_likelihood_equal_those_of_the_metrics():
    rng = np.random.default_rng(0)
    errors, root = rng.normal(size=(50, 2)), rng.normal(size=(50, 2, 3))
    covariances = root @ root.transpose(0, 2, 1)
    expected = squared_mahalanobis(errors, np.zeros_like(errors), covariances)
    found = squared_distances(torch.tensor(errors), torch.tensor(covariances))
    assert np.allclose(found, expected)
    # a unit Gaussian one away: ½ + log 2π
    assert gaussian_nll(torch.tensor([[1.0, 0.0]]), torch.eye(2)[None]).item() == pytest.approx(0.5 + np.log(2 * np.pi))


def test_a_students_t_becomes_a_gaussian_and_minds_far_errors_less():
    errors, covariances = torch.tensor([[1.0, 0.0], [9.0, 0.0]]), torch.eye(2).expand(2, 2, 2)
    # ν = 2 at distance 1: ½ · 4 · log(1 + 1/2) + log 2π
    assert student_nll(errors, covariances, 2.0)[0].item() == pytest.approx(2 * np.log(1.5) + np.log(2 * np.pi))
    normal = gaussian_nll(errors, covariances)
    assert torch.allclose(student_nll(errors.double(), covariances.double(), 1e7).float(), normal, atol=1e-3)
    assert student_nll(errors, covariances, 12.0)[1] < normal[1] - 10
