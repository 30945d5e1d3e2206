"""Which part a mark is, and where that part lies: by hand, and in a detector."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from salvit.flip import learn_both_ways
from salvit.model.filters import join_extra
from salvit.model.parts import PARTS, part_evidence, part_shares, told_maps
from salvit.model.settings import EncoderSettings, HeadSettings, ModelSettings
from salvit.predict import conclusions_of

STRIDE = 16


def middle(row, column):
    """The centre of a cell, in pixels."""
    return [STRIDE * column + STRIDE / 2 - 0.5, STRIDE * row + STRIDE / 2 - 0.5]


def maps_of(*chances):
    """Logits (1, n, 2, 2) of maps with these chances, row by row."""
    return torch.tensor(chances).log().view(1, len(chances), 2, 2)


def test_evidence_is_how_much_likelier_a_part_makes_the_place_of_the_mark():
    logits = maps_of([0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25])
    points = torch.tensor([[middle(0, 0), middle(1, 1), [STRIDE - 0.5, STRIDE / 2 - 0.5]]])
    found = part_evidence(logits, points, torch.ones(1, 3, dtype=torch.bool), STRIDE)
    # the third mark lies between the upper cells: (0.7 + 0.1) / 2
    expected = [[math.log(2.8), 0.0, 1.0], [math.log(0.4), 0.0, 1.0], [math.log(1.6), 0.0, 1.0]]
    torch.testing.assert_close(found, torch.tensor([expected]))


def test_pictures_add_up_and_an_unmarked_keypoint_says_nothing():
    logits = maps_of([0.7, 0.1, 0.1, 0.1]).expand(2, -1, -1, -1)
    points = torch.tensor([[middle(0, 0), middle(0, 0)], [middle(0, 0), middle(1, 0)]])
    found = part_evidence(logits, points, torch.tensor([[True, False], [True, False]]), STRIDE)
    torch.testing.assert_close(found, torch.tensor([[[2 * math.log(2.8), 2.0], [0.0, 0.0]]]))


def test_shares_are_bayes_and_both_ways_of_a_picture_are_one_picture():
    evidence = torch.tensor([[[math.log(30.0), math.log(10.0), 1.0], [2 * math.log(30.0), 2 * math.log(10.0), 2.0]]])
    once = torch.tensor([30.0, 10.0, 20.0]) / 60  # none counts 20
    torch.testing.assert_close(part_shares(evidence, torch.tensor([1, 1])), torch.stack([once, once]))
    twice = torch.tensor([900.0, 100.0, 400.0]) / 1400
    torch.testing.assert_close(part_shares(evidence, torch.tensor([1, 2]))[1], twice)


def test_what_no_example_has_is_no_part_and_adds_nothing_to_any_place():
    shares = part_shares(torch.tensor([[[3.0, -3.0, 1.0]]]), torch.tensor([0]))  # its mirrored partner is marked
    assert shares.tolist() == [[0.0, 0.0, 1.0]]
    maps = told_maps(shares, maps_of([0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1]))
    assert float(maps.max()) == float(maps.min())


def test_a_told_map_is_the_mean_of_the_parts_by_their_shares_above_a_floor():
    logits = maps_of([0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7])
    maps = told_maps(torch.tensor([[0.5, 0.25, 0.25]]), logits)
    upper_left = 4 * (0.5 * 0.7 + 0.25 * 0.1) + 0.25 + 0.05
    others = 4 * (0.5 * 0.1 + 0.25 * 0.1) + 0.25 + 0.05
    lower_right = 4 * (0.5 * 0.1 + 0.25 * 0.7) + 0.25 + 0.05
    expected = torch.tensor([[upper_left, others], [others, lower_right]]).log()
    torch.testing.assert_close(maps[0, 0], expected)


def test_a_mark_in_the_border_is_read_inside_the_picture():
    logits = maps_of([0.7, 0.1, 0.1, 0.1])
    found = part_evidence(logits, torch.tensor([[[-40.0, -40.0]]]), torch.ones(1, 1, dtype=torch.bool), STRIDE)
    assert found[0, 0, 0].item() == pytest.approx(math.log(2.8))


# --- in a detector --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(model_with):
    return model_with(body=3, parts=True)


def finest(model, pack, encoded):
    """Logits of the finest scale (Q, N, S²)."""
    with torch.no_grad():
        return model.search(model.asked(pack), encoded.features)[-1].logits


def test_a_sure_map_of_the_marks_part_draws_the_keypoint_to_it(model, picture, example, monkeypatch):
    pack, encoded = model.learn([example(0)]), model.encode([picture(1)])
    plain = finest(model, pack, encoded)
    side = encoded.features.shape[-1]
    sure = torch.full((1, 3, side, side), -20.0)
    sure[:, :, -1, -1] = 20.0  # every part in the lower right corner
    monkeypatch.setattr(model.encoder, "find_parts", lambda features: sure)
    drawn = finest(model, pack, encoded)
    assert bool(((drawn - plain).flatten(2).argmax(-1) == drawn.shape[-1] - 1).all())


def test_evidence_of_packs_and_of_both_ways_adds_up(model, example):
    parts = [model.learn([example(0)]).extra, model.learn([example(1, (True, False))]).extra]
    assert parts[0][PARTS].shape == (1, 2, 4)
    assert join_extra(parts)[PARTS][0, :, -1].tolist() == [2.0, 1.0]
    both = learn_both_ways(model, [example(0)], (("left_eye", "right_eye"),))
    assert both.extra[PARTS][0, :, -1].tolist() == [2.0, 2.0]


def test_a_pack_without_evidence_is_refused_and_the_two_models_conclude_otherwise(model, model_with, picture, example):
    pack = replace(model.learn([example(0)]), extra={})
    with pytest.raises(ValueError, match="learn it again"):
        model.detect(pack, [picture(1)])
    assert conclusions_of(model) != conclusions_of(model_with(body=3))


def test_parts_are_for_the_dynamic_head_and_need_a_body_frame(model_with):
    with pytest.raises(ValueError, match=r"head\.parts is for head\.kind = 'dynamic'"):
        HeadSettings(parts=True)
    with pytest.raises(ValueError, match="needs a body frame"):
        ModelSettings(head=HeadSettings(kind="dynamic", parts=True), encoder=EncoderSettings(feature_channels=32))
    with pytest.raises(ValueError, match="no body frame"):
        model_with().encoder.find_parts(torch.zeros(1, 32, 6, 6))
