import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from salvit.cli.data import app
from salvit.data.creatures import write_creatures

runner = CliRunner()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("creatures")
    write_creatures(folder, ("fox", "zebra", "deer"), 12, 0, size_hw=(96, 128))
    return folder


def run(*words):
    return runner.invoke(app, [str(word) for word in words])


def test_check_prints_counts_and_writes_them(root, tmp_path):
    done = run("check", "creatures", "--root", root, "--json", tmp_path / "check.json")
    assert done.exit_code == 0, done.output
    assert "36" in done.output and "species" in done.output
    found = json.loads((tmp_path / "check.json").read_text())
    assert found["records"] == 36 and found["species"] == {"deer": 12, "fox": 12, "zebra": 12}


def test_check_of_a_broken_set_is_an_error_and_of_an_incomplete_one_a_report(root, tmp_path):
    (tmp_path / "cut.json").write_text((root / "annotations.json").read_text()[:200])
    done = run("check", "creatures", "--root", tmp_path / "cut.json")
    assert isinstance(done.exception, ValueError) and "not complete JSON" in str(done.exception)
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "annotations.json").write_text((root / "annotations.json").read_text())
    done = run("check", "creatures", "--root", tmp_path / "alone")
    assert done.exit_code == 0 and "36 × image missing" in done.output


@pytest.mark.parametrize("what", ["keypoints", "augment", "occlusions", "episodes"])
def test_show_draws_a_sheet_and_overwrites_nothing_unasked(root, tmp_path, what):
    out = tmp_path / "sheets" / f"{what}.png"
    words = ("show", "creatures", "--root", root, "--what", what, "--unseen", "zebra", "--num", 2, "--out", out)
    assert run(*words).exit_code == 0 and out.stat().st_size > 1000
    done = run(*words)
    assert isinstance(done.exception, ValueError) and "--overwrite" in str(done.exception)
    assert run(*words, "--overwrite").exit_code == 0


def test_convert_writes_coco(root, tmp_path):
    out = tmp_path / "all.json"
    done = run("convert", "creatures", "--root", root, "--out", out)
    assert done.exit_code == 0 and "36 images, 36 annotations" in done.output
    assert run("check", "coco", "--root", out).exit_code == 0


def test_freezing_twice_prints_the_same_hash(root, tmp_path):
    words = ("freeze", "creatures", "--root", root, "--unseen", "zebra", "--episodes", 3, "--seed", 4, "--out")
    hashes = [run(*words, tmp_path / name).output.splitlines()[-1] for name in ("a.json", "b.json")]
    assert hashes[0] == hashes[1] and hashes[0].startswith("hash ")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_a_list_may_be_cropped_by_saliency(root, tmp_path, monkeypatch):
    monkeypatch.setenv("SALVIT_CACHE", str(tmp_path / "cache"))
    words = ("freeze", "creatures", "--root", root, "--unseen", "zebra", "--episodes", 1, "--crop", "saliency")
    done = run(*words, "--provider", "spectral_residual", "--out", tmp_path / "a.json")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "a.json").read_text())["crop"] == "saliency"


def test_freezing_without_the_unseen_species_says_which_there_are(root, tmp_path):
    done = run("freeze", "creatures", "--root", root, "--out", tmp_path / "a.json")
    assert isinstance(done.exception, ValueError) and "expected one of deer, fox, zebra" in str(done.exception)


def test_nothing_heavy_is_imported_before_a_command_needs_it():
    code = "import sys; import salvit.cli.data; assert not {'torch', 'numpy', 'PIL'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
