import numpy as np
import pytest
import torch

from salvit.backbones import build_backbone
from salvit.saliency.lessons import default_teachers, lesson_key, load_lessons, make_lesson, sample_window, store_lesson
from salvit.saliency.provider import NoSaliency


@pytest.fixture(scope="module")
def backbone():
    return build_backbone("lite0", weights=None)


class Left:
    """A teacher that believes in the left half."""

    name, settings = "left", ""

    def __call__(self, picture, source=None):
        saliency = np.zeros(picture.shape[:2], dtype=np.float32)
        saliency[:, : picture.shape[1] // 2] = 1
        return saliency


def test_a_lesson_holds_two_views_of_features_and_maps(backbone, disc):
    lesson = make_lesson(disc[0], backbone, (Left(), NoSaliency()), np.random.default_rng(0))
    assert lesson["level0"].shape == (2, 112, 20, 20)
    assert lesson["level1"].shape == (2, 320, 10, 10)
    assert lesson["maps"].shape == (2, 2, 80, 80)
    whole, inside = lesson["maps"][0], lesson["inside"][0]
    assert inside.sum() == 60 * 80  # 96 × 128 pixels fill three quarters of the square
    assert (whole[1][inside] == 255).all()
    assert not whole[:, ~inside].any()
    assert (whole[0, 40, 30], whole[0, 40, 50]) == (255, 0)


def test_the_second_view_is_a_part_that_may_be_mirrored(backbone, disc):
    seen = set()
    for seed in range(12):
        lesson = make_lesson(disc[0], backbone, (Left(),), np.random.default_rng(seed))
        taught = lesson["maps"][1, 0].float()
        seen.add(bool(taught[:, :40].sum() > taught[:, 40:].sum()))
    assert seen == {True, False}


def test_a_window_is_at_least_half_of_each_side_and_lies_inside():
    rng = np.random.default_rng(0)
    for _ in range(50):
        x1, y1, x2, y2 = sample_window((30, 50), rng)
        assert 0 <= x1 < x2 <= 50
        assert 0 <= y1 < y2 <= 30
        assert x2 - x1 >= 25
        assert y2 - y1 >= 15


def test_lessons_are_stored_and_joined(tmp_path):
    one = {"maps": torch.zeros(2, 3, dtype=torch.uint8), "inside": torch.ones(2, 1, dtype=torch.bool)}
    for name in ("a", "b"):
        store_lesson(one, tmp_path / name)
    assert load_lessons([tmp_path / "a", tmp_path / "b"])["maps"].shape == (4, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_no_lessons_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        load_lessons([])


def test_a_key_depends_on_the_picture_and_on_the_teachers(backbone):
    teachers = default_teachers()
    keys = {
        lesson_key("a", backbone, teachers),
        lesson_key("b", backbone, teachers),
        lesson_key("a", backbone, teachers[:2]),
    }
    assert len(keys) == 3
