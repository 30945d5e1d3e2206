from pathlib import Path

import numpy as np
from PIL import Image

from salvit.data.images import fit_image
from salvit.draw import draw_comparison, draw_detection, draw_points, ellipse_outline, palette
from salvit.types import Detection, Example


def test_an_ellipse_of_two_sigma_is_worked_by_hand():
    outline = ellipse_outline(np.array([10.0, 20.0]), np.diag([4.0, 1.0]), sigmas=2.0, count=360)
    assert np.allclose(outline.min(0), [6, 18], atol=1e-3) and np.allclose(outline.max(0), [14, 22], atol=1e-3)
    inverse = np.linalg.inv(np.array([[3.0, 1.0], [1.0, 2.0]]))
    tilted = ellipse_outline(np.zeros(2), np.array([[3.0, 1.0], [1.0, 2.0]]), sigmas=2.0)
    assert np.allclose(np.einsum("ni,ij,nj->n", tilted, inverse, tilted), 4.0)


def test_colours_differ():
    assert len(set(palette(20))) == 20


def detection(located):
    return Detection(
        path=Path("a.jpg"),
        image_hw=(480, 640),
        names=("nose", "tail"),
        points=np.array([[100.0, 120.0], [500.0, 300.0]]),
        scores=np.ones(2),
        presence=np.ones(2),
        covariances=np.stack([100.0 * np.eye(2)] * 2),
        located=np.array(located),
    )


def test_a_cross_is_drawn_where_the_point_is_and_the_picture_is_not_changed():
    image = Image.new("RGB", (640, 480), "white")
    drawn = draw_detection(image, detection([True, True]))
    assert drawn.size == (640, 480) and np.asarray(image).min() == 255
    for x, y in ((100, 120), (500, 300)):
        assert np.asarray(drawn)[y - 2 : y + 3, x - 2 : x + 3].mean() < 230


def test_what_is_not_located_is_not_drawn():
    drawn = draw_detection(Image.new("RGB", (640, 480), "white"), detection([False, False]))
    assert np.asarray(drawn).min() == 255


def test_the_support_stands_in_a_corner_that_hides_no_point():
    example = Example(
        fit_image(Image.new("RGB", (64, 64), "red"), 64), ("nose",), np.array([[5.0, 5.0]]), np.array([True])
    )
    drawn = np.asarray(draw_detection(Image.new("RGB", (640, 480), "white"), detection([True, True]), example))
    corners = [drawn[40, 40], drawn[40, -40], drawn[-40, 40], drawn[-40, -40]]
    assert [tuple(corner) == (255, 0, 0) for corner in corners].count(True) == 1
    assert tuple(corners[0]) != (255, 0, 0)  # the nose is there


def test_small_and_large_pictures_are_drawn_at_a_legible_size():
    assert max(draw_points(Image.new("RGB", (30, 20)), np.array([[3.0, 4.0]]), np.array([True]), ["nose"]).size) == 640
    assert max(draw_points(Image.new("RGB", (4000, 1000)), np.array([[3.0, 4.0]]), np.array([True])).size) == 1280


def test_a_comparison_has_a_dot_at_the_truth_a_cross_where_it_was_found_and_a_line_between():
    image = Image.new("RGB", (300, 300), "white")
    truth, found = np.array([[60.0, 200.0]]), np.array([[240.0, 200.0]])
    outline = ellipse_outline(found[0], np.diag([100.0, 100.0]), sigmas=2.0)[None]
    drawn = np.asarray(draw_comparison(image, truth, found, outline, [(230, 159, 0)])).astype(int)
    assert drawn.shape == (300, 300, 3) and np.asarray(image).min() == 255
    for x in (60, 150, 240):  # the dot, the middle of the line, the cross
        assert np.abs(drawn[200, x] - (230, 159, 0)).max() < 25
    assert (drawn[180, 240] < 255).any()  # the ellipse
    assert (drawn[:150] == 255).all() and (drawn[:, :50] == 255).all()


def test_the_support_of_a_comparison_is_as_large_as_was_asked_for():
    nothing = np.zeros((0, 2))
    small = Image.new("RGB", (50, 50), "red")
    drawn = draw_comparison(Image.new("RGB", (300, 300)), nothing, nothing, np.zeros((0, 48, 2)), [], small, corner=0.5)
    reds = (np.asarray(drawn) == (255, 0, 0)).all(-1)
    assert reds.any(0).sum() == reds.any(1).sum() == 150
