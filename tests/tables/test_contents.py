import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from salvit.recipes import read_recipe
from salvit.tables.commands import lines_of, training_of
from salvit.tables.contents import TABLES, find_tables
from salvit.tables.rows import asks_of

RECIPES = Path(__file__).parent.parent.parent / "recipes"
LINES = [line for table in TABLES for line in lines_of(table) if line.model.recipe]
NAMES = sorted({line.model.recipe for line in LINES})


def test_every_line_has_a_recipe_and_every_recipe_that_is_named_for_a_table_has_a_line():
    found = {path.stem for path in RECIPES.glob("*.toml")}
    named = {name for name in found if name.partition("-")[0] in {table.name for table in TABLES}}
    assert set(NAMES) <= found and len(named) > 60 and named <= set(NAMES)


@pytest.mark.slow
def test_the_model_of_every_recipe_can_be_built():
    import torch

    from salvit.baselines.build import build_method
    from salvit.masked_views import check_masking

    for name in NAMES:
        recipe = read_recipe(RECIPES / f"{name}.toml")
        with torch.device("meta"):
            model = build_method(recipe.model, None)
        check_masking(model, recipe.train.masking)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_loads_and_its_header_says_command_hardware_hours_and_expected_figures(name):
    read_recipe(RECIPES / f"{name}.toml")
    header = (RECIPES / f"{name}.toml").read_text().split("\n\n")[0]
    assert all(line.startswith("#") for line in header.splitlines())
    assert re.search(rf"# command   salvit \w+ recipes/{re.escape(name)}\.toml", header) and "# hardware " in header
    assert "# hours " in header and "# expected " in header


def test_settings_are_stated_once():
    bodies = {}
    for name in NAMES:
        text = (RECIPES / f"{name}.toml").read_text()
        body = text.split("\n\n", 1)[1]
        assert body not in bodies, f"{name} says the same as {bodies.get(body)}"
        bodies[body] = name


def recipe_of(command):
    words = shlex.split(command)
    changes = [value for option, value in pairwise(words) if option == "--set"]
    return read_recipe(RECIPES / Path(words[2]).name, changes)


def test_the_training_command_of_every_line_is_a_recipe_that_loads_with_its_changes():
    for line in LINES:
        for ask in {ask.unseen: ask for cell in line.cells.values() for ask in cell.asks}.values():
            *first, last = training_of(line.model, ask).split(" && ")
            recipe = recipe_of(last)
            assert (recipe.data.name, recipe.data.unseen) == (ask.data, ask.unseen)
            for before in map(recipe_of, first):
                assert before.data.name == ask.data and before.train.dev_every == 0
                assert ask.unseen in (before.data.unseen, *before.data.dev_species)


def test_one_name_is_one_model_and_one_evaluation():
    models, asks = {}, {}
    for line in (line for table in TABLES for line in lines_of(table)):
        assert models.setdefault(line.model.name, line.model) == line.model
        for ask in (ask for cell in line.cells.values() for ask in cell.asks):
            assert asks.setdefault(ask.name_for(line.model.name), ask) == ask


def test_what_is_meant_for_this_hardware_is_small_and_has_its_data():
    for model, ask in asks_of(find_tables([])):
        assert ask.data in ("animal_pose", "cub")
        if model.recipe:
            assert read_recipe(RECIPES / f"{model.recipe}.toml").model.head.kind in ("spatial", "dynamic")


def test_tables_are_found_by_name_and_an_unknown_name_lists_the_known():
    assert [table.name for table in find_tables(["ablation", "priors", "main"])] == ["ablation", "main"]
    assert "toy" not in [table.name for table in find_tables([])]
    with pytest.raises(ValueError, match=r"unknown table 'first'; known: main, .*, cost"):
        find_tables(["first"])
