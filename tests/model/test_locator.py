"""Localisation net: targets, decoding, uncertainty."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from salvit.geometry import flip_points
from salvit.model.locator import (
    Locator,
    ScaleOutput,
    at_cell,
    covariance,
    decode,
    decode_agreed,
    decode_scale,
    fused_logits,
    grid_target,
    precision,
    precision_determinant,
    read_at,
)


def test_grid_target_by_hand():
    # 384 px in 8 cells of 48; pixel (100, 47) has its centre at edge coordinate (100.5, 47.5)
    cell, offset = grid_target(torch.tensor([100.0, 47.0]), 384, 8)
    assert cell.item() == 0 * 8 + 2
    torch.testing.assert_close(offset, torch.tensor([2 * (100.5 / 48 - 2.5), 2 * (47.5 / 48 - 0.5)]))


def test_points_on_the_border_fall_into_the_outer_cells():
    corners = torch.tensor([[-0.5, -0.5], [383.5, 383.5], [383.4, -0.4]])
    cells, offsets = grid_target(corners, 384, 8)
    assert cells.tolist() == [0, 63, 7]
    assert offsets.abs().max() <= 1 + 1e-5


@pytest.mark.parametrize("size", [8, 12, 16])
def test_decoding_undoes_the_target(size):
    points = torch.rand(100, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0)) * 383
    cells, offsets = grid_target(points, 384, size)
    assert ((offsets >= -1) & (offsets < 1)).all()
    torch.testing.assert_close(decode_scale(cells, offsets, 384, size), points)


def test_precision_determinant_and_covariance_by_hand():
    latents = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]])
    torch.testing.assert_close(precision(latents), torch.tensor([[5.0, 2.0], [2.0, 10.0]]) / 3)
    assert precision_determinant(latents).item() == pytest.approx(46 / 9)
    torch.testing.assert_close(covariance(latents), torch.tensor([[10.0, -2.0], [-2.0, 5.0]]) * 3 / 46)


def test_covariance_is_the_inverse_and_never_negative():
    torch.manual_seed(0)
    latents = torch.randn(50, 2, 3, dtype=torch.double)
    torch.testing.assert_close(covariance(latents), torch.linalg.inv(precision(latents)), rtol=1e-6, atol=1e-8)
    flat = torch.randn(1000, 1, 3) * torch.tensor([[1.0], [1.0 + 1e-4]])  # two rows nearly alike: rounding decides
    assert (precision_determinant(flat) >= 0).all()
    assert torch.isfinite(covariance(torch.zeros(1, 2, 3))).all()


def scale_output(size, cell, offset, latents, sharp=50.0):
    """A scale that is sure of one cell."""
    logits = torch.zeros(1, 1, size * size)
    logits[..., cell] = sharp
    offsets, field = torch.zeros(1, 1, size * size, 2), torch.ones(1, 1, size * size, 2, 3)
    offsets[..., cell, :], field[..., cell, :, :] = torch.tensor(offset), torch.tensor(latents)
    return ScaleOutput(logits, offsets, field)


def test_multi_scale_prediction_by_hand():
    unit = [[math.sqrt(3.0), 0.0, 0.0], [0.0, math.sqrt(3.0), 0.0]]  # Ω = I
    first = scale_output(8, 8 * 1 + 2, [0.5, -1.0], unit)
    second = scale_output(16, 16 * 3 + 5, [0.0, 0.0], unit)
    located = decode((first, second), 384)
    x1, y1 = 48 * (2 + 0.5 + 0.25) - 0.5, 48 * (1 + 0.5 - 0.5) - 0.5
    x2, y2 = 24 * 5.5 - 0.5, 24 * 3.5 - 0.5
    torch.testing.assert_close(located.points_input[0, 0], torch.tensor([(x1 + x2) / 2, (y1 + y2) / 2]))
    assert located.scores.item() == pytest.approx(1.0)
    torch.testing.assert_close(located.covariances[0, 0], torch.eye(2) * (48**2 + 24**2) / (4 * 2))


def test_score_is_the_mean_winning_probability():
    sure, unsure = (scale_output(2, 1, [0.0, 0.0], [[1.0] * 3, [0.0] * 3], sharp) for sharp in (50.0, 0.0))
    assert decode((sure, unsure), 64).scores.item() == pytest.approx((1 + 0.25) / 2)


def test_decoding_is_mirror_exact():
    torch.manual_seed(0)
    size = 8
    scale = ScaleOutput(torch.randn(2, 3, 64), torch.rand(2, 3, 64, 2) * 2 - 1, torch.randn(2, 3, 64, 2, 3))
    grid = lambda field: field.unflatten(2, (size, size)).flip(3).flatten(2, 3)  # noqa: E731
    mirror = torch.tensor([-1.0, 1.0])
    flipped = ScaleOutput(grid(scale.logits), grid(scale.offsets) * mirror, grid(scale.latents) * mirror[:, None])
    here, there = decode((scale,), 384), decode((flipped,), 384)
    torch.testing.assert_close(flip_points(here.points_input, 384), there.points_input)
    torch.testing.assert_close(here.covariances * torch.outer(mirror, mirror), there.covariances)


def test_branches_have_the_papers_shapes_and_offsets_are_bounded():
    locator = Locator(4096, (8, 12, 16), latent=3)
    assert sum(parameter.numel() for parameter in locator.parameters()) == 4097 * 9 * (64 + 144 + 256)
    outputs = locator(torch.randn(2, 3, 4096) * 100)
    assert [output.size for output in outputs] == [8, 12, 16]
    for output in outputs:
        cells = output.size**2
        assert output.logits.shape == (2, 3, cells)
        assert output.offsets.shape == (2, 3, cells, 2)
        assert output.latents.shape == (2, 3, cells, 2, 3)
        assert output.offsets.abs().max() <= 1
        torch.testing.assert_close(output.probabilities.sum(-1), torch.ones(2, 3))


def test_at_cell_picks_one_cell_of_each_keypoint():
    field = torch.arange(12.0).view(1, 2, 3, 2)
    assert at_cell(field, torch.tensor([[2, 0]])).tolist() == [[[4.0, 5.0], [6.0, 7.0]]]
    assert at_cell(field[..., 0], torch.tensor([[2, 0]])).tolist() == [[4.0, 6.0]]


def test_gradients_are_right():
    latents = torch.randn(2, 2, 3, dtype=torch.double, generator=torch.Generator().manual_seed(0)).requires_grad_()
    for function in (precision, precision_determinant, covariance):
        assert gradcheck(function, latents)


def test_locating_at_the_winning_cells_alone_is_decoding_everything():
    torch.manual_seed(0)
    locator = Locator(10, (4, 6), latent=3)
    for layer in locator.scales:
        torch.nn.init.normal_(layer.bias)
    descriptors = torch.randn(3, 5, 10)
    with torch.no_grad():
        expected, found = decode(locator(descriptors), 96), locator.locate(descriptors, 96)
    for name in ("points_input", "scores", "covariances"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=1e-3, atol=1e-4)


def test_scales_that_agree_decode_as_their_mean():
    peak = torch.full((1, 1, 16), -5.0)
    peak[0, 0, 5] = 5.0  # cell (1, 1) of 4 × 4
    fine = torch.full((1, 1, 64), -5.0)
    fine[0, 0, 2 * 8 + 3] = 5.0  # cell (3, 2) of 8 × 8, inside it
    scales = tuple(
        ScaleOutput(logits, torch.zeros(1, 1, size**2, 2), torch.eye(2, 3).expand(1, 1, size**2, 2, 3))
        for logits, size in ((peak, 4), (fine, 8))
    )
    one, two = decode(scales, 64), decode_agreed(scales, 64)
    assert torch.allclose(one.points_input, two.points_input) and torch.allclose(one.scores, two.scores)
    assert torch.allclose(one.covariances, two.covariances)


def test_scales_that_disagree_settle_on_the_place_that_both_allow():
    # 2 × 2: cells 0 and 3 are nearly equal, 0 a little better; 4 × 4: only the last cell, inside cell 3
    coarse = torch.tensor([[[1.0, -9.0, -9.0, 0.9]]])
    fine = torch.full((1, 1, 16), -9.0)
    fine[0, 0, 15] = 9.0
    scales = tuple(
        ScaleOutput(logits, torch.zeros(1, 1, size**2, 2), torch.eye(2, 3).expand(1, 1, size**2, 2, 3))
        for logits, size in ((coarse, 2), (fine, 4))
    )
    # cell 3 of 2 × 2 has its centre at 48 − ½, cell 15 of 4 × 4 at 56 − ½; the paper's mean lies between 16 and 56
    assert decode_agreed(scales, 64).points_input[0, 0].tolist() == [51.5, 51.5]
    assert decode(scales, 64).points_input[0, 0].tolist() == [35.5, 35.5]


def two_scales():
    """2 × 2 with probabilities ½, ¼, ⅛, ⅛ and 3 × 3 with ½ at the first cell and 1/16 at the others."""
    coarse, fine = torch.tensor([[[0.5, 0.25, 0.125, 0.125]]]), torch.full((1, 1, 9), 0.0625)
    fine[0, 0, 0] = 0.5
    return tuple(
        ScaleOutput(p.log() + 3.0, torch.zeros(1, 1, size**2, 2), torch.eye(2, 3).expand(1, 1, size**2, 2, 3))
        for p, size in ((coarse, 2), (fine, 3))
    )


def test_the_fused_map_is_the_product_of_probabilities_on_the_common_lattice():
    product = fused_logits(two_scales()).exp()[0, 0]
    assert product.shape == (6, 6)
    torch.testing.assert_close(product[0, 0], torch.tensor(0.5 * 0.5))  # cell 0 of both
    torch.testing.assert_close(product[0, 2], torch.tensor(0.5 * 0.0625))  # cell 0 of the coarse, cell 1 of the fine
    torch.testing.assert_close(product[0, 3], torch.tensor(0.25 * 0.0625))  # cell 1 of both
    torch.testing.assert_close(product[5, 0], torch.tensor(0.125 * 0.0625))


def test_what_the_scales_say_at_a_place_is_the_mean_of_their_cells_there():
    found = read_at(two_scales(), torch.tensor([[2]]), 6, 12)  # first row, third column of the lattice
    # cell 0 of 2 × 2 has its centre at 3 − ½, cell 1 of 3 × 3 at (6, 2) − ½
    torch.testing.assert_close(found.points_input[0, 0], torch.tensor([(2.5 + 5.5) / 2, (2.5 + 1.5) / 2]))
    assert found.scores.item() == pytest.approx((0.5 + 0.0625) / 2)
