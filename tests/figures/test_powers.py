"""Powers by hand beside what a network learnt."""

from types import SimpleNamespace

import numpy as np
import pytest

from salvit.figures.powers import BY_HAND, PICTURES, draw_histogram, powers, why_no_powers


def test_each_row_has_the_powers_by_hand_and_the_learnt_one(ground):
    sheet = powers(ground)
    assert len(sheet.rows) == PICTURES + 1
    for row in sheet.rows[:-1]:
        captions = [panel.caption for panel in row.panels[1:]]
        assert captions[:-1] == [f"power {value:g}" for value in BY_HAND]
        assert 0 < float(captions[-1].removeprefix("learnt: ").split(", ")[-1]) < 2
        greys = [np.asarray(panel.image).mean() for panel in row.panels[1:-1]]
        assert greys == sorted(greys, reverse=True)  # the larger the power, the darker
    assert len(sheet.rows[-1].panels) == 1 and "pictures; mean" in sheet.rows[-1].panels[0].caption


def test_a_detector_without_exponents_says_why(ground, make_ground):
    match = SimpleNamespace(name="match")
    assert "match does not shape any saliency" in why_no_powers(match)
    assert why_no_powers(ground.detector) is None
    other = make_ground()
    other.detector = match
    with pytest.raises(ValueError, match="no exponents"):
        powers(other)


def test_the_histogram_has_a_bar_where_the_exponents_are():
    pixels = np.asarray(draw_histogram(np.full((5, 1), 1.5, dtype=np.float32), 2.0, 400))
    columns = np.flatnonzero((pixels == (0, 114, 178)).all(-1).any(0))
    left, right = 40, 380
    assert columns.size and abs(columns.mean() - (left + 0.7625 * (right - left - 1))) < 6
