"""The second look: its window by hand, and evaluation with it on drawn creatures."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salvit.data.creatures import SPECIES, write_creatures
from salvit.data.episodes import EpisodeSettings
from salvit.data.frozen import freeze, read_frozen, write_frozen
from salvit.data.splits import open_problem
from salvit.evaluate import encode_list, predict_list, read_predictions
from salvit.transductive import TransductiveSettings
from salvit.zoom import predict_zoomed, zoom_window

OUTER = (100.0, 50.0, 300.0, 150.0)
ABOUT = {"data": "creatures", "protocol": {}}


def track(items, total, what):
    return items


def test_the_window_is_the_hull_and_a_quarter_of_its_longer_side():
    points = np.array([[180.0, 90.0], [220.0, 110.0], [200.0, 100.0]])
    assert zoom_window(points, (0.0, 0.0, 150.0 + 250.0, 300.0)) == (150.0, 50.0, 250.0, 150.0)  # at least 100
    assert zoom_window(points, OUTER) == (170.0, 75.0, 230.0, 125.0)  # 20 + 10 and, at least 25, 10 + 10


def test_a_single_point_gives_the_nearest_look_and_none_the_first():
    assert zoom_window(np.array([[200.0, 100.0]]), OUTER) == (175.0, 75.0, 225.0, 125.0)
    assert zoom_window(np.empty((0, 2)), OUTER) == OUTER


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=1, max_size=8))
def test_the_window_lies_in_the_first_and_is_never_empty(points):
    x1, y1, x2, y2 = zoom_window(np.array(points), OUTER)
    assert OUTER[0] <= x1 < x2 <= OUTER[2] and OUTER[1] <= y1 < y2 <= OUTER[3]
    assert max(x2 - x1, y2 - y1) >= 25.0 - 1e-6


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
