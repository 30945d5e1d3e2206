"""Where the object is: boxes by hand, what teaches them, and learning a few by heart."""

from __future__ import annotations

import math

import pytest
import torch

from salvit.model.finder import Finder, generalised_iou, iou

GRID, INPUT = (4, 4), 64


def boxes(*rows):
    return torch.tensor(rows, dtype=torch.float32)


@pytest.mark.parametrize(
    ("one", "other", "share", "generalised"),
    [
        ((0, 0, 2, 2), (0, 0, 2, 2), 1.0, 1.0),
        ((0, 0, 2, 2), (1, 1, 3, 3), 1 / 7, 1 / 7 - 2 / 9),  # 1 of 4 + 4 − 1; 2 of the hull's 9 are in neither
        ((0, 0, 4, 4), (1, 1, 2, 3), 2 / 16, 2 / 16),  # one inside the other: the hull is the larger
        ((0, 0, 1, 1), (2, 0, 3, 1), 0.0, -1 / 3),
        ((0, 0, 1, 1), (9, 9, 10, 10), 0.0, -0.98),
    ],
)
def test_shares_of_two_boxes_are_those_counted_on_paper(one, other, share, generalised):
    for first, second in ((one, other), (other, one)):
        assert iou(boxes(first), boxes(second)).tolist() == pytest.approx([share])
        assert generalised_iou(boxes(first), boxes(second)).tolist() == pytest.approx([generalised], abs=1e-6)


def test_shares_are_of_each_box_with_each_other_where_shapes_ask_for_it():
    first, second = boxes((0, 0, 2, 2), (1, 1, 3, 3))[:, None], boxes((0, 0, 2, 2), (1, 1, 3, 3), (5, 5, 6, 6))
    assert iou(first, second).shape == generalised_iou(first, second).shape == (2, 3)
    assert torch.allclose(iou(first, second)[:, :2], torch.tensor([[1.0, 1 / 7], [1 / 7, 1.0]]))


def test_boxes_without_any_area_give_numbers():
    empty = boxes((1, 1, 1, 1))
    assert torch.isfinite(iou(empty, empty)).all() and torch.isfinite(generalised_iou(empty, empty)).all()


def softplus_inverse(value):
    return math.log(math.expm1(value))


def finder_of(cell, reach, grid=GRID):
    """A finder that aims at one cell (row, column) and says there how far the sides are, in cells: x1, y1, x2, y2."""
    finder = Finder(3, grid, width=8).eval()
    with torch.no_grad():
        for parameter in finder.parameters():
            parameter.zero_()
        finder.position[0, 0, cell[0], cell[1]] = 1.0
        finder.out.weight[0, 0] = 5.0
        finder.out.bias[1:] = torch.tensor([softplus_inverse(side / 4) for side in reach])
    return finder


def test_the_box_is_that_of_the_cell_that_is_aimed_at():
    finder = finder_of((1, 2), (1.0, 0.5, 1.5, 2.0))
    logits, found = finder(torch.randn(2, 3, *GRID))
    assert logits.shape == (2, 16) and found.shape == (2, 16, 4)
    assert logits.argmax(-1).tolist() == [6, 6] and logits[0, 6].item() == pytest.approx(5.0)
    # the middle of row 1 and column 2 is (2.5, 1.5)
    torch.testing.assert_close(found[0, 6], torch.tensor([1.5, 1.0, 4.0, 3.5]))
    torch.testing.assert_close(found[0, 0], torch.tensor([-0.5, 0.0, 2.0, 2.5]))
    assert finder.find(torch.randn(2, 3, *GRID), INPUT) == [pytest.approx((24.0, 16.0, 64.0, 56.0), abs=1e-4)] * 2


def test_what_is_found_lies_inside_the_input():
    assert finder_of((0, 0), (9.0, 9.0, 9.0, 9.0)).find(torch.randn(1, 3, *GRID), INPUT) == [(0.0, 0.0, 64.0, 64.0)]
    torch.manual_seed(0)
    finder = Finder(3, GRID, width=8).eval()
    torch.nn.init.normal_(finder.out.weight, std=20)
    for x1, y1, x2, y2 in finder.find(10 * torch.randn(50, 3, *GRID), INPUT):
        assert 0 <= x1 <= x2 <= INPUT and 0 <= y1 <= y2 <= INPUT


def test_the_loss_of_a_single_cell_is_the_one_worked_by_hand():
    finder = finder_of((0, 0), (0.25, 0.25, 0.25, 0.25), grid=(1, 1))
    tokens = torch.randn(2, 3, 1, 1)
    # half of the input's sides: IoU and generalised IoU 1/4, each side a quarter of the longer side away
    assert finder.loss(tokens, boxes((0, 0, 32, 32)).expand(2, 4), 32).item() == pytest.approx(1 - 0.25 + 4 * 0.25)
    assert finder.loss(tokens, boxes((8, 8, 24, 24)).expand(2, 4), 32).item() == pytest.approx(0.0, abs=1e-6)


def test_the_true_box_costs_least():
    finder, tokens = finder_of((1, 2), (1.0, 1.0, 1.0, 1.0)), torch.randn(1, 3, *GRID)
    true, others = (24, 8, 56, 40), ((8, 8, 40, 40), (24, 24, 56, 56), (34, 18, 46, 30), (4, 0, 64, 60), (0, 48, 9, 57))
    costs = [finder.loss(tokens, boxes(box), INPUT).item() for box in (true, *others)]
    assert min(costs) == costs[0] and costs[-1] == max(costs)


def test_several_pictures_cost_their_mean():
    finder, tokens = finder_of((1, 2), (1.0, 0.5, 1.5, 2.0)), torch.randn(2, 3, *GRID)
    shown = boxes((24, 16, 64, 56), (0, 0, 30, 30))
    alone = [finder.loss(tokens[[n]], shown[[n]], INPUT) for n in range(2)]
    torch.testing.assert_close(finder.loss(tokens, shown, INPUT), sum(alone) / 2)


def test_gradients_reach_every_weight_of_the_finder_and_not_the_tokens():
    torch.manual_seed(0)
    finder, tokens = Finder(3, GRID, width=8), torch.randn(4, 3, *GRID, requires_grad=True)
    finder.loss(tokens, boxes((24, 16, 64, 56)).expand(4, 4), INPUT).backward()
    assert tokens.grad is None
    for name, parameter in finder.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("is_training", [False, True])
def test_neither_the_scale_of_the_tokens_nor_channels_behind_them_matter(is_training):
    torch.manual_seed(0)
    finder, tokens = Finder(3, GRID, width=8).train(is_training), torch.randn(2, 3, *GRID)
    lengths = 0.1 + torch.rand(2, 1, *GRID)  # as where each cell was scaled with others of its own
    with torch.no_grad():
        for other in (1000 * tokens, lengths * tokens, torch.cat([tokens, torch.randn(2, 5, *GRID)], dim=1)):
            for first, second in zip(finder(tokens), finder(other), strict=True):
                torch.testing.assert_close(first, second, atol=1e-4, rtol=1e-4)


def test_cells_of_nothing_give_numbers():
    torch.manual_seed(0)
    finder = Finder(3, GRID, width=8)
    assert torch.isfinite(finder.loss(torch.zeros(2, 3, *GRID), boxes((3, 3, 3, 3)).expand(2, 4), INPUT))


def drawn_maps(count, side, seed=0):
    """Noise with a rectangle that looks otherwise, and its box in pixels of an input of 16 pixels a cell."""
    generator = torch.Generator().manual_seed(seed)
    tokens, found = 0.3 * torch.randn(count, 6, side, side, generator=generator), []
    tokens[:, 1] += 1.0
    for row in tokens:
        left, top = torch.randint(0, side - 4, (2,), generator=generator).tolist()
        width, height = torch.randint(2, 5, (2,), generator=generator).tolist()
        row[:2, top : top + height, left : left + width] += torch.tensor([2.0, -1.0])[:, None, None]
        found.append([16 * left, 16 * top, 16 * (left + width), 16 * (top + height)])
    return tokens, torch.tensor(found, dtype=torch.float32)


def test_boxes_of_a_few_maps_are_learnt_by_heart():
    torch.manual_seed(0)
    tokens, true = drawn_maps(6, 8)
    finder = Finder(6, (8, 8), width=32)
    optimizer = torch.optim.Adam(finder.parameters(), lr=3e-3)
    before = finder.loss(tokens, true, 128).item()
    for _ in range(100):
        loss = finder.loss(tokens, true, 128)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    share = iou(torch.tensor(finder.eval().find(tokens, 128)), true)
    assert loss.item() < 0.6 * before and share.min() > 0.75 and share.mean() > 0.85
