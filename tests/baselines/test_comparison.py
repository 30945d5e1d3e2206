"""The comparison: one recipe, one list, one table."""

import json

import pytest
from typer.testing import CliRunner

from salvit.baselines.build import METHODS
from salvit.baselines.comparison import COMPARED, paper_figure, recipe_of, table_of
from salvit.baselines.describe import PAPER_NAMES
from salvit.cli import app
from salvit.recipes import recipe_from_table
from salvit.suites import Case
from salvit.tables.paper import COST

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


def test_the_papers_figures_are_those_of_its_main_table():
    assert paper_figure("protonet", "cow", 1) == 20.37
    assert paper_figure("fskd", "cat", 5) == 61.33
    assert paper_figure("maml", "cow", 1) is None and paper_figure("protonet", "giraffe", 1) is None
    assert set(COMPARED) == {"match", "salvit", *METHODS}
    assert set(PAPER_NAMES.values()) <= set(COST)


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
    assert table[2] == "| `protonet` | 0.08 | 19.0 | 7 (3.4) / 10 (4.6) | 23.4 ± 1.3 (20.4) | 30.0 ± 1.0 (30.2) |"
    assert "300 novel, 300 base episodes" in table[4]
