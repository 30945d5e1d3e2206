from pathlib import Path

import numpy as np
import pytest

from salvit.formats.to_supervision import to_supervision
from salvit.types import Detection

supervision = pytest.importorskip("supervision", reason="supervision comes with the extra 'formats'")


def found(path="a.jpg", shift=0.0):
    return Detection(
        path=Path(path),
        image_hw=(100, 200),
        names=("nose", "tail"),
        points=np.array([[10.5, 20.25], [30.0, 40.0]]) + shift,
        scores=np.array([0.9, 0.2]),
        presence=np.array([0.8, 0.1]),
        covariances=np.stack([np.eye(2), 4 * np.eye(2)]),
        located=np.array([True, False]),
    )


def test_objects_of_one_picture_become_one_keypoints_object():
    points = to_supervision([found(), found(shift=5.0)])
    assert isinstance(points, supervision.KeyPoints) and points.xy.shape == (2, 2, 2)
    assert np.allclose(points.xy[1, 0], [15.5, 25.25]) and points.visible.tolist() == [[True, False]] * 2
    assert np.allclose(points.keypoint_confidence, [[0.9, 0.0]] * 2)
    assert np.allclose(points.detection_confidence, 0.9)


def test_its_ellipse_annotator_draws_the_covariances():
    scene = np.zeros((100, 200, 3), dtype=np.uint8)
    drawn = supervision.VertexEllipseAreaAnnotator().annotate(scene.copy(), to_supervision([found()]))
    assert (drawn != scene).any()


def test_nothing_found_is_an_empty_object_and_two_pictures_are_an_error():
    assert to_supervision([]).is_empty()
    with pytest.raises(ValueError, match="one picture"):
        to_supervision([found(), found("b.jpg")])
