"""Evaluation with a second look on drawn creatures."""

import dataclasses

import numpy as np
import pytest

from salvit.data.creatures import SPECIES, write_creatures
from salvit.data.episodes import EpisodeSettings
from salvit.data.frozen import freeze, read_frozen, write_frozen
from salvit.data.splits import open_problem
from salvit.encoded_lists import encode_list
from salvit.evaluate import predict_list, read_predictions
from salvit.evaluate_zoom import predict_zoomed
from salvit.transductive import TransductiveSettings

ABOUT = {"data": "creatures", "protocol": {}}


def track(items, total, what):
    return items


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("creatures")
    write_creatures(folder / "data", SPECIES[:4], 12, 0)
    problem = open_problem("creatures", folder / "data", SPECIES[3])
    values = freeze(problem, EpisodeSettings(shots=1, queries=3, crop="gt-random"), episodes=2, seed=0)
    write_frozen(values, folder / "list.json")
    return read_frozen(folder / "list.json", problem, purpose="report")


def look_twice(detector, listed, path, transductive=None):
    encoded = encode_list(detector, listed, track=track)
    predict_zoomed(detector, listed, encoded, ABOUT, path, transductive=transductive, track=track)
    return read_predictions(path).rows


def test_a_second_look_says_something_else_than_the_first_about_the_same_queries(listed, match, tmp_path):
    predict_list(match, listed, encode_list(match, listed, track=track), ABOUT, tmp_path / "one.jsonl", track=track)
    once, twice = read_predictions(tmp_path / "one.jsonl").rows, look_twice(match, listed, tmp_path / "two.jsonl")
    assert set(once) == set(twice) and once != twice
    refined = look_twice(match, listed, tmp_path / "three.jsonl", TransductiveSettings(kappa=0.5))
    assert set(refined) == set(twice) and refined != twice


def test_labels_of_queries_never_reach_the_second_look(listed, match, tmp_path):
    rng = np.random.default_rng(1)
    supports = {view.record.id for i in range(len(listed)) for view in listed.draw(i).supports}
    changed = {
        key: record
        if key in supports
        else dataclasses.replace(
            record, points=rng.uniform(0, 300, record.points.shape), v=rng.integers(0, 3, record.v.shape)
        )
        for key, record in listed.records.items()
    }
    other = dataclasses.replace(listed, records=changed)
    assert look_twice(match, listed, tmp_path / "a.jsonl") == look_twice(match, other, tmp_path / "b.jsonl")
