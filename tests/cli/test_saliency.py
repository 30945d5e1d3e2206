import json

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file
from typer.testing import CliRunner

from salvit.cli.saliency import app
from salvit.saliency.cache import default_folder

runner = CliRunner()


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SALVIT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images" / "inner"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in ("a.jpg", "b.png"):
        Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(folder / name)
    return folder.parent


def test_a_folder_of_images_gives_a_folder_of_maps(images, tmp_path):
    out = tmp_path / "maps"
    done = runner.invoke(app, [str(images), "--provider", "rbd", "--out", str(out)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*.png")) == ["inner/a.png", "inner/b.png"]
    with Image.open(out / "inner" / "a.png") as saved:
        assert (saved.mode, saved.size) == ("L", (50, 40))


def test_options_may_come_first_and_maps_go_through_the_cache(images, tmp_path):
    args = ["--provider", "spectral_residual", "--out", str(tmp_path / "maps"), str(images / "inner" / "a.jpg")]
    assert runner.invoke(app, args, catch_exceptions=False).exit_code == 0
    assert len(list(default_folder().glob("*.png"))) == 1
    done = runner.invoke(app, ["cache"], catch_exceptions=False)
    assert done.output.startswith("1 maps")
    done = runner.invoke(app, ["cache", "--clear"], catch_exceptions=False)
    assert done.output.startswith("removed 1 maps")
    assert not list(default_folder().glob("*.png"))


def test_a_map_that_is_there_is_not_replaced_unless_asked(images, tmp_path):
    args = [str(images / "inner" / "a.jpg"), "--provider", "none", "--out", str(tmp_path)]
    assert runner.invoke(app, args).exit_code == 0
    with pytest.raises(ValueError, match="--overwrite"):
        runner.invoke(app, args, catch_exceptions=False)
    assert runner.invoke(app, [*args, "--overwrite"]).exit_code == 0


def test_two_images_of_one_name_are_refused(images, tmp_path):
    Image.new("RGB", (5, 5)).save(tmp_path / "a.png")
    args = [
        str(images / "inner" / "a.jpg"),
        str(tmp_path / "a.png"),
        "--provider",
        "none",
        "--out",
        str(tmp_path / "m"),
    ]
    with pytest.raises(ValueError, match="would both give"):
        runner.invoke(app, args, catch_exceptions=False)


def test_a_folder_without_images_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no images"):
        runner.invoke(app, [str(tmp_path / "empty"), "--out", str(tmp_path)], catch_exceptions=False)


def test_preprocessing_changes_the_map(images, tmp_path):
    for name, more in (("plain", []), ("smooth", ["--preprocess"])):
        args = [str(images / "inner" / "a.jpg"), "--provider", "rbd", "--out", str(tmp_path / name), *more]
        runner.invoke(app, args, catch_exceptions=False)
    plain, smooth = (np.asarray(Image.open(tmp_path / name / "a.png")) for name in ("plain", "smooth"))
    assert (plain != smooth).any()


def test_compare_prints_a_table_and_writes_figures_and_a_sheet(tmp_path):
    args = ["compare", "--limit", "2", "--provider", "spectral_residual", "--provider", "rbd"]
    args += ["--json", str(tmp_path / "figures.json"), "--sheet", str(tmp_path / "sheet.jpg")]
    done = runner.invoke(app, args, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "rbd" in done.output
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [one["provider"] for one in figures["figures"]] == ["spectral_residual", "rbd"]
    assert figures["pictures"] == 2
    with Image.open(tmp_path / "sheet.jpg") as sheet:
        assert sheet.size == (180 * 4, 18 + 135 * 2)


def test_compare_leaves_out_what_has_no_weights_here_unless_it_was_named(monkeypatch):
    from salvit.saliency import build_provider

    def build(name, **more):
        if name == "attentiveness":
            raise FileNotFoundError("the weights dinov2-s14 are not here")
        return build_provider("none" if name == "learned" else name, **more)

    monkeypatch.setattr("salvit.saliency.build_provider", build)
    done = runner.invoke(app, ["compare", "--limit", "1"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "attentiveness is left out: the weights dinov2-s14 are not here" in done.output
    assert all(name in done.stdout for name in ("none", "spectral", "rbd", "learned"))
    with pytest.raises(FileNotFoundError, match="dinov2-s14"):
        runner.invoke(app, ["compare", "--limit", "1", "--provider", "attentiveness"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--data", "cub"], "--root"),
        (["--role", "train"], "report or dev"),
        (["--provider", "none", "--sheet", "sheet.jpg"], "`none` has no map to draw"),
    ],
)
def test_compare_refuses_what_it_cannot_do(args, message):
    with pytest.raises(ValueError, match=message):
        runner.invoke(app, ["compare", *args], catch_exceptions=False)


def test_train_does_not_replace_weights_unless_asked(tmp_path):
    (tmp_path / "w.safetensors").write_bytes(b"mine")
    args = [
        "train",
        "--data",
        str(tmp_path),
        "--out",
        str(tmp_path / "w.safetensors"),
        "--work",
        str(tmp_path / "work"),
    ]
    with pytest.raises(ValueError, match="--overwrite"):
        runner.invoke(app, args, catch_exceptions=False)


@pytest.mark.slow
def test_train_makes_a_decoder_from_real_pictures_and_goes_on_where_it_stopped(shared_data, tmp_path):
    out = tmp_path / "w.safetensors"
    args = ["train", "--data", str(shared_data), "--out", str(out), "--work", str(tmp_path / "work"), "--pictures", "8"]
    first = runner.invoke(app, args, catch_exceptions=False)
    assert first.exit_code == 0, first.output
    weights = load_file(out)
    again = runner.invoke(app, [*args, "--overwrite"], catch_exceptions=False)
    assert "round" not in again.output  # all rounds were done
    assert all((values == weights[name]).all() for name, values in load_file(out).items())


def test_a_kept_command_holds_nobodys_own_paths():
    from salvit.cli.saliency import _command

    typed = ["saliency", "compare", "--data", "cub", "--root", "/home/me/birds", "--json", "/tmp/a b.json"]
    assert _command(typed, "cub") == "salvit saliency compare --data cub --root $SALVIT_DATA/cub --json 'a b.json'"
