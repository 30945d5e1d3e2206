import numpy as np
import pytest

from salvit.data.augment import AugmentSettings
from salvit.data.episodes import EpisodePool, EpisodeSettings
from salvit.data.sheets import COLOURS, augment_sheet, episode_sheet, keypoint_sheet, occlusion_sheet


def test_left_keypoints_are_red_and_right_ones_blue(record):
    sheet = np.asarray(keypoint_sheet([record, record], (("left_eye", "nose"),)))
    assert sheet.shape == (256, 516, 3)
    scale = 256 / 80
    for index, side in enumerate(("left", "right", "")):
        x, y = (record.points[index] + 0.5) * scale - 0.5 + (0, (256 - 192) / 2)
        assert tuple(sheet[round(y), round(x)]) == COLOURS[side]


def test_sheets_have_a_row_for_each_record_or_episode(record, cow_problem):
    assert augment_sheet([record] * 2, (("left_eye", "right_eye"),), 0).size == (8 * 260 - 4, 2 * 260 - 4)
    assert occlusion_sheet([record] * 3, 0.5, 0).size == (4 * 260 - 4, 3 * 260 - 4)
    settings = EpisodeSettings(augment=AugmentSettings(), auxiliary="default", queries=3)
    pool = EpisodePool(cow_problem, "train", "base", settings, purpose="train", seed=0)
    assert episode_sheet([pool.draw(0)]).size == (4 * 260 - 4, 256)


def test_nothing_to_show_is_an_error():
    with pytest.raises(ValueError, match="nothing to show"):
        keypoint_sheet([])
