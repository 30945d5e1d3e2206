import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from salvit.data.augment import AugmentSettings, Change, View, change_affine, change_colour, draw_view, exchange_sides
from salvit.geometry import Affine, affine_of_fit, affine_turn, fit_square, whole_window

PAIRS = (("left_eye", "right_eye"),)
STRONG = AugmentSettings(turn=1.0, colour=0.3)


def test_a_turn_by_90_degrees_takes_right_to_top():
    # the centre of an image of 4×4 is edge (2, 2); the rightmost pixel of row 1 is the point (3, 1)
    assert affine_turn(90.0, (4, 4)).apply([3.0, 1.0]) == pytest.approx([1.0, 0.0])


def test_a_mirrored_point_is_w_minus_1_minus_x():
    assert affine_turn(0.0, (60, 80), is_flipped=True).apply([[0.0, 7.0], [79.0, 0.0]]).tolist() == [[79, 7], [0, 0]]


@given(st.floats(-45, 45), st.booleans())
def test_there_and_back_is_the_same_point(degrees, is_flipped):
    change = affine_turn(degrees, (60, 80), is_flipped=is_flipped).then(affine_of_fit(fit_square((3, 4, 50, 40), 97)))
    points = np.array([[0.0, 0.0], [33.3, 12.5], [79.0, 59.0]])
    assert change.inverse().apply(change.apply(points)) == pytest.approx(points, abs=1e-9)


def test_an_affine_of_a_fit_is_the_fit():
    fit = fit_square((3.5, 4.0, 50.0, 40.0), 97)
    points = np.array([[5.0, 6.0], [40.0, 30.0]])
    assert affine_of_fit(fit).apply(points) == pytest.approx(fit.to_input(points))


def test_a_change_that_flattens_the_plane_has_no_way_back():
    with pytest.raises(ValueError, match="no inverse"):
        Affine((1.0, 1.0, 0.0, 1.0, 1.0, 0.0)).inverse()


@given(st.integers(0, 10_000))
def test_every_view_keeps_the_box(record_of, seed):
    view = draw_view(record_of, (60, 80), "gt-random", np.random.default_rng(seed), STRONG, can_flip=True)
    x1, y1, x2, y2 = change_affine(view, (60, 80)).bounds(record_of.box)
    assert view.window[0] <= x1 and view.window[1] <= y1 and view.window[2] >= x2 and view.window[3] >= y2


@pytest.fixture(scope="module")
def record_of(tmp_path_factory):
    from salvit.types import Record

    path = tmp_path_factory.mktemp("x") / "x.png"
    return Record(
        "x#0", path, "cow", ("nose",), np.zeros((1, 2)), np.array([2]), (20.0, 10.0, 60.0, 50.0), False, (60, 80)
    )


def test_scale_shows_the_object_larger_or_smaller_within_its_bounds(record):
    settings = AugmentSettings(flip=0, turn=0, scale=(0.5, 0.5))
    view = draw_view(record, (60, 80), "none", np.random.default_rng(0), settings)
    assert view.window == (-40.0, -30.0, 120.0, 90.0)
    settings = AugmentSettings(flip=0, turn=0, scale=(4.0, 4.0))
    view = draw_view(record, (60, 80), "none", np.random.default_rng(0), settings)
    assert view.window == record.box  # not smaller than the box


def test_without_pairs_nothing_is_mirrored_and_with_them_half_is(record):
    def share(can_flip):
        rng = np.random.default_rng(0)
        views = [draw_view(record, (60, 80), "none", rng, AugmentSettings(), can_flip=can_flip) for _ in range(400)]
        return np.mean([view.change.is_flipped for view in views]), np.mean(
            [view.change.degrees != 0 for view in views]
        )

    assert share(False)[0] == 0
    flipped, turned = share(True)
    assert 0.42 < flipped < 0.58 and 0.18 < turned < 0.32


def test_without_settings_there_is_no_change(record):
    assert draw_view(record, (60, 80), "none", np.random.default_rng(0)) == View(record, whole_window((60, 80)))
    assert Change() == Change(False, 0.0, (1.0, 1.0, 1.0))


def test_left_and_right_change_places_and_others_stay():
    points, visible = np.array([[1.0, 1], [2, 2], [3, 3], [4, 4]]), np.array([True, False, True, True])
    names = ("left_eye", "right_eye", "nose", "left_ear")
    swapped, seen = exchange_sides(points, visible, names, (*PAIRS, ("left_ear", "right_ear")))
    assert swapped[:, 0].tolist() == [2, 1, 3, 4] and seen.tolist() == [False, True, True, True]
    again = exchange_sides(swapped, seen, names, PAIRS)
    assert (again[0] == points).all() and (again[1] == visible).all()


def test_colour_changes_are_worked_by_hand():
    image = Image.new("RGB", (1, 1), (100, 50, 200))
    assert change_colour(image, (1.0, 1.0, 1.0)).getpixel((0, 0)) == (100, 50, 200)
    assert change_colour(image, (1.1, 1.0, 1.0)).getpixel((0, 0)) == (110, 55, 220)
    assert change_colour(image, (1.0, 2.0, 1.0)).getpixel((0, 0)) == (72, 0, 255)  # (v − 127.5) · 2 + 127.5
    grey = change_colour(image, (1.0, 1.0, 0.0)).getpixel((0, 0))
    assert grey[0] == grey[1] == grey[2]


@pytest.mark.parametrize(
    "wrong",
    [{"flip": 2.0}, {"turn": -0.1}, {"scale": (0.0, 1.0)}, {"scale": (2.0, 1.0)}, {"colour": 1.0}, {"degrees": 90.0}],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=r"expected|probabilities"):
        AugmentSettings(**wrong)
