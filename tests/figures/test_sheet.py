"""Panels and their captions on one sheet."""

import numpy as np
import pytest
from PIL import Image

from salvit.figures.sheet import Panel, Row, Sheet, save_sheet


def plain(colour, size=(60, 40)):
    return Image.new("RGB", size, colour)


def test_every_panel_is_on_the_sheet_side_by_side_and_row_by_row():
    colours = [(200, 0, 0), (0, 200, 0), (0, 0, 200)]
    one, two, three = (Panel(plain(colour)) for colour in colours)
    pixels = np.asarray(Sheet("t", (Row((one, two)), Row((three,)))).draw())
    places = [np.argwhere((pixels == colour).all(-1)) for colour in colours]
    assert [len(place) for place in places] == [60 * 40] * 3
    (top1, left1), (top2, left2), (top3, left3) = (place.min(0) for place in places)
    assert top1 == top2 < top3 and left1 == left3 < left2


def test_a_long_caption_takes_more_lines_and_a_legend_one_more():
    short = Sheet("t", (Row((Panel(plain("red"), "one"),)),)).draw()
    long = Sheet("t", (Row((Panel(plain("red"), "one two three four five six seven"),)),)).draw()
    legend = Sheet("t", (Row((Panel(plain("red"), "one"),), legend=(("nose", (0, 0, 0)),)),)).draw()
    assert short.width == long.width == legend.width
    assert short.height < legend.height < long.height


def test_a_sheet_without_panels_is_refused():
    with pytest.raises(ValueError, match="nothing to show"):
        Sheet("worst", ()).draw()


def test_the_same_sheet_gives_the_same_bytes(tmp_path):
    sheet = Sheet("t", (Row((Panel(plain("red"), "one"),)),))
    for name in ("a.jpg", "b.jpg"):
        save_sheet(sheet, tmp_path / name)
    assert (tmp_path / "a.jpg").read_bytes() == (tmp_path / "b.jpg").read_bytes()
