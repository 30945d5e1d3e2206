"""Marked pictures that every format must give back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from salvit.data.support import MarkedImage, Support

NAMES = ("nose", "left_eye", "right_eye")


def assert_same(one: Support, other: Support, *, has_boxes: bool = True, within: float = 1e-6) -> None:
    """The same pictures, names, marks and points; boxes and scores where the format keeps them."""
    assert not other.problems, other.problems
    assert set(one.names) == set(other.names)
    key = lambda marked: (marked.path.name, tuple(marked.points[marked.marked][0].round(2)))  # noqa: E731
    for first, second in zip(sorted(one.images, key=key), sorted(other.images, key=key), strict=True):
        assert first.path.name == second.path.name and second.path.is_file()
        assert first.path.read_bytes() == second.path.read_bytes()
        order = [second.names.index(name) for name in first.names]
        assert np.array_equal(first.marked, second.marked[order])
        assert np.abs(first.points - second.points[order])[first.marked].max() < within
        if first.box is not None and has_boxes:
            assert second.box == pytest.approx(first.box, abs=1e-4)


@pytest.fixture(name="assert_same")
def _assert_same():
    return assert_same


@pytest.fixture
def marks(tmp_path: Path) -> Support:
    """Two pictures of different sizes; the second has a keypoint less. Points lie between pixels."""
    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name, size in (("a b.png", (64, 48)), ("c.png", (50, 70))):
        Image.fromarray(rng.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)).save(folder / name)
    first = np.array([[0.0, 0.0], [10.25, 20.75], [63.0, 47.0]])
    second = np.array([[12.1, 60.7], [0.0, 0.0], [33.3, 9.9]])
    return Support(
        (
            MarkedImage(folder / "a b.png", NAMES, first, np.array([True, True, True]), (0.0, 0.0, 64.0, 48.0)),
            MarkedImage(folder / "c.png", NAMES, second, np.array([True, False, True]), (5.0, 4.0, 40.0, 66.0)),
        ),
        skeleton=(("nose", "left_eye"), ("nose", "right_eye")),
        pairs=(("left_eye", "right_eye"),),
    )


@pytest.fixture
def herd(marks: Support) -> Support:
    """Two objects in the first picture."""
    first = marks.images[0]
    other = replace(first, points=first.points + 0.5, marked=np.array([True, True, False]), box=(1.0, 2.0, 30.0, 40.0))
    return replace(marks, images=(first, other, marks.images[1]))


@pytest.fixture
def scored(marks: Support) -> Support:
    """As a detector would mark them."""
    scores = (np.array([0.9, 0.5, 0.25]), np.array([0.75, 0.0, 0.125]))
    images = tuple(replace(marked, scores=score) for marked, score in zip(marks.images, scores, strict=True))
    return replace(marks, images=images)
