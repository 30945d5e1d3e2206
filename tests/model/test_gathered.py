"""The place that most of the map gathers round."""

from __future__ import annotations

import math

import pytest
import torch

from salvit.model.gathered import decode_gathered
from salvit.model.locator import ScaleOutput, decode_agreed

SIZE = 12
INPUT = 96
CELL = INPUT / SIZE


def scale_of(*maps, offset=0.0):
    """One query: a scale of 12 × 12 cells whose probabilities are these, by (row, column)."""
    logits = torch.full((1, len(maps), SIZE * SIZE), -30.0)
    for n, cells in enumerate(maps):
        for (row, column), share in cells.items():
            logits[0, n, row * SIZE + column] = math.log(share)
    latents = torch.tensor([[1.0, 0, 0], [0, 1.0, 0]]).expand(1, len(maps), SIZE * SIZE, 2, 3)
    return ScaleOutput(logits, torch.full((1, len(maps), SIZE * SIZE, 2), offset), latents)


def centre(row, column):
    return [(column + 0.5) * CELL - 0.5, (row + 0.5) * CELL - 0.5]


BLOCK = {(7, 7): 0.15, (7, 8): 0.15, (8, 7): 0.15, (8, 8): 0.15}


def test_four_neighbours_that_share_more_than_a_lone_winner_are_chosen():
    scales = (scale_of({(2, 2): 0.4, **BLOCK}),)
    assert decode_agreed(scales, INPUT).points_input[0, 0].tolist() == centre(2, 2)
    torch.testing.assert_close(
        decode_gathered(scales, INPUT).points_input[0, 0], torch.tensor(centre(7.5, 7.5)), atol=0.5, rtol=0
    )


def test_a_winner_that_has_more_than_its_rivals_together_stays():
    scales = (scale_of({(2, 2): 0.8, **{cell: 0.05 for cell in BLOCK}}),)
    torch.testing.assert_close(
        decode_gathered(scales, INPUT).points_input[0, 0], torch.tensor(centre(2, 2)), atol=0.5, rtol=0
    )


def test_scales_count_as_their_geometric_mean():
    one, two = {(2, 2): 0.7, (8, 8): 0.3}, {(2, 2): 0.1, (8, 8): 0.9}
    mean = {(2, 2): math.sqrt(0.07), (8, 8): math.sqrt(0.27)}
    both = decode_gathered((scale_of(one), scale_of(two)), INPUT).points_input
    torch.testing.assert_close(both, decode_gathered((scale_of(mean),), INPUT).points_input)


def test_score_and_covariance_are_those_of_the_place():
    found = decode_gathered((scale_of({(2, 2): 0.4, (7, 7): 0.3, (7, 8): 0.3}),), INPUT)
    assert float(found.scores[0, 0]) == pytest.approx(0.3)
    assert found.covariances[0, 0].diagonal().tolist() == pytest.approx([3 * CELL**2 / 4] * 2, rel=1e-3)


def test_a_keypoint_that_nobody_marked_does_not_widen_the_window():
    near, far = {(2, 2): 0.4, (2, 4): 0.32, (2, 5): 0.28}, {(11, 11): 1.0}
    alone = decode_gathered((scale_of(near),), INPUT).points_input[:, 0]
    scales = (scale_of(near, far),)
    known = torch.tensor([True, False])
    torch.testing.assert_close(decode_gathered(scales, INPUT, known).points_input[:, 0], alone)
    assert not torch.allclose(decode_gathered(scales, INPUT).points_input[:, 0], alone, atol=1)


def test_it_is_mirror_exact():
    torch.manual_seed(0)
    logits = torch.randn(2, 5, SIZE, SIZE) * 3
    rest = torch.zeros(2, 5, SIZE * SIZE, 2), torch.randn(2, 5, 1, 2, 3).expand(-1, -1, SIZE * SIZE, -1, -1)
    found = decode_gathered((ScaleOutput(logits.flatten(2), *rest),), INPUT).points_input
    mirrored = decode_gathered((ScaleOutput(logits.flip(-1).flatten(2), *rest),), INPUT).points_input
    torch.testing.assert_close(mirrored[..., 0], INPUT - 1 - found[..., 0], atol=1e-3, rtol=0)
    torch.testing.assert_close(mirrored[..., 1], found[..., 1], atol=1e-3, rtol=0)


@pytest.mark.parametrize("column", [0, 11])
def test_a_point_at_the_edge_stays_inside(column):
    found = decode_gathered((scale_of({(0, column): 0.99}),), INPUT).points_input[0, 0]
    assert 0 <= float(found.min())
    assert float(found.max()) <= INPUT - 1
    torch.testing.assert_close(found, torch.tensor(centre(0, column)), atol=1e-2, rtol=0)
