"""What ``salvit train`` and ``salvit compare`` refuse before any work is done."""

import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from salvit.cli import app

RECIPES = Path(__file__).parents[2] / "recipes"
COMPARE = ["compare", str(RECIPES / "animal_pose-compared.toml"), "--root", "absent", "--unseen", "cow"]
TRAIN = ["train", str(RECIPES / "animal_pose-compared.toml"), "--root", "absent"]


def refused(*words, out):
    result = CliRunner().invoke(app, [*words, "--out", str(out)])
    assert isinstance(result.exception, ValueError), result.exception
    assert not out.exists()
    return str(result.exception)


@pytest.mark.parametrize("words", [TRAIN, COMPARE], ids=["train", "compare"])
@pytest.mark.parametrize("module", ["lightning_fabric", "tensorboard"])
def test_without_the_extra_it_says_how_to_install_it(words, module, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    message = refused(*words, out=tmp_path / "run")
    assert f"training needs '{module}'" in message and "pip install 'salvit[train]'" in message


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_a_device_that_is_not_present_is_an_error_that_names_those_that_are(tmp_path):
    assert "'cuda' is not present; present: cpu" in refused(*TRAIN, "--device", "cuda", out=tmp_path / "run")


def test_compare_refuses_a_recipe_of_several_data_sets(tmp_path):
    words = ["compare", str(RECIPES / "lite.toml"), "--root", "absent", "--unseen", "cow"]
    message = refused(*words, out=tmp_path / "run")
    assert "several data sets (animal_pose, cub, creatures)" in message and "without [[also]]" in message
