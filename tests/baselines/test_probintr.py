"""ProbIntr's own parts: the warp, the confidence, the joint loss."""

import torch

from salvit.baselines.probintr import draw_warp, introspective_scores, warp_pictures, warped_cells


def test_a_warped_picture_shows_each_cell_where_it_is_said_to_be():
    for seed in range(4):
        warp = draw_warp(seed)
        cells, inside = warped_cells(warp, 8, 64)
        for number in inside.nonzero()[:, 0].tolist():
            picture = torch.zeros(1, 1, 64, 64)
            row, column = divmod(number, 8)
            picture[..., 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] = 1
            shown = warp_pictures(picture, warp)[0, 0].unflatten(0, (8, 8)).unflatten(2, (8, 8)).mean((1, 3))
            assert shown.flatten()[cells[number]] >= 0.7 * shown.max()


def test_a_warp_depends_on_its_seed_alone():
    torch.testing.assert_close(draw_warp(3), draw_warp(3))
    assert (draw_warp(3) - draw_warp(4)).abs().max() > 0.01


def test_a_descriptor_that_is_not_trusted_spreads_its_probability():
    features = torch.cat([torch.randn(1, 4, 3, 3), torch.ones(1, 1, 3, 3)], dim=1)
    sure, unsure = torch.tensor([[1.0, 2, 3, 4, 5.0]]), torch.tensor([[1.0, 2, 3, 4, 0.1]])
    scores = [introspective_scores(one, features, torch.tensor(10.0)).flatten() for one in (sure, unsure)]
    torch.testing.assert_close(scores[0], 50 * scores[1])


def test_training_adds_the_matching_loss_and_inference_does_not(small, episode):
    model = small("probintr")
    inputs = episode.tensors(model)
    assert model(*inputs).matching is None
    output = model.train()(*inputs)
    terms = model.own_losses(output, episode.points_input, episode.valid)
    assert terms["matching"] > 0
    terms["matching"].backward()
    assert model.encoder.distinctiveness[0].weight.grad.abs().max() > 0
