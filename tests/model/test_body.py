"""A cell's place on the body: places by hand, what teaches the maps, and what a cell then knows."""

from __future__ import annotations

import math

import pytest
import torch

from salvit.model.body import BodyFrame, body_loss, places_among

GRID = (3, 5)


def sure_of(*cells):
    """Logits of maps that have all of their mass in one cell (row, column) each."""
    logits = torch.full((1, len(cells), *GRID), -1000.0)
    for part, (row, column) in enumerate(cells):
        logits[0, part, row, column] = 0.0
    return logits


def test_a_cell_lies_to_a_sure_part_as_on_paper():
    found = places_among(sure_of((1, 2), (0, 4)))
    assert found.shape == (1, 4, *GRID)
    # the picture goes from −1 to 1: half a step a column here, a whole one a row
    torch.testing.assert_close(found[0, :, 2, 0], torch.tensor([-1.0, 1.0, -2.0, 2.0]))
    torch.testing.assert_close(found[0, :, 1, 2], torch.tensor([0.0, 0.0, -1.0, 1.0]))


def test_a_part_that_may_be_anywhere_counts_little():
    found = places_among(torch.zeros(1, 1, *GRID))  # the mean is the middle, c = 1 / √15
    torch.testing.assert_close(found[0, :, 0, 4], torch.tensor([1.0, -1.0]) / math.sqrt(15))


def test_places_move_with_the_part_and_sides_change_when_the_picture_is_mirrored():
    torch.manual_seed(0)
    logits = torch.randn(2, 3, *GRID)
    found, turned = places_among(logits), places_among(logits.flip(-1)).flip(-1)
    torch.testing.assert_close(turned[:, 0::2], -found[:, 0::2])
    torch.testing.assert_close(turned[:, 1::2], found[:, 1::2])


def test_the_loss_is_least_where_the_mass_is_at_the_mark_and_counts_marks_that_are_shown():
    points = torch.tensor([[[2 * 16 + 7.5, 16 + 7.5], [0.0, 0.0]]])  # the middle of cell (1, 2) at stride 16
    shown = torch.tensor([[True, False]])
    soft = torch.zeros(1, 2, *GRID)
    even = body_loss(soft, points, shown, 16)
    assert even.item() == pytest.approx(math.log(15))  # of the first mark alone
    there, elsewhere = soft.clone(), soft.clone()
    there[0, 0, 1, 2], elsewhere[0, 0, 0, 0] = 3.0, 3.0
    assert body_loss(there, points, shown, 16) < even < body_loss(elsewhere, points, shown, 16)
    assert body_loss(soft, points, torch.zeros(1, 2, dtype=torch.bool), 16) == 0


def test_parts_without_a_name_are_not_taught_and_too_few_are_an_error():
    torch.manual_seed(0)
    logits = torch.randn(1, 3, *GRID, requires_grad=True)
    body_loss(logits, torch.full((1, 2, 2), 20.0), torch.ones(1, 2, dtype=torch.bool), 16).backward()
    assert bool((logits.grad[:, :2] != 0).any()) and bool((logits.grad[:, 2] == 0).all())
    logits.grad = None  # those of another data set come after them
    body_loss(logits, torch.full((1, 1, 2), 20.0), torch.ones(1, 1, dtype=torch.bool), 16, first=2).backward()
    assert bool((logits.grad[:, :2] == 0).all()) and bool((logits.grad[:, 2] != 0).any())
    with pytest.raises(ValueError, match="is 3, and what is trained on has 4"):
        body_loss(logits, torch.zeros(1, 4, 2), torch.ones(1, 4, dtype=torch.bool), 16)


def test_maps_are_learnt_by_heart_and_every_part_of_it_gets_a_gradient():
    torch.manual_seed(0)
    body = BodyFrame(8, GRID, 2, width=16, channels=6)
    features, points = torch.randn(4, 8, *GRID), torch.rand(4, 2, 2) * torch.tensor([79.0, 47.0])
    shown = torch.ones(4, 2, dtype=torch.bool)
    optimizer = torch.optim.Adam(body.parameters(), lr=1e-2)
    for _ in range(120):
        told, logits = body(features)
        loss = body_loss(logits, points, shown, 16)
        optimizer.zero_grad()
        (loss + 0.0 * told.sum()).backward()
        optimizer.step()
    assert told.shape == (4, 6, *GRID) and logits.shape == (4, 2, *GRID)
    assert torch.equal(body.find(features), body(features)[1])
    cells = ((points + 0.5) / 16).floor().long()
    assert logits.flatten(2).argmax(-1).tolist() == (cells[..., 1] * 5 + cells[..., 0]).tolist()
    body.zero_grad(set_to_none=True)
    body(features)[0].square().sum().backward()
    assert all(parameter.grad is not None and bool((parameter.grad != 0).any()) for parameter in body.parameters())
