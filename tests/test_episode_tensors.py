from dataclasses import replace

import numpy as np
import pytest
import torch

from salvit.episode_tensors import EpisodeTensors, PairSettings, draw_pairs
from salvit.learner import flat, unflat, wanted_pairs
from salvit.model.encoder import EncoderInput


@pytest.fixture
def episode():
    """Two queries of three real keypoints and one auxiliary; a support has all but the last real one."""
    mask = torch.tensor([[True, True, False, True]])
    valid = torch.tensor([[True, False, False, False], [True, True, False, True]])
    one = EncoderInput(torch.zeros(1, 2, 3, 3))
    points = torch.zeros(1, 4, 2), torch.zeros(2, 4, 2)
    return EpisodeTensors(one, points[0], mask, one, points[1], valid, num_real=3, boxes=torch.ones(3, 4))


def test_the_sides_are_those_of_the_queries_boxes(episode):
    boxes = torch.tensor([[0.0, 0.0, 90.0, 90.0], [10.0, 10.0, 40.0, 30.0], [5.0, 0.0, 10.0, 60.0]])
    assert replace(episode, boxes=boxes).box_sides.tolist() == [30.0, 60.0]


def test_without_settings_the_valid_pairs_are_wanted(episode):
    assert draw_pairs(episode, PairSettings(), np.random.default_rng(0)) is None
    assert torch.equal(wanted_pairs(episode), episode.valid)


def test_at_most_so_many_pairs_are_drawn_all_of_them_valid(episode):
    seen = torch.zeros_like(episode.valid)
    for seed in range(30):
        wanted = draw_pairs(episode, PairSettings(most=2), np.random.default_rng(seed))
        assert wanted is not None and int(wanted.sum()) == 2 and not (wanted & ~episode.valid).any()
        seen |= wanted
    assert torch.equal(seen, episode.valid)


def test_absent_pairs_are_real_keypoints_that_a_support_has(episode):
    wanted = draw_pairs(episode, PairSettings(absent=1.0), np.random.default_rng(0))
    expected = episode.valid.clone()
    expected[0, 1] = True  # the third keypoint is in no support; the fourth is auxiliary
    assert wanted is not None and torch.equal(wanted, expected)


def test_an_episode_survives_the_way_through_plain_tensors(episode):
    wanted = torch.tensor([[True, False, False, False], [False, True, False, False]])
    back = unflat(*(lambda number, *parts: (number, parts))(*flat(replace(episode, wanted=wanted))))
    assert back.wanted is wanted and back.num_real == 3 and torch.equal(back.valid, episode.valid)
    assert back.boxes is episode.boxes
