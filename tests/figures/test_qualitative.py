"""Queries that the seed draws."""

from salvit.figures.qualitative import COLUMNS, qualitative


def test_there_is_a_row_of_novel_and_one_of_base_keypoints(ground):
    sheet = qualitative(ground)
    assert [row.heading for row in sheet.rows] == ["novel keypoints", "base keypoints"]
    for row, kind in zip(sheet.rows, ("novel", "base"), strict=True):
        able = [asked for asked in ground.asked if asked.episode.kind == kind and asked.valid.any()]
        assert len(row.panels) == min(COLUMNS, len(able)) > 0
        assert len(row.legend) == len(able[0].episode.names)


def test_the_same_seed_gives_the_same_picture_and_another_seed_another(make_ground, ground):
    first, again, other = (qualitative(one).draw().tobytes() for one in (ground, make_ground(), make_ground(seed=5)))
    assert first == again != other
