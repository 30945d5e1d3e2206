"""The comparison: one recipe, one list, one table."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from salvit.baselines.build import METHODS, build_method
from salvit.baselines.comparison import COMPARED, ROWS, encode_by_all, paper_figure, recipe_of, table_of
from salvit.baselines.match import Match
from salvit.cli import app
from salvit.geometry import fit_square
from salvit.model.settings import preset
from salvit.recipes import read_recipe, recipe_from_table
from salvit.suites import Case
from salvit.tables.main import changes_of
from salvit.tables.paper import COST
from salvit.types import FittedImage

ROOT = Path(__file__).parents[2]
RECIPE = """
[data]
name = "creatures"
dev_species = ["deer"]
[model]
preset = "salvit-lite0"
width = "light"
saliency = "rbd"
input_size = 96
[model.head]
channels = 16
[train]
episodes = 2
views = 1
dev_every = 2
dev_episodes = 1
"""


@pytest.fixture(scope="module")
def ground(drawn):
    (drawn / "recipe.toml").write_text(RECIPE)
    return drawn


def compare(ground, *more):
    words = ["compare", ground / "recipe.toml", "--root", ground / "data", "--out", ground / "out", "--unseen",
             "giraffe", "--shots", 1, "--shots", 2, "--device", "cpu", "--threads", 1, *more]  # fmt: skip
    return CliRunner().invoke(app, [str(word) for word in words])


def test_methods_are_trained_once_and_scored_on_one_list_with_every_number_of_shots(ground, monkeypatch):
    monkeypatch.setenv("SALVIT_CACHE", str(ground / "cache"))
    chosen = [word for name in ("match", "protonet", "salvit") for word in ("--method", name)]
    done = compare(ground, "--episodes", 1, *chosen)
    assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"
    rows = json.loads((ground / "out" / "compared.json").read_text())["rows"]
    assert [(row["labels"]["method"], row["labels"]["shots"]) for row in rows] == [
        (name, shots) for name in ("match", "protonet", "salvit") for shots in (1, 2)
    ]
    assert len({row["result"]["list_hash"] for row in rows if row["result"]["shots"] == 1}) == 1, "the same episodes"
    sizes = {row["labels"]["method"]: row["result"]["trained_parameters"] for row in rows}
    assert sizes["match"] == 0 < sizes["protonet"] < sizes["salvit"]
    assert all(row["result"]["command"].startswith("salvit compare recipes/recipe.toml") for row in rows)
    made = (ground / "out" / "giraffe" / "protonet" / "last.safetensors").stat().st_mtime_ns
    again = compare(ground, "--episodes", 1, *chosen)
    assert again.exit_code == 0 and "| `protonet` |" in again.output
    assert (ground / "out" / "giraffe" / "protonet" / "last.safetensors").stat().st_mtime_ns == made, "not trained anew"
    other = compare(ground, "--episodes", 2, *chosen)
    assert isinstance(other.exception, ValueError) and "was drawn with" in str(other.exception)


def test_an_unknown_method_is_refused_before_anything_is_trained(ground):
    done = compare(ground, "--method", "protnet")
    assert isinstance(done.exception, ValueError) and "known: match, protonet" in str(done.exception)


def test_a_recipe_changes_in_the_method_and_the_unseen_species_alone():
    recipe = recipe_from_table({"model": {"preset": "salvit-lite0", "method": "fskd", "reweight": True}})
    assert recipe_of(recipe, "fskd", "cow").model == recipe.model
    made = recipe_of(recipe, "salvit", "cow")
    assert (made.model.method, made.model.reweight, made.data.unseen) == ("salvit", False, "cow")
    assert made.train == recipe.train and made.model.head == recipe.model.head


def test_what_only_salvit_can_have_the_others_go_without():
    recipe = recipe_from_table(
        {
            "model": {"preset": "salvit-lite0", "width": "swift", "encoder": {"keeps_raw": True}},
            "train": {"all_ways": True, "learning_rate": 1.5e-3},
        }
    )
    assert recipe_of(recipe, "salvit", "cow").train.all_ways
    assert recipe_of(recipe, "salvit", "cow").model == recipe.model
    made = recipe_of(recipe, "fskd", "cow")
    assert (made.model.head.kind, made.model.head.channels, made.model.encoder.keeps_raw) == ("spatial", 64, False)
    assert made.train == replace(recipe.train, all_ways=False)
    random, ours = recipe_of(recipe, "fskd_random", "cow"), recipe_of(recipe, "salvit_as_others", "cow")
    assert random.model == made.model and random.train == replace(made.train, auxiliary="random")
    assert ours == replace(made, model=replace(made.model, method="salvit"))


@pytest.mark.parametrize("name", [name for name in COMPARED if name != "match"])
def test_a_line_of_the_table_would_train_what_the_comparison_trains(name):
    path = ROOT / "recipes" / "animal_pose-compared.toml"
    changes = ["data.unseen=cow", *changes_of(name)]
    assert read_recipe(path, changes) == recipe_of(read_recipe(path), name, "cow")


def test_encoding_together_gives_what_each_gives_alone():
    settings = replace(preset("salvit-lite0", "light"), input_size=96)
    names = ("protonet", "fskd", "salvit")
    detectors = [build_method(replace(settings, method=name), None) for name in names]
    for detector in detectors[1:]:
        detector.backbone.load_state_dict(detectors[0].backbone.state_dict())
    detectors.append(Match(detectors[0].backbone, 96))
    generator = np.random.default_rng(0)
    images = [
        FittedImage(
            generator.integers(0, 256, (96, 96, 3), dtype=np.uint8),
            fit_square((0, 0, 96, 96), 96),
            str(number),
            generator.random((96, 96), dtype=np.float32),
        )
        for number in range(2)
    ]
    runs = []
    detectors[0].backbone.register_forward_hook(lambda *_: runs.append("first"))
    detectors[1].backbone.register_forward_hook(lambda *_: runs.append("second"))
    together = list(encode_by_all(detectors, images))
    assert runs == ["first"], "once for all"
    for detector, encoded in zip(detectors, together, strict=True):
        alone = detector.encode(images)
        torch.testing.assert_close(encoded.features, alone.features)
        assert encoded.fits == alone.fits and (encoded.saliency is None) == (alone.saliency is None)


def test_the_papers_figures_are_those_of_its_main_table():
    assert paper_figure("protonet", "cow", 1) == 20.37
    assert paper_figure("fskd", "cat", 5) == 61.33
    assert paper_figure("maml", "cow", 1) is None and paper_figure("protonet", "giraffe", 1) is None
    assert paper_figure("fskd_random", "cow", 1) == 42.07 and paper_figure("salvit_as_others", "cow", 1) is None
    assert set(COMPARED) == {"match", "salvit", *METHODS, "fskd_random", "salvit_as_others"}
    assert set(ROWS.values()) <= set(COST)


def test_the_table_has_size_time_and_the_papers_figure_beside_ours():
    result = {
        "harmonic": 23.44,
        "ci95": 1.26,
        "data": "animal_pose",
        "episodes": {"novel": 300, "base": 300},
        "hardware": "a machine",
        "timing": {"ms_per_query": 7.4},
        "trained_parameters": 83_136,
    }
    labels = {"method": "protonet", "shots": 1.0, "unseen": "cow"}
    later = {**result, "harmonic": 30.0, "ci95": 1.0, "timing": {"ms_per_query": 9.6}}
    table = table_of([Case(labels, result), Case({**labels, "shots": 5.0}, later)]).splitlines()
    assert table[0] == "| method | parameters trained (M) | paper (M) | ms a query | cow, 1-shot | cow, 5-shot |"
    assert table[2] == "| `protonet` | 0.08 | 19.0 | 7 (3.4) / 10 (4.6) | 23.4 ± 1.3 (20.4) | 30.0 ± 1.0 (30.3) |"
    assert "300 novel, 300 base episodes" in table[4]
