"""Near looks: a picture is shown again near the object that a detector found in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import salvit.near
from salvit.data.images import read_and_fit
from salvit.data.support import read_support
from salvit.model.build import build_model
from salvit.model.settings import preset
from salvit.near import finder_of, show_near
from salvit.predict import Query, detect, examples, learn
from salvit.types import FittedImage

WHOLE = (0.0, 0.0, 320.0, 240.0)
FOUND_INPUT, FOUND = (15.0, 30.0, 30.0, 42.0), (50.0, 60.0, 100.0, 100.0)
"""A box in the input of 96 pixels, and where it is in a picture of 320×240: a scale of 0.3, and 12 rows of padding."""
NEAR = (40.0, 50.0, 110.0, 110.0)
"""That box and its margin."""


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    settings = replace(preset("salvit-lite0", "light"), input_size=96, saliency="none", finder=True)
    return build_model(settings, None).eval()


@pytest.fixture
def finding(model, monkeypatch):
    """The model, and in how many pictures it looked for an object; it finds one always at one place of the input."""
    looked = []

    def find(raw, input_size):
        looked.append(len(raw))
        return [FOUND_INPUT] * len(raw)

    monkeypatch.setattr(model.finder, "find", find)
    return model, looked


def test_only_a_detector_with_a_finder_finds_objects(match, model):
    assert finder_of(match) is None
    assert finder_of(model) is not None
    assert finder_of(build_model(replace(model.settings, finder=False), None)) is None


def test_boxes_are_in_pixels_of_each_picture(finding, marked_folder):
    images = [read_and_fit(marked_folder / "support.png", 96), read_and_fit(marked_folder / "support.png", 96, FOUND)]
    whole, cropped = finder_of(finding[0])(images)
    assert whole == pytest.approx(FOUND)
    # the box and a tenth of its longer side, (45, 55, 105, 105), at a scale of 1.6 and with 8 rows of padding
    assert cropped == pytest.approx((45 + 15 / 1.6, 55 + 22 / 1.6, 45 + 30 / 1.6, 55 + 34 / 1.6))


def test_a_picture_is_read_again_near_what_is_found_in_it(marked_folder):
    path = marked_folder / "queries" / "1.png"
    image = replace(read_and_fit(path, 96), saliency=np.zeros((96, 96), dtype=np.float32))
    (near,) = show_near(lambda images: [FOUND] * len(images), [image])
    assert near.fit.window == pytest.approx(NEAR) and near.source == str(path) and near.saliency is None
    assert near.image_hw == image.image_hw == (240, 320)
    assert np.array_equal(near.pixels, read_and_fit(path, 96, NEAR, margin=0.0).pixels)
    assert not np.array_equal(near.pixels, image.pixels)


def test_each_picture_has_a_box_of_its_own_and_is_looked_at_inside_its_first_window(marked_folder):
    path = marked_folder / "support.png"
    images = [read_and_fit(path, 96), read_and_fit(path, 96, (60.0, 60.0, 100.0, 90.0), margin=0.0)]
    first, second = show_near(lambda _: [(200.0, 100.0, 300.0, 200.0), FOUND], images)
    assert first.fit.window == pytest.approx((180.0, 80.0, 320.0, 220.0))
    assert second is images[1], "what it finds goes beyond the box that it was given"


def test_marks_are_held(marked_folder):
    image = read_and_fit(marked_folder / "support.png", 96)
    held = [np.array([[60.0, 80.0], [250.0, 150.0]])]
    (near,) = show_near(lambda _: [FOUND], [image], held)
    assert near.fit.window == pytest.approx((40.0, 50.0, 251.0, 151.0))  # to the far edges of the mark's pixel
    inside = near.fit.to_input(held[0])
    assert ((inside >= -0.5) & (inside <= 95.5)).all()
    (free,) = show_near(lambda _: [FOUND], [image], [None])
    assert free.fit.window == pytest.approx(NEAR)


def test_a_picture_that_is_near_already_is_not_read_again(marked_folder, monkeypatch):
    image = read_and_fit(marked_folder / "support.png", 96)
    monkeypatch.setattr(salvit.near, "read_and_fit", lambda *_, **__: pytest.fail("it was read again"))
    for box in (WHOLE, (10.0, 5.0, 300.0, 230.0), (400.0, 0.0, 500.0, 50.0)):  # all, all but a margin, none of it
        assert show_near(lambda _, box=box: [box], [image]) == [image]


def test_a_picture_that_is_too_large_is_refused_when_it_is_read_again(marked_folder):
    image = read_and_fit(marked_folder / "support.png", 96)
    with pytest.raises(ValueError, match="pixels"):
        show_near(lambda _: [FOUND], [image], max_pixels=1000)


# --- where pictures are learnt and searched -------------------------------------------------------------------------


def test_queries_are_searched_near_what_is_found_and_points_are_in_the_pictures_pixels(finding, marked_folder):
    model, looked = finding
    pack = learn(model, marked_folder / "support.json")
    paths = sorted((marked_folder / "queries").iterdir())
    looked.clear()
    found = list(detect(model, pack, paths, batch=2))
    assert looked == [2, 1]
    for path, result in zip(paths, found, strict=True):
        expected = model.locate(pack, model.encode([read_and_fit(path, 96, NEAR, margin=0.0)]))
        np.testing.assert_allclose(result.points, expected.points[0], atol=1e-3)
        np.testing.assert_allclose(result.covariances, expected.covariances[0], rtol=1e-3)
        # the window is 70 wide and 60 high; what is added to make it square is 5 on both sides
        assert ((result.points >= (39.0, 44.0)) & (result.points <= (110.5, 115.5))).all()
        assert result.box is None and result.image_hw == (240, 320)


def test_mirrored_and_second_looks_start_from_the_near_one(finding, marked_folder):
    model, _ = finding
    pack = learn(model, marked_folder / "support.json", zoom=True)
    paths = [marked_folder / "queries" / "1.png"]
    for more in ({"flip": True}, {"zoom": True}):
        (result,) = detect(model, pack, paths, **more)
        assert ((result.points >= (39.0, 44.0)) & (result.points <= (110.5, 115.5))).all()


def test_a_query_with_a_box_is_looked_at_in_its_box(finding, marked_folder):
    model, looked = finding
    pack = learn(model, marked_folder / "support.json")
    path, box = marked_folder / "queries" / "1.png", (120.0, 100.0, 300.0, 230.0)
    expected = model.locate(pack, model.encode([read_and_fit(path, 96, box)])).points[0]
    looked.clear()
    (given,) = detect(model, pack, [path], box=box)
    (own,) = detect(model, pack, [Query(path, box)])
    assert looked == []
    np.testing.assert_allclose(given.points, expected, atol=1e-3)
    np.testing.assert_allclose(own.points, expected, atol=1e-3)
    both = list(detect(model, pack, [Query(path, box), Query(path)]))  # together with one that has none
    assert both[0].box == box and both[1].box is None
    np.testing.assert_allclose(both[0].points, expected, atol=1e-3)
    near = model.locate(pack, model.encode([read_and_fit(path, 96, NEAR, margin=0.0)])).points[0]
    np.testing.assert_allclose(both[1].points, near, atol=1e-3)


def test_marked_pictures_are_learnt_near_their_object_and_keep_all_marks(finding, marked_folder):
    model, looked = finding
    support = read_support(marked_folder / "support.json")
    (example,) = examples(model, support)
    # the found box holds the nose alone; the window goes on to the tail's column and the paw's row
    assert example.image.fit.window == pytest.approx((40.0, 50.0, 251.0, 201.0))
    assert example.visible.all() and not support.problems and looked == [1]
    assert ((example.points_input >= -0.5) & (example.points_input <= 95.5)).all()
    np.testing.assert_allclose(
        example.image.fit.to_image(example.points_input), [(60, 80), (250, 150), (120, 200)], atol=1e-6
    )
    pack = learn(model, support)
    assert pack.mask.all()
    torch.testing.assert_close(pack.vectors, model.learn([example]).vectors)


def test_a_mark_outside_the_picture_does_not_widen_the_window(finding, marked_folder):
    (marked_folder / "far.csv").write_text("image,keypoint,x,y\nsupport.png,nose,60,80\nsupport.png,tail,900,150\n")
    support = read_support(marked_folder / "far.csv")
    (example,) = examples(finding[0], support)
    assert example.image.fit.window == pytest.approx(NEAR)
    assert len(support.problems) == 1 and example.visible.sum() == 1


def test_cropped_supports_are_not_looked_for(finding, marked_folder):
    model, looked = finding
    (example,) = examples(model, read_support(marked_folder / "support.json"), cropped=True)
    assert looked == [] and example.image.fit.window == pytest.approx((17.0, 37.0, 293.0, 240.0))


def test_near_pictures_get_the_saliency_that_the_model_wants(finding, marked_folder, monkeypatch):
    model, _ = finding
    shown: list[FittedImage] = []

    def prior(image, provider):
        shown.append(image)
        return image

    monkeypatch.setattr("salvit.priors.with_saliency", prior)
    pack = learn(model, marked_folder / "support.json")
    list(detect(model, pack, [marked_folder / "queries" / "1.png"]))
    windows = [image.fit.window for image in shown]
    assert windows[0] == pytest.approx((40.0, 50.0, 251.0, 201.0)) and windows[-1] == pytest.approx(NEAR)
