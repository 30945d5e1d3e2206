"""Files that are searched together: the usual results in the usual order, but for what pictures teach each other."""

import numpy as np
import pytest

from salvit.predict import detect, learn
from salvit.together import detect_together
from salvit.transductive import TransductiveSettings
from salvit.types import Detection, Failure


def files(folder):
    return sorted((folder / "queries").glob("*.png"))


def test_kappa_one_finds_what_the_usual_road_finds(match, marked_folder):
    pack = learn(match, marked_folder / "support.json")
    usual = list(detect(match, pack, files(marked_folder), batch=2))
    together = detect_together(match, pack, files(marked_folder), batch=2, settings=TransductiveSettings(kappa=1.0))
    for one, other in zip(usual, together, strict=True):
        assert one.path == other.path and one.names == other.names and one.image_hw == other.image_hw
        assert np.abs(one.points - other.points).max() < 1.0  # features were kept in float16
        assert np.allclose(one.scores, other.scores, atol=1e-3) and np.array_equal(one.located, other.located)


def test_pictures_help_each_other_and_a_broken_one_harms_none(match, marked_folder):
    pack = learn(match, marked_folder / "support.json")
    broken = marked_folder / "queries" / "0.png"
    broken.write_bytes(b"no picture")
    found = list(detect_together(match, pack, files(marked_folder), settings=TransductiveSettings(eta=2)))
    assert isinstance(found[0], Failure) and found[0].path == broken
    assert [type(item) for item in found[1:]] == [Detection] * 3
    truth = np.array([(60.0, 80.0), (250.0, 150.0), (120.0, 200.0)])
    for item in found[1:]:
        assert np.linalg.norm(item.points - truth, axis=1).max() < 25


def test_a_folder_without_any_readable_picture_is_no_error(match, marked_folder):
    pack = learn(match, marked_folder / "support.json")
    broken = marked_folder / "broken.png"
    broken.write_bytes(b"no picture")
    (only,) = detect_together(match, pack, [broken])
    assert isinstance(only, Failure)
    with pytest.raises(ValueError, match="not mirrored"):
        list(detect_together(match, pack, [broken], flip=True))


def test_the_command_line_searches_together(marked_folder):
    from typer.testing import CliRunner

    from salvit.cli import app

    common = ["detect", "--support", str(marked_folder / "support.json"), "--query", str(marked_folder / "queries")]
    out = marked_folder / "found.json"
    done = CliRunner().invoke(app, [*common, "--transductive", "--out", str(out), "--device", "cpu"])
    assert done.exit_code == 0 and out.is_file(), done.output
    wrong = CliRunner().invoke(app, [*common, "--transductive", "--flip"])
    assert wrong.exit_code == 1 and "it goes without --flip, --resume and --zoom" in str(wrong.exception)
