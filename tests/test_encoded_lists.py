"""Frozen lists as a detector that finds objects looks at them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from salvit import encoded_lists
from salvit.data.creatures import SPECIES, write_creatures
from salvit.data.episodes import EpisodeSettings
from salvit.data.frozen import freeze, read_frozen, write_frozen
from salvit.data.splits import open_problem
from salvit.data.views import select_keypoints
from salvit.encoded_lists import encode_list, encode_mirrored, near_list, query_keys, support_key, views_of_list
from salvit.evaluate import learn_episode, mark_view, predict_fine_tuned, predict_list, read_predictions
from salvit.model.build import build_model
from salvit.model.settings import preset
from salvit.near import finder_of
from salvit.score import compare, score
from salvit.transductive import TransductiveSettings

SIZE = 96


def track(items, total, what):
    return items


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("near")
    write_creatures(folder / "data", SPECIES[:4], 12, 0, size_hw=(180, 240))
    problem = open_problem("creatures", folder / "data", SPECIES[3])
    values = freeze(problem, EpisodeSettings(shots=2, queries=2, crop="gt-random"), episodes=4, seed=0)
    write_frozen(values, folder / "list.json")
    return read_frozen(folder / "list.json", problem, purpose="report")


@pytest.fixture(scope="module")
def model():
    """Random weights; the boxes are small and differ from picture to picture."""
    torch.manual_seed(0)
    settings = preset("salvit-lite0", "swift")
    settings = replace(settings, input_size=SIZE, saliency="none", finder=True)
    built = build_model(settings, None).eval()
    with torch.no_grad():
        built.finder.out.weight *= 10
        built.finder.out.bias[1:] = -1.0
    return built


@pytest.fixture(scope="module")
def near(listed, model):
    return near_list(model, listed, {}, track=track)


def window_of(listed, record_id):
    return tuple(listed.values["records"][record_id]["window"])


def is_in_square(points, window):
    """Whether points lie in the square that a window is shown in."""
    x1, y1, x2, y2 = window
    middle, half = np.array([x1 + x2, y1 + y2]) / 2, max(x2 - x1, y2 - y1) / 2 + 2
    return bool((np.abs(np.array(points) - middle) <= half).all())


def test_a_detector_without_a_finder_looks_at_the_list_as_it_is(listed, match):
    assert near_list(match, listed, {}, track=track) is listed
    encoded = encode_list(match, listed, track=track)
    assert encoded.near == {} and all(hidden == "" for _, hidden in encoded.rows)
    assert all(
        fit.window == window_of(listed, key[0]) for key, fit in zip(encoded.rows, encoded.encoded.fits, strict=True)
    )


def test_near_windows_lie_inside_the_lists_own_and_differ_from_picture_to_picture(listed, near):
    assert {key for key, _ in views_of_list(listed)} == set(near.near)
    shares = set()
    for (record_id, _), (x1, y1, x2, y2) in near.near.items():
        left, top, right, bottom = window_of(listed, record_id)
        assert left <= x1 < x2 <= right and top <= y1 < y2 <= bottom
        shares.add(round((x2 - x1) * (y2 - y1) / ((right - left) * (bottom - top)), 3))
    assert min(shares) < 0.7 and len(shares) > len(near.near) / 2
    assert near.view(record_id).window == near.near[record_id, ""]


def test_the_list_and_its_episodes_stay_the_same_but_for_the_windows(listed, near):
    assert near.hash == listed.hash and len(near) == len(listed) and near.values is listed.values
    for index in range(len(listed)):
        plain, shown = listed.draw(index), near.draw(index)
        assert plain.names == shown.names and plain.kind == shown.kind
        for one, other in zip(plain.supports + plain.queries, shown.supports + shown.queries, strict=True):
            assert one.record is other.record
        assert [view.window for view in shown.queries] == [near.near[view.record.id, ""] for view in plain.queries]


def scrambled(listed):
    """The list with other labels for every record that is never a support."""
    rng = np.random.default_rng(1)
    supports = {view.record.id for i in range(len(listed)) for view in listed.draw(i).supports}
    queries = {view.record.id for i in range(len(listed)) for view in listed.draw(i).queries}
    assert queries - supports
    changed = {
        key: record
        if key in supports
        else replace(
            record,
            points=rng.uniform(0, 200, record.points.shape),
            v=rng.integers(0, 3, record.v.shape),
            box=(1.0, 2.0, 30.0, 40.0),
        )
        for key, record in listed.records.items()
    }
    return replace(listed, records=changed)


def test_windows_of_queries_do_not_depend_on_their_labels(listed, near, model):
    other = near_list(model, scrambled(listed), {}, track=track)
    assert other.near == near.near
    for index in range(len(listed)):
        assert [v.window for v in other.draw(index).queries] == [v.window for v in near.draw(index).queries]


def test_labels_of_queries_reach_no_prediction(listed, model, tmp_path):
    rows = []
    for number, shown in enumerate((listed, scrambled(listed))):
        path = tmp_path / f"{number}.jsonl"
        predict_list(model, shown, encode_list(model, shown, track=track), {"protocol": {}}, path, track=track)
        rows.append(read_predictions(path).rows)
    assert rows[0] == rows[1]


def test_supports_hold_the_marks_that_the_lists_own_window_holds(listed, near):
    widened = 0
    for index in range(len(listed)):
        plain, shown = listed.draw(index), near.draw(index)
        for before, view in zip(plain.supports, shown.supports, strict=True):
            marks = [mark_view(one, plain, SIZE).visible for one in (before, view)]
            assert np.array_equal(*marks) and marks[0].any()
            x1, y1, x2, y2 = view.window
            found, outer = near.near[view.record.id, ""], before.window
            assert outer[0] <= x1 <= found[0] and outer[1] <= y1 <= found[1]
            assert found[2] <= x2 <= outer[2] and found[3] <= y2 <= outer[3]
            key = support_key(near, view)
            assert key == (view.record.id, "" if view.window == found else f"holds {view.window}")
            widened += view.window != found
            points, visible = select_keypoints(view.record, plain.names)
            kept = points[visible & marks[0]]
            assert ((kept >= (x1 - 0.5, y1 - 0.5)) & (kept <= (x2 - 0.5, y2 - 0.5))).all()
    assert widened, "some mark lies outside of what was found"


def test_every_picture_of_an_episode_is_encoded_in_the_window_that_it_is_marked_in(listed, model):
    encoded = encode_list(model, listed, track=track)
    shown = replace(listed, near=encoded.near)
    assert any(hidden.startswith("holds ") for _, hidden in encoded.rows)
    for index in range(len(listed)):
        episode, pack, asked = learn_episode(model, listed, index, encoded)
        assert tuple(fit.window for fit in asked.fits) == tuple(view.window for view in episode.queries)
        keys = [support_key(shown, view) for view in episode.supports]
        supports = encoded.pick(keys)
        assert [fit.window for fit in supports.fits] == [view.window for view in episode.supports]
        assert all(encoded.has(key) for key in query_keys(episode))
        assert pack.mask.shape[0] == len(episode.supports) == 2


def test_the_hash_of_the_list_is_in_the_predictions_and_they_are_scored_on_it(listed, model, tmp_path):
    encoded = encode_list(model, listed, track=track)
    predict_list(model, listed, encoded, {"protocol": {}}, tmp_path / "p.jsonl", track=track)
    made = read_predictions(tmp_path / "p.jsonl")
    assert made.about["list_hash"] == listed.hash
    assert score(compare(made, listed))["episodes"] == {"novel": 4, "base": 4}
    for (_, query), row in made.rows.items():
        assert is_in_square(row["points"], encoded.near[query, ""]), "found near, in pixels of the picture"


@pytest.fixture
def looked(model, monkeypatch):
    """How many pictures are looked at for their objects, each time."""
    counts, find = [], model.finder.find
    monkeypatch.setattr(model.finder, "find", lambda raw, size: counts.append(len(raw)) or find(raw, size))
    return counts


def test_what_is_known_is_not_looked_for_again(listed, model, looked):
    first = encode_list(model, listed, track=track)
    keys = {key for key, _ in views_of_list(listed)}
    assert sum(looked) == len(keys)
    looked.clear()
    assert encode_list(model, listed, known=first, track=track) is first and looked == []
    some = dict(list(first.near.items())[:-3])
    again = near_list(model, listed, some, track=track)
    assert looked == [3] and again.near.keys() == first.near.keys()
    fixed = {key: (0.0, 0.0, 9.0, 9.0) for key in keys}
    assert near_list(model, listed, fixed, track=track).near == fixed


def test_occluded_queries_are_looked_for_in_what_is_left_of_them(listed, model, looked):
    clean = encode_list(model, listed, track=track)
    looked.clear()
    hidden = replace(listed, occluder="grey", probability=1.0)
    encoded = encode_list(model, hidden, known=clean, track=track)
    own = {key for key in encoded.near if key not in clean.near}
    queries = {key for index in range(len(hidden)) for key in query_keys(hidden.draw(index))}
    assert own == queries - {key for key in queries if not key[1]} and own and sum(looked) == len(own)
    assert {**encoded.near, **clean.near} == encoded.near, "windows of clean pictures stay"
    assert encoded.others is clean and set(encoded.rows) == own, "supports are shared"
    pairs = [(encoded.near[key], encoded.near[key[0], ""]) for key in own if (key[0], "") in encoded.near]
    assert any(one != other for one, other in pairs)
    for index in range(len(hidden)):
        episode, _, asked = learn_episode(model, hidden, index, encoded)
        assert [fit.window for fit in asked.fits] == [encoded.near[key] for key in query_keys(episode)]


@pytest.mark.parametrize("ways", ["supports", "both"])
def test_mirrored_pictures_have_the_keys_of_those_that_are_not(listed, model, tmp_path, ways):
    encoded = encode_list(model, listed, track=track)
    mirrored = encode_mirrored(model, listed, ways, near=encoded.near, track=track)
    shown = replace(listed, near=encoded.near)
    wanted = {key for key, _ in views_of_list(shown, supports_only=ways == "supports")}
    assert set(mirrored.rows) == wanted <= set(encoded.rows)
    if ways == "both":
        assert list(mirrored.rows) == list(encoded.rows)
    path = tmp_path / "p.jsonl"
    predict_list(model, listed, encoded, {"protocol": {}}, path, ways=ways, mirrored=mirrored, track=track)
    assert score(compare(read_predictions(path), listed))["episodes"] == {"novel": 4, "base": 4}


def test_mirrored_pictures_that_are_known_are_not_encoded_again(listed, model, monkeypatch):
    encoded = encode_list(model, listed, track=track)
    supports = encode_mirrored(model, listed, "supports", near=encoded.near, track=track)
    both = encode_mirrored(model, listed, "both", near=encoded.near, known=supports, track=track)
    assert not set(both.rows) & set(supports.rows) and all(both.has(key) for key in encoded.rows)
    assert encode_mirrored(model, listed, "both", near=encoded.near, known=both, track=track) is both
    assert encode_mirrored(model, listed, "one", known=both, track=track) is None


@pytest.mark.parametrize("transductive", [None, TransductiveSettings(eta=2)])
def test_what_the_head_makes_of_a_picture_is_kept_and_changes_no_prediction(
    listed, model, tmp_path, monkeypatch, transductive
):
    def points(name):
        path = tmp_path / name
        encoded = encode_list(model, listed, track=track)
        predict_list(model, listed, encoded, {"protocol": {}}, path, transductive=transductive, track=track)
        rows = read_predictions(path).rows
        return encoded, np.array([xy for _, row in sorted(rows.items()) for xy in row["points"]])

    kept, fast = points("kept.jsonl")
    monkeypatch.setattr(encoded_lists, "MOST_LOOKED_AT", 0)
    plain, slow = points("plain.jsonl")
    key = next(iter(kept.rows))
    assert kept.pick([key]).looked is not None and plain.pick([key]).looked is None
    np.testing.assert_allclose(fast, slow, atol=0.05)


def test_mirrored_pictures_are_shown_in_the_windows_that_were_found_not_in_those_of_another_search(
    listed, model, monkeypatch
):
    """Found again among other pictures, a window may differ in its last digit, and with it the key of a support."""
    find, searches = model.finder.find, []

    def find_a_little_elsewhere(raw, size):
        searches.append(len(raw))
        return [tuple(side + 1e-6 * len(searches) for side in box) for box in find(raw, size)]

    monkeypatch.setattr(model.finder, "find", find_a_little_elsewhere)
    encoded = encode_list(model, listed, track=track)
    searches.clear()
    mirrored = encode_mirrored(model, listed, "both", near=encoded.near, track=track)
    assert searches == [] and list(mirrored.rows) == list(encoded.rows)
    hidden = replace(listed, occluder="grey", probability=1.0)
    after = encode_list(model, hidden, known=encoded, track=track)
    turned = encode_mirrored(model, hidden, "both", near=after.near, track=track)
    for index in range(len(hidden)):
        learn_episode(model, hidden, index, after, turned)


def test_fine_tuning_looks_near_too(listed, near, model, tmp_path):
    predict_fine_tuned(model, listed, 1, {"protocol": {}}, tmp_path / "p.jsonl", track=track)
    made = read_predictions(tmp_path / "p.jsonl")
    assert made.about["list_hash"] == listed.hash
    assert all(is_in_square(row["points"], near.near[query, ""]) for (_, query), row in made.rows.items())


def test_a_near_list_is_of_the_detector_that_finds(listed, model):
    assert finder_of(model) is not None
    plain = build_model(replace(model.settings, finder=False), None).eval()
    assert near_list(plain, listed, {}, track=track) is listed
