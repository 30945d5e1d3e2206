"""Gaussian pooling and prototypes."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from salvit.geometry import flip_points
from salvit.model.prototypes import gaussian_pooling, gaussian_weights, leave_one_out, pooling_sigma, prototypes


def test_weights_by_hand():
    weights = gaussian_weights(torch.tensor([0.0, 0.0]), (1, 3), sigma=1.0)
    raw = [1.0, math.exp(-0.5), math.exp(-2.0)]
    torch.testing.assert_close(weights, torch.tensor([[value / sum(raw) for value in raw]]))


def test_weights_under_one_hundredth_are_dropped():
    # three cells away at sigma 1: exp(−4.5) = 0.0111 stays; at sigma 0.98 it is 0.0092 and goes
    assert gaussian_weights(torch.tensor([0.0, 0.0]), (1, 4), sigma=1.0)[0, 3] > 0
    assert gaussian_weights(torch.tensor([0.0, 0.0]), (1, 4), sigma=0.98)[0, 3] == 0


def test_pooling_by_hand():
    features = torch.tensor([[[[1.0, 3.0]]]])  # one channel, a row of two cells of 32 px
    middle = gaussian_pooling(features, torch.tensor([[[31.5, 15.5]]]), 32, 14 / 32)
    assert middle.item() == pytest.approx(2.0)
    at_first = gaussian_pooling(features, torch.tensor([[[15.5, 15.5]]]), 32, 14 / 32).item()
    weight = math.exp(-(32**2) / (2 * 14**2))
    assert at_first == pytest.approx((1 + 3 * weight) / (1 + weight) if weight >= 0.01 else 1.0)


@pytest.mark.parametrize("stride", [14, 16, 32])
def test_every_place_of_the_input_has_weights_that_sum_to_one(stride):
    size = 6 * stride
    axis = torch.linspace(-0.5, size - 0.5, 41)
    points = torch.cartesian_prod(axis, axis)
    sigma = pooling_sigma(14.0, size, stride)
    total = gaussian_weights((points + 0.5) / stride - 0.5, (6, 6), sigma).sum((-2, -1))
    torch.testing.assert_close(total, torch.ones_like(total))


def test_sigma_is_14_px_of_a_384_px_input_and_never_too_narrow():
    assert pooling_sigma(14.0, 384, 32) == 14 / 32
    assert pooling_sigma(14.0, 384, 16) == 14 / 16
    assert pooling_sigma(14.0, 64, 32) == 14 / 32


def test_pooling_is_mirror_exact():
    torch.manual_seed(0)
    features, points = torch.randn(2, 3, 4, 4, dtype=torch.double), torch.rand(2, 5, 2, dtype=torch.double) * 63
    here = gaussian_pooling(features, points, 16, 0.875)
    mirrored = gaussian_pooling(features.flip(-1), flip_points(points, 64), 16, 0.875)
    torch.testing.assert_close(here, mirrored)


def test_prototype_is_the_mean_over_the_shots_that_have_it():
    vectors = torch.tensor([[[1.0], [5.0], [7.0]], [[3.0], [float("nan")], [9.0]]])  # what is masked does not matter
    mask = torch.tensor([[True, True, False], [True, False, False]])
    assert prototypes(vectors, mask).tolist() == [[2.0], [5.0], [0.0]]


def test_leaving_one_out_is_the_prototype_of_all_others():
    torch.manual_seed(0)
    vectors, mask = torch.randn(4, 3, 2), torch.tensor([[1, 1, 0], [1, 0, 1], [1, 1, 0], [0, 0, 0]]).bool()
    found = leave_one_out(vectors, mask)
    for shot in range(4):
        others = [other for other in range(4) if other != shot]
        torch.testing.assert_close(found[shot], prototypes(vectors[others], mask[others]))
    assert found[1, 2].tolist() == [0.0, 0.0]  # nobody else has it


def test_order_of_shots_and_keypoints_does_not_matter():
    torch.manual_seed(0)
    vectors, mask = torch.randn(5, 7, 4), torch.rand(5, 7) > 0.4
    shots, points = torch.randperm(5), torch.randperm(7)
    expected = prototypes(vectors, mask)
    torch.testing.assert_close(prototypes(vectors[shots], mask[shots]), expected)
    torch.testing.assert_close(prototypes(vectors[:, points], mask[:, points]), expected[points])


def test_gradients_are_right():
    torch.manual_seed(0)
    features = torch.randn(1, 2, 3, 3, dtype=torch.double, requires_grad=True)
    points = torch.tensor([[[20.3, 11.1], [40.0, 40.0]]], dtype=torch.double, requires_grad=True)
    assert gradcheck(lambda f, p: gaussian_pooling(f, p, 16, 0.875), (features, points))
    vectors = torch.randn(2, 3, 2, dtype=torch.double, requires_grad=True)
    assert gradcheck(lambda v: prototypes(v, torch.tensor([[True, False, True], [True, False, False]])), vectors)
