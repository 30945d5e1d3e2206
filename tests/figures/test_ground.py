"""Episodes are drawn by the seed, and labels are looked at only after everything was predicted."""

from dataclasses import replace

import numpy as np

from salvit.figures.ground import draw_episodes, judge


def test_the_seed_draws_as_many_episodes_of_each_kind(listed):
    one, same, other = (draw_episodes(listed, 2, seed).values["episodes"] for seed in (0, 0, 3))
    assert one == same != other
    assert sorted(row["kind"] for row in one) == ["base", "base", "novel", "novel"]
    assert draw_episodes(listed, 99, 0).values["episodes"] == listed.values["episodes"]


def test_errors_are_shares_of_the_box_as_pck_counts_them(listed, rows_at):
    asked = judge(listed, rows_at(listed, lambda index, query, n: 0.1 * query + 0.3))
    assert len(asked) == 2 * len(listed)
    for number, one in enumerate(asked):
        np.testing.assert_allclose(one.errors, 0.1 * (number % 2) + 0.3)


def test_labels_of_queries_never_move_what_is_found(ground, make_ground):
    rows = ground.listed.values["episodes"]
    supports = {name for row in rows for name in row["supports"]}
    queries = {name for row in rows for name in row["queries"]} - supports
    assert queries
    moved = {
        name: replace(record, points=record.points + 9.0) if name in queries else record
        for name, record in ground.listed.records.items()
    }
    other = make_ground(episodes=99, of=replace(ground.listed, records=moved))
    changed = 0
    for before, after in zip(ground.asked, other.asked, strict=True):
        np.testing.assert_array_equal(before.found, after.found)
        np.testing.assert_array_equal(before.covariances, after.covariances)
        changed += not np.array_equal(before.errors, after.errors)
    assert changed
    for before, after in zip(
        ground.ask(ground.asked[:1], "grey", 1.0), other.ask(other.asked[:1], "grey", 1.0), strict=True
    ):
        np.testing.assert_array_equal(before.found, after.found)


def test_hidden_queries_are_the_same_queries_in_the_same_order(ground):
    chosen = [ground.asked[-1], ground.asked[0]]
    hidden = ground.ask(chosen, "grey", 1.0)
    assert [one.view.record.id for one in hidden] == [one.view.record.id for one in chosen]
    assert [one.episode.names for one in hidden] == [one.episode.names for one in chosen]
    assert all(one.occlusion is not None and one.occlusion.occluder == "grey" for one in hidden)
    assert chosen[0].occlusion is None
