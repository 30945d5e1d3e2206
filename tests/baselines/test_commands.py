"""Every compared method through the commands: trained by ``salvit train``, scored by ``salvit evaluate``."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from salvit.baselines.build import METHODS
from salvit.cli import app
from salvit.predict import load

RECIPE = """
[data]
name = "creatures"
unseen = "giraffe"
dev_species = ["deer"]
[model]
preset = "salvit-lite0"
width = "{width}"
method = "{method}"
saliency = "rbd"
reweight = true
input_size = 96
[model.encoder]
feature_channels = 32
[model.head]
channels = 16
descriptor_channels = 16
scales = [4, 6]
[train]
episodes = 4
views = 1
dev_every = 2
dev_episodes = 1
learning_rate = 1e-3
"""


@pytest.fixture(scope="module")
def ground(drawn):
    """The data with a frozen list of two episodes."""
    run("data", "freeze", "creatures", "--root", drawn / "data", "--unseen", "giraffe", "--episodes", 1, "--shots", 2,
        "--queries", 3, "--out", drawn / "list.json")  # fmt: skip
    return drawn


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"
    return done.output


@pytest.mark.parametrize("width", ["light", "paper"])
@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_trained_and_scored_by_the_commands(method, width, ground, tmp_path, monkeypatch):
    monkeypatch.setenv("SALVIT_CACHE", str(ground / "cache"))
    recipe, runs = tmp_path / "recipe.toml", tmp_path / "run"
    recipe.write_text(RECIPE.format(method=method, width=width))
    run("train", recipe, "--root", ground / "data", "--out", runs, "--device", "cpu", "--threads", 1)
    rows = [json.loads(line) for line in (runs / "log.jsonl").read_text().splitlines()]
    assert len(rows) == 4 and all(np.isfinite(row["loss"]) for row in rows)
    assert rows[3]["dev"]["harmonic"] >= 0
    model = runs / "last.safetensors"
    assert load(str(model), device="cpu").name == f"{method}:lite0"
    run("evaluate", "--data", "creatures", "--root", ground / "data", "--unseen", "giraffe", "--list",
        ground / "list.json", "--model", model, "--out", tmp_path / "p.jsonl", "--result", tmp_path / "r.json",
        "--device", "cpu")  # fmt: skip
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["model"] == f"{method}:lite0" and result["episodes"] == {"novel": 1, "base": 1}
    assert 0 <= result["harmonic"] <= 100 and np.isfinite(result["calibration"]["nll"])
