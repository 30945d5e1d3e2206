import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from salvit.cli import app
from salvit.demo import far
from salvit.demo.far import Kind, Picture, find_picture, read_kinds, turned, write_tasks


def test_every_mark_lies_in_its_picture_and_every_picture_has_its_credit():
    kinds = read_kinds()
    assert {"face", "garment", "motorcycle", "cup", "tripod", "butterfly"} == {kind.name for kind in kinds}
    for picture in (picture for kind in kinds for picture in (kind.support, kind.query) if picture is not None):
        assert picture.credit
        path = find_picture(picture.source)
        if path is not None:
            points = np.array(picture.points)
            assert (points >= 0).all() and (points < Image.open(path).size).all()


def test_points_are_turned_with_their_picture():
    pixels = np.zeros((60, 90, 3), dtype=np.uint8)
    pixels[18:23, 68:73] = 255  # about (70, 20)
    image, points = turned(Image.fromarray(pixels), np.array([[70.0, 20.0]]))
    bright = np.argwhere(np.asarray(image)[..., 0] > 128)[:, ::-1].mean(0)
    assert np.abs(points[0] - bright).max() < 0.7


def test_a_kind_without_its_picture_is_left_out_and_named(tmp_path):
    tasks, missing = write_tasks(tmp_path / "out")
    assert "butterfly" not in [task.kind.name for task in tasks]
    assert any(sentence.startswith("butterfly is left out: butterfly.jpg is not here") for sentence in missing)
    assert find_picture("no_such_package:a.png") is None
    Image.new("RGB", (500, 400)).save(tmp_path / "butterfly.jpg")
    assert "butterfly" in [task.kind.name for task in write_tasks(tmp_path / "out", tmp_path)[0]]


def test_names_and_points_must_agree():
    with pytest.raises(ValueError, match="2 names, but 1 points"):
        Kind(name="k", names=("a", "b"), support=Picture(source="skimage:x", credit="c", points=((1.0, 2.0),)))


def test_the_command_draws_a_sheet_and_writes_support_files_that_detect_can_read(tmp_path, monkeypatch):
    cup = next(kind for kind in read_kinds() if kind.name == "cup")
    monkeypatch.setattr(far, "read_kinds", lambda: (cup,))
    result = CliRunner().invoke(app, ["demo", str(tmp_path), "--far", "--model", "match"])
    assert result.exit_code == 0, result.exception
    assert "of 5 points, same picture turned" in result.output and "match:lite0" in result.output
    assert Image.open(tmp_path / "far.jpg").size == (3 * 480, 420)
    truth = json.loads((tmp_path / "cup-query.json").read_text())
    assert truth["annotations"][0]["num_keypoints"] == 5
    words = ["detect", "--support", str(tmp_path / "cup-support.json"), "--query", str(tmp_path / "cup-query.png")]
    assert CliRunner().invoke(app, [*words, "--model", "match"]).exit_code == 0


def test_without_any_picture_the_command_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(far, "find_picture", lambda *_: None)
    result = CliRunner().invoke(app, ["demo", str(tmp_path / "none"), "--far"])
    assert isinstance(result.exception, ValueError) and "install scikit-image" in str(result.exception)


def test_pictures_without_far_are_refused(tmp_path):
    result = CliRunner().invoke(app, ["demo", str(tmp_path / "out"), "--pictures", str(tmp_path)])
    assert isinstance(result.exception, ValueError) and "add --far" in str(result.exception)
    assert not (tmp_path / "out").exists()
