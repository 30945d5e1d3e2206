"""The worst errors are really the worst."""

from dataclasses import replace

import numpy as np

from salvit.figures.ground import judge
from salvit.figures.worst import COLUMNS, COUNT, worst, worst_errors


def test_the_worst_come_first_and_only_those_that_count(listed, rows_at):
    asked = judge(listed, rows_at(listed, lambda index, query, n: 0.1 * index + 0.001 * n))
    found = worst_errors(asked, 7)
    errors = [one.errors[n] for one, n in found]
    assert errors == sorted(errors, reverse=True) and len(found) == 7
    assert all(one.valid[n] for one, n in found)
    counted = np.sort(np.concatenate([one.errors[one.valid] for one in asked]))[::-1]
    np.testing.assert_allclose(errors, counted[:7])
    assert {one.index for one, _ in found[:1]} == {max(one.index for one in asked if one.valid.any())}


def test_an_error_that_does_not_count_is_never_among_them(listed, rows_at):
    asked = judge(listed, rows_at(listed, lambda index, query, n: 5.0 if (index, query) == (0, 0) else 0.1))
    first = replace(asked[0], valid=np.ones_like(asked[0].valid))
    assert worst_errors([first, *asked[1:]], 1)[0][0] is first
    first = replace(asked[0], valid=np.zeros_like(asked[0].valid))
    assert max(one.errors[n] for one, n in worst_errors([first, *asked[1:]], 999)) < 0.2


def test_a_panel_says_what_was_asked_and_how_far_off(ground):
    sheet, found = worst(ground), worst_errors(ground.asked)
    assert len(sheet.panels) == min(COUNT, sum(int(one.valid.sum()) for one in ground.asked))
    assert all(len(row.panels) <= COLUMNS for row in sheet.rows)
    (asked, n), caption = found[0], sheet.panels[0].caption
    assert asked.episode.names[n].replace("_", " ") in caption and f"off by {asked.errors[n]:.2f}" in caption
