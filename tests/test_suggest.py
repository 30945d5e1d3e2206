from pathlib import Path

import numpy as np
import pytest
import torch

from salvit.geometry import fit_square
from salvit.predict import detect, learn
from salvit.suggest import MARKED, Candidate, candidate_of, choose, describe, suggest, uncertainty
from salvit.types import Detection, Encoded, Pack

X, Y, Z = np.eye(3)


def found(covariances, box=None):
    n = len(covariances)
    return Detection(
        Path("a.jpg"), (100, 200), ("k",) * n, np.zeros((n, 2)), np.ones(n), np.ones(n), np.array(covariances),
        np.ones(n, dtype=bool), box,
    )  # fmt: skip


def test_uncertainty_is_the_mean_spread_over_the_longer_side():
    detection = found([np.eye(2) * 100, np.eye(2) * 400, np.eye(2) * 1e9])
    assert uncertainty(detection, np.array([True, True, False])) == pytest.approx((10 + 20) / 2 / 200)
    assert uncertainty(detection, np.array([False, False, True])) == 1.0  # never more than the whole picture
    assert uncertainty(found([np.eye(2) * 100], (0, 0, 50, 40)), np.array([True])) == pytest.approx(10 / 50)


def test_the_mean_feature_leaves_padding_out():
    features = torch.zeros(1, 2, 4, 4)
    features[0, 0, 1:3], features[0, 1, [0, 3]] = 1.0, 5.0  # a wide picture fills the two rows in the middle
    encoded = Encoded(features, (fit_square((0, 0, 100, 50), 64),))
    assert describe(encoded) == pytest.approx(np.array([[1.0, 0.0]]))


def test_an_uncertain_picture_comes_before_a_sure_one():
    assert [n for n, _ in choose([0.1, 0.3, 0.2], np.stack([X, Y, Z]), np.zeros((0, 3)), 3)] == [1, 2, 0]


def test_a_picture_like_a_marked_one_is_not_worth_marking():
    chosen = choose([0.9, 0.1], np.stack([X, Y]), X[None], 2)
    assert chosen == [(1, 1.0), (0, 0.0)]


def test_of_two_alike_the_second_waits_for_another_kind():
    near = (X + 0.05 * Y) / np.linalg.norm(X + 0.05 * Y)
    assert [n for n, _ in choose([0.9, 0.8, 0.3], np.stack([X, near, Z]), np.zeros((0, 3)), 2)] == [0, 2]


def test_a_picture_with_several_objects_is_named_once_and_no_more_than_there_are():
    pack = Pack(torch.zeros(1, 1, 3), torch.ones(1, 1, dtype=torch.bool), ("k",), "m", "")
    candidates = [Candidate(Path("a"), 0.1, X), Candidate(Path("a"), 0.5, Y), Candidate(Path("b"), 0.2, Z)]
    suggestions = suggest(candidates, pack, 10)
    assert [(one.path.name, one.uncertainty) for one in suggestions] == [("a", 0.5), ("b", 0.2)]
    assert suggest([], pack, 3) == []


def test_detections_are_described_only_where_asked(match, marked_folder):
    pack = learn(match, marked_folder / "support.json")
    assert pack.extra[MARKED].shape[0] == 1
    (plain,) = detect(match, pack, [marked_folder / "queries" / "1.png"])
    with pytest.raises(ValueError, match="describe=True"):
        candidate_of(plain, pack)
    queries = [marked_folder / "support.png", marked_folder / "queries" / "1.png"]
    candidates = [candidate_of(result, pack) for result in detect(match, pack, queries, describe=True)]
    first, last = suggest(candidates, pack, 2)
    assert first.path.name == "1.png" and last.novelty == pytest.approx(0, abs=1e-5)  # the marked picture itself
