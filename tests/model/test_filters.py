"""Filters from marked pictures: hand-worked sums, the regression that they stand for, and the verbs of a detector."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from salvit.flip import learn_both_ways
from salvit.model.filters import MOMENTS, filter_maps, join_extra, ridge_filters, token_moments, with_filters
from salvit.model.settings import HeadSettings
from salvit.transductive import refine_pack


def test_moments_are_sums_over_all_cells():
    features = torch.tensor([[[[1.0, 3.0]]]])  # one picture, one channel, two cells
    assert torch.equal(token_moments(features), torch.tensor([[[10.0, 4.0], [4.0, 2.0]]]))
    both = token_moments(torch.cat([features, 2 * features]))
    assert torch.equal(both, token_moments(features) + token_moments(2 * features))


@pytest.mark.parametrize("compared", [0, 3])
def test_a_filter_is_the_ridge_regression_from_cells_to_the_map_of_the_mark(compared):
    torch.manual_seed(0)
    features = torch.randn(2, 5, 4, 4, dtype=torch.float64) * torch.tensor([1.0, 2, 3, 4, 5])[:, None, None]
    maps = torch.rand(2, 3, 4, 4, dtype=torch.float64)
    maps /= maps.sum((-2, -1), keepdim=True)
    vectors = torch.einsum("knhw,kdhw->knd", maps, features)
    found = ridge_filters(vectors, torch.ones(2, 3, dtype=torch.bool), token_moments(features), compared)

    cells = features.permute(0, 2, 3, 1).reshape(-1, 5)
    cells = cells - cells.mean(0)
    target = maps.permute(0, 2, 3, 1).reshape(-1, 3)
    variance = cells.square().mean(0)
    own, raw = variance[: 5 - compared], variance[5 - compared :]
    ridge = torch.cat([own.mean().expand_as(own), raw.mean().expand_as(raw)]) if compared else own.mean().expand(5)
    wide = torch.cat([cells, (len(cells) * ridge).sqrt().diag()])  # rows that pull every weight towards 0
    solved = torch.linalg.lstsq(wide, torch.cat([target - target.mean(0), torch.zeros(5, 3)])).solution.T
    assert torch.allclose(torch.nn.functional.normalize(found, dim=1), torch.nn.functional.normalize(solved, dim=1))


def test_a_filter_tells_a_mark_from_a_place_that_looks_like_it():
    """Two knees: both loud in one channel, apart in a quiet one. A prototype hardly sees it, a filter does."""
    features = 0.1 * torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    features[0, :, 2, 2] += torch.tensor([3.0, 1.0, 0.0, 0.0])  # the mark
    features[0, :, 5, 5] += torch.tensor([3.0, -1.0, 0.0, 0.0])  # the other
    vectors = features[:, :, 2, 2][None]
    maps = filter_maps(ridge_filters(vectors, torch.ones(1, 1, dtype=torch.bool), token_moments(features)), features)[
        0, 0
    ]
    assert maps.argmax() == 2 * 8 + 2
    compared = torch.nn.functional.cosine_similarity(features[0], vectors[0, 0, :, None, None], dim=0)
    assert maps[5, 5] / maps[2, 2] < 0.8 * compared[5, 5] / compared[2, 2]


def test_answers_have_mean_0_and_deviation_1_and_a_keypoint_that_no_example_has_answers_nothing():
    torch.manual_seed(0)
    features, vectors = torch.randn(3, 6, 4, 5), torch.randn(2, 2, 6)
    mask = torch.tensor([[True, False], [True, False]])
    maps = filter_maps(ridge_filters(vectors, mask, token_moments(features[:2])), features)
    assert maps.shape == (3, 2, 4, 5) and torch.isfinite(maps).all()
    assert torch.allclose(maps[:, 0].mean((-2, -1)), torch.zeros(3), atol=1e-6)
    assert torch.allclose(maps[:, 0].flatten(1).std(-1), torch.ones(3))
    assert not maps[:, 1].any()


def test_answers_are_added_to_the_logits_alone():
    answers = tuple(torch.tensor([0.0, 1.0]).view(2, 1, 1).expand(2, 1, size**2) for size in (2, 3))
    described = torch.zeros(2, 1, 2 * 2 + 3 * 3 + 1, 9)
    told = with_filters(described, answers)
    assert torch.allclose(told[1, 0, :-1, 0], torch.ones(13)) and told.abs().sum() == pytest.approx(13)
    wanted = torch.tensor([[False], [True]])
    assert torch.equal(with_filters(described[wanted][None], answers, wanted), told[wanted][None])


# --- in a detector --------------------------------------------------------------------------------------------------

NAMES = ("left_eye", "right_eye")


@pytest.fixture(scope="module")
def model(model_with):
    return model_with(filter_gain=5.0)


def test_without_a_gain_nothing_is_kept_and_nothing_changes(model, model_with, picture, example):
    plain = model_with(filter_gain=0.0)
    pack = plain.learn([example(0)])
    assert not pack.extra
    found = plain.detect(pack, [picture(1)])
    assert not np.array_equal(found.points, model.detect(model.learn([example(0)]), [picture(1)]).points)


def test_a_marked_picture_is_found_in_itself_before_anything_is_learnt(model, picture, example):
    found = model.detect(model.learn([example(0)]), [picture(0)])
    assert np.abs(found.points[0] - example(0).points_input).max() < 16


def test_an_episode_is_answered_as_a_pack_is(model, picture, example):
    pack = model.learn([example(0), example(1)])
    images = [picture(2), picture(3)]
    support = model.prepare(*model.tensors([picture(0), picture(1)]))
    points = torch.from_numpy(np.stack([example(0).points_input] * 2)).float()
    query = model.prepare(*model.tensors(images))
    with torch.no_grad():
        output = model(support, points, torch.ones(2, 2, dtype=torch.bool), query)
        located = model.conclude(output.scales, output.presence, torch.tensor([2, 2]))
    expected = model.detect(pack, images).points
    assert np.allclose(located.points_input.numpy(), expected, atol=1e-2)


def test_examples_that_come_in_parts_teach_what_they_teach_together(model, picture, example):
    whole = model.learn([example(0), example(1)])
    parts = [model.learn([example(0)]), model.learn([example(1)])]
    joined = replace(whole, extra=join_extra([{**part.extra, "x": torch.ones(1)} for part in parts]))
    assert joined.extra["x"].shape == (2,) and joined.extra[MOMENTS].shape == whole.extra[MOMENTS].shape
    images = [picture(2)]
    assert np.allclose(model.detect(joined, images).points, model.detect(whole, images).points, atol=1e-3)


def test_both_ways_count_the_cells_of_both(model, example):
    pack = learn_both_ways(model, [example(0)], (NAMES,))
    assert pack.extra[MOMENTS].shape[0] == 1 and pack.extra[MOMENTS][0, -1, -1] == 2 * 36


def test_features_of_half_precision_are_searched_as_the_page_keeps_them(model, picture, example):
    pack, encoded = model.learn([example(0)]), model.look(model.encode([picture(1)]))
    halved = replace(encoded, features=encoded.features.half())
    assert np.allclose(model.locate(pack, halved).points, model.locate(pack, encoded).points, atol=0.5)


def test_a_pack_without_moments_is_refused(model, picture, example):
    pack = replace(model.learn([example(0)]), extra={})
    with pytest.raises(ValueError, match=r"before .* had all that it looks with; learn it again"):
        model.detect(pack, [picture(1)])
    with pytest.raises(ValueError, match="had all that it looks with"):
        refine_pack(model, pack, [model.encode([picture(1)])])


def test_filters_are_for_the_dynamic_head():
    with pytest.raises(ValueError, match=r"filter_gain is for head\.kind = 'dynamic'"):
        HeadSettings(filter_gain=1.0)
    with pytest.raises(ValueError, match="filter_gain at least 0"):
        HeadSettings(kind="dynamic", filter_gain=-1.0)
