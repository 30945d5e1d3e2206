from dataclasses import replace

import pytest

from salvit.tables.rows import Ask, Block, Cell, Figure, Group, Line, Model, Table, asks_of, figure_of
from salvit.transductive import TransductiveSettings

COW = Ask(data="animal_pose", unseen="cow")
MODEL = Model("salvit-lite0-swift", "animal_pose-lite0-swift")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "m-animal_pose-cow-1shot"),
        ({"shots": 5}, "m-animal_pose-cow-5shot"),
        ({"data": "cub", "unseen": "val"}, "m-cub-all-1shot"),
        ({"queries": 60}, "m-animal_pose-cow-1shot-60q"),
        ({"queries": 60, "transductive": TransductiveSettings()}, "m-animal_pose-cow-1shot-60q-T"),
        (
            {"queries": 60, "transductive": TransductiveSettings(protocol="paper"), "ways": "both"},
            "m-animal_pose-cow-1shot-60q-T-authors-bothways",
        ),
        (
            {"queries": 60, "first_queries": 15, "transductive": TransductiveSettings(assignment="oracle")},
            "m-animal_pose-cow-1shot-15q-T-oracle",
        ),
        ({"occluder": "grey", "hidden": 50, "kind": "novel"}, "m-animal_pose-cow-1shot-grey50-novel"),
        ({"failure": ("shifted", 0.2)}, "m-animal_pose-cow-1shot-shifted0.2"),
        ({"finetune": 10}, "m-animal_pose-cow-1shot-finetuned10"),
        ({"zoom": True}, "m-animal_pose-cow-1shot-zoom"),
        ({"ways": "both"}, "m-animal_pose-cow-1shot-bothways"),
        ({"ways": "both", "decoding": "gathered"}, "m-animal_pose-cow-1shot-bothways-gathered"),
        ({"ways": "supports"}, "m-animal_pose-cow-1shot-mirrored"),
    ],
)
def test_a_result_file_is_named_by_what_was_asked(changes, name):
    assert replace(COW, **changes).name_for("m") == name


def test_species_that_are_held_back_together_share_their_first_training():
    model = Model("m", "second", ("train.seed=1",), first="first", together=(("cow", "sheep"),))
    assert model.held_back("sheep") == model.held_back("cow") == ("cow", "sheep")
    assert model.first_changes("sheep") == ("train.seed=1", "data.unseen=cow", 'data.dev_species=["sheep"]')
    assert model.held_back("horse") == ("horse",)
    assert model.first_changes("horse") == ("train.seed=1", "data.unseen=horse")


def test_a_data_set_may_have_recipes_of_its_own():
    model = Model("m", "second", first="first", apart=(("cub", "cub-second", "cub-first"),))
    assert (model.on("cub").recipe, model.on("cub").first, model.on("cub").name) == ("cub-second", "cub-first", "m")
    assert model.on("animal_pose") == model


def test_a_figure_is_the_mean_of_its_results_with_the_interval_of_independent_ones(result):
    cell = Cell((COW, replace(COW, unseen="cat")))
    names = [ask.name_for(MODEL.name) for ask in cell.asks]
    found = {names[0]: result(30.0, 0.6), names[1]: result(40.0, 0.8)}
    assert figure_of(cell, MODEL, found) == Figure(35.0, 0.5)  # √(0.6² + 0.8²) / 2
    assert figure_of(cell, MODEL, {names[0]: found[names[0]]}) is None


def test_a_metric_reads_its_own_figure(result):
    found = {COW.name_for(MODEL.name): result(30.0, 0.6, novel=21.0)}
    assert figure_of(Cell((COW,), metric="novel"), MODEL, found) == Figure(21.0, 1.0)
    assert figure_of(Cell((COW,), metric="ne"), MODEL, found) == Figure(0.125, 0.004)


def test_what_is_asked_twice_is_run_once_and_only_what_is_meant_for_this_hardware():
    cells = {"cow": Cell((COW,), is_here=True), "both": Cell((COW, replace(COW, unseen="cat")))}
    table = Table("t", "", "", "", (Block("", ("cow", "both"), (Group((Line("x", MODEL, cells),)),)),))
    assert [ask.unseen for _, ask in asks_of([table, table])] == ["cow"]
    assert [ask.unseen for _, ask in asks_of([table], is_full=True)] == ["cow", "cat"]
