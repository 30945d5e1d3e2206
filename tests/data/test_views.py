from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from salvit.data.augment import AugmentSettings, Change, View, draw_view
from salvit.data.occlude import Occlusion
from salvit.data.views import load_view, select_keypoints
from salvit.geometry import MEAN_COLOUR, whole_window
from salvit.types import Record

NAMES = ("left_eye", "right_eye", "nose")
PAIRS = (("left_eye", "right_eye"),)
HW = (120, 160)
POINTS = np.array([[100.0, 40.0], [60.0, 44.0], [80.0, 70.0]])
WHOLE = whole_window(HW)


@pytest.fixture(scope="module")
def dotted(tmp_path_factory) -> Record:
    """A black image with a soft dot on each keypoint: red, green and blue."""
    y, x = np.mgrid[: HW[0], : HW[1]]
    planes = [255 * np.exp(-((x - px) ** 2 + (y - py) ** 2) / 18.0) for px, py in POINTS]
    path = tmp_path_factory.mktemp("dots") / "dots.png"
    Image.fromarray(np.stack(planes, -1).astype(np.uint8)).save(path)
    return Record("dots.png#0", path, "cow", NAMES, POINTS, np.array([2, 2, 2]), (50.0, 30.0, 110.0, 80.0), False, HW)


def centres(pixels):
    """Where the dots are: the centre of mass of each plane, padding taken off."""
    grid = np.stack(np.meshgrid(np.arange(pixels.shape[1]), np.arange(pixels.shape[0])), -1)
    found = []
    for plane in range(3):
        others = pixels[..., [index for index in range(3) if index != plane]].max(-1).astype(float)
        weight = np.clip(pixels[..., plane].astype(float) - others - 40, 0, None)
        found.append((grid * weight[..., None]).sum((0, 1)) / weight.sum())
    return np.array(found)


def test_points_of_a_plain_view_sit_on_their_dots(dotted):
    loaded = load_view(View(dotted, (40.0, 20.0, 130.0, 90.0)), 200, NAMES)
    assert loaded.visible.all() and loaded.saliency is None
    assert loaded.points_input == pytest.approx(centres(loaded.pixels), abs=0.3)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 100_000))
def test_points_of_an_augmented_view_sit_on_their_dots_and_left_stays_left(dotted, seed):
    strong = AugmentSettings(turn=0.6)
    view = draw_view(dotted, HW, "gt-random", np.random.default_rng(seed), strong, can_flip=True)
    loaded = load_view(view, 200, NAMES, pairs=PAIRS)
    found = centres(loaded.pixels)
    if view.change.is_flipped:  # the red dot was the left eye; its mirror image is a right eye
        found = found[[1, 0, 2]]
    assert loaded.visible.all()
    assert loaded.points_input == pytest.approx(found, abs=0.5)
    assert loaded.to_input.inverse().apply(loaded.to_input.apply(POINTS)) == pytest.approx(POINTS)


def test_saliency_is_warped_with_the_image(dotted):
    saliency = np.asarray(Image.open(dotted.path)).astype(np.float32)[..., 0] / 255
    view = View(dotted, (30.0, 10.0, 140.0, 100.0), Change(True, 12.0))
    loaded = load_view(view, 160, NAMES, pairs=PAIRS, saliency=saliency)
    red = loaded.pixels[..., 0].astype(int)
    inner = (loaded.pixels != MEAN_COLOUR).any(-1)
    assert np.abs(loaded.saliency.astype(int) - red)[inner].max() <= 1
    assert loaded.saliency[~inner].max() == 0


@pytest.mark.parametrize("is_flipped", [False, True])
@pytest.mark.parametrize("window", [WHOLE, (-30.5, 12.25, 140.0, 130.75), (44.5, 20.0, 111.25, 90.5)])
def test_scaling_alone_and_the_affine_change_give_the_same_picture(dotted, window, is_flipped):
    saliency = np.full(HW, 0.8, dtype=np.float32)
    upright = load_view(View(dotted, window, Change(is_flipped)), 320, NAMES, pairs=PAIRS, saliency=saliency)
    turned = load_view(View(dotted, window, Change(is_flipped, 1e-9)), 320, NAMES, pairs=PAIRS, saliency=saliency)
    assert upright.points_input == pytest.approx(turned.points_input, abs=1e-6)
    both_inside = (upright.saliency == 204) & (turned.saliency == 204)  # not at the image's edge, where they blend
    assert both_inside.mean() > 0.3
    assert np.abs(upright.pixels.astype(int) - turned.pixels)[both_inside].max() <= 2
    far_outside = (upright.saliency == 0) & (turned.saliency == 0)
    assert (upright.pixels[far_outside] == MEAN_COLOUR).all() and (turned.pixels[far_outside] == MEAN_COLOUR).all()
    assert (far_outside | both_inside).mean() > 0.95


def test_a_view_without_a_change_is_the_image_fitted_to_its_window(dotted):
    from salvit.data.images import fit_image, read_image

    window = (44.5, 20.0, 111.25, 90.5)
    assert (
        load_view(View(dotted, window), 97, NAMES).pixels == fit_image(read_image(dotted.path), 97, window).pixels
    ).all()


@pytest.mark.parametrize("degrees", [0.0, 1e-9])
def test_outside_window_and_image_is_the_mean_colour(dotted, degrees):
    view = View(dotted, (-40.0, 10.0, 160.0, 110.0), Change(degrees=degrees))
    loaded = load_view(view, 200, NAMES, saliency=np.ones(HW, dtype=np.float32))
    assert (loaded.pixels[:, :40] == MEAN_COLOUR).all()  # left of the image, inside the window
    assert (loaded.pixels[:50] == MEAN_COLOUR).all()  # above the window, where the image goes on
    assert (loaded.pixels[51:149, 41:] != MEAN_COLOUR).any(-1).all()
    assert (loaded.saliency[51:149, 41:] == 255).all()
    assert not loaded.saliency[:, :40].any() and not loaded.saliency[:50].any() and not loaded.saliency[150:].any()


@pytest.mark.parametrize("degrees", [0.0, 1e-9])
def test_a_much_larger_image_is_averaged_not_skipped(tmp_path, dotted, degrees):
    stripes = np.zeros((1200, 1600, 3), dtype=np.uint8)
    stripes[:, ::8] = 248  # one column of eight, which samples between the others would miss
    Image.fromarray(stripes).save(tmp_path / "stripes.png")
    record = replace(dotted, path=tmp_path / "stripes.png", image_hw=(1200, 1600), box=None)
    view = View(record, (0.0, 0.0, 1600.0, 1200.0), Change(degrees=degrees))
    loaded = load_view(view, 200, NAMES, saliency=np.ones((1200, 1600)))
    inner = loaded.pixels[30:170, 5:195]
    assert np.abs(inner.astype(int) - 31).max() <= 2


def test_a_keypoint_outside_the_window_is_not_visible(dotted):
    loaded = load_view(View(dotted, (70.0, 20.0, 130.0, 90.0)), 200, NAMES)
    assert loaded.visible.tolist() == [True, False, True]


def test_keypoints_come_in_the_asked_order_and_unknown_ones_are_not_visible(dotted):
    points, visible = select_keypoints(dotted, ("nose", "tail"))
    assert points[0].tolist() == [80.0, 70.0] and visible.tolist() == [True, False]
    loaded = load_view(View(dotted, WHOLE), 160, ("nose", "tail", "left_eye"))
    assert loaded.visible.tolist() == [True, False, True]
    assert load_view(View(dotted, WHOLE), 160, ()).points_input.shape == (0, 2)


def test_the_box_goes_with_the_image(dotted):
    mirrored = load_view(View(dotted, WHOLE, Change(True)), 160, NAMES)
    assert mirrored.box_input == pytest.approx((160 - 110, 30 + 20, 160 - 50, 80 + 20))
    assert load_view(View(replace(dotted, box=None), WHOLE), 160, NAMES).box_input == (0, 20, 160, 140)


def test_an_occlusion_hides_its_place_in_image_and_saliency(dotted):
    occlusion = Occlusion("grey", np.array([[90.0, 30.0, 110.0, 50.0]]), 0)
    loaded = load_view(View(dotted, WHOLE), 160, NAMES, saliency=np.ones(HW, dtype=np.float32), occlusion=occlusion)
    x, y = np.rint(loaded.points_input[0]).astype(int)
    assert tuple(loaded.pixels[y, x]) == MEAN_COLOUR and loaded.saliency[y, x] == 0
    assert loaded.visible[0]  # it is still there, and asked for


def test_a_saliency_map_of_another_size_is_scaled_and_one_of_another_form_refused(dotted):
    loaded = load_view(View(dotted, WHOLE), 160, NAMES, saliency=np.ones((12, 16), dtype=np.float32))
    assert (loaded.saliency[20:140] == 255).all()
    with pytest.raises(ValueError, match=r"\(height, width\)"):
        load_view(View(dotted, WHOLE), 160, NAMES, saliency=np.ones((3, 12, 16), dtype=np.float32))
