"""The three occluders beside the clean picture."""

import numpy as np

from salvit.figures.occlusions import PICTURES, occlusions


def test_each_row_has_the_clean_picture_and_three_occluders(ground):
    sheet = occlusions(ground)
    assert 1 <= len(sheet.rows) <= 2 * PICTURES
    for row in sheet.rows:
        assert [panel.caption.split(":")[0] for panel in row.panels] == ["clean", "grey", "average", "background"]
        clean, *hidden = (np.asarray(panel.image) for panel in row.panels)
        assert all((one != clean).any() for one in hidden)


def test_the_same_seed_gives_the_same_picture(ground, make_ground):
    assert occlusions(ground).draw().tobytes() == occlusions(make_ground()).draw().tobytes()
