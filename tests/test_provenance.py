from pathlib import Path

import pytest
import torch

from salvit.checkpoint import load_checkpoint, save_checkpoint
from salvit.data.creatures import write_creatures
from salvit.data.episodes import EpisodeSettings
from salvit.data.frozen import freeze, read_frozen, write_frozen
from salvit.data.splits import open_problem
from salvit.evaluate import part_of_list
from salvit.provenance import calibration_command, evaluation_command, going_on, training_command
from salvit.recipes import DataSettings, Recipe
from salvit.transductive import TransductiveSettings


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("provenance")
    write_creatures(folder / "data", ("fox", "deer"), 7, 0, size_hw=(60, 80))
    problem = open_problem("creatures", folder / "data", "deer")
    write_frozen(freeze(problem, EpisodeSettings(queries=5), episodes=2, seed=3), folder / "list.json")
    return read_frozen(folder / "list.json", problem, purpose="report")


def test_a_training_command_names_recipe_data_and_changes_and_no_ones_own_paths():
    recipe = Recipe(data=DataSettings(name="cub", unseen="val"))
    made = training_command(Path("/home/me/recipes/x.toml"), recipe, ["cub"], ["train.seed=1", "data.unseen=a b"])
    assert made == (
        "salvit train recipes/x.toml --root $SALVIT_DATA/cub --out run --set train.seed=1 --set 'data.unseen=a b'"
    )
    begun = training_command(Path("x.toml"), recipe, ["cub"], start="/home/me/first.safetensors")
    assert begun == "salvit train recipes/x.toml --root $SALVIT_DATA/cub --out run --start first.safetensors"


def test_a_training_that_goes_on_from_another_says_both_and_keeps_their_folders_apart():
    recipe = Recipe(data=DataSettings(name="cub", unseen="val"))
    second = training_command(Path("y.toml"), recipe, [], start="/home/me/one/last.safetensors")
    assert second == "salvit train recipes/y.toml --out run --start first/last.safetensors"
    made = going_on("salvit train recipes/x.toml --out run", Path("/home/me/one/last.safetensors"), second)
    assert made == f"salvit train recipes/x.toml --out first && {second}"
    kept = "salvit train recipes/x.toml --out run && salvit calibrate run/best.safetensors --out lite.safetensors"
    assert going_on(kept, Path("lite.safetensors"), "salvit train z") == f"{kept} && salvit train z"
    assert going_on("", Path("last.safetensors"), "salvit train z") == "salvit train z"


def test_several_data_sets_are_told_apart_and_drawn_ones_have_no_folder():
    recipe = Recipe(data=DataSettings(name="cub"), also=(DataSettings(name="creatures"),))
    assert "--root cub=$SALVIT_DATA/cub --out run" in training_command(Path("x.toml"), recipe, ["cub"])


def test_a_checkpoint_keeps_the_command_and_an_older_one_has_none(tmp_path):
    save_checkpoint(tmp_path / "a.safetensors", Recipe(), {"x": torch.zeros(1)}, {}, {}, "salvit train x")
    save_checkpoint(tmp_path / "b.safetensors", Recipe(), {"x": torch.zeros(1)}, {}, {})
    assert load_checkpoint(tmp_path / "a.safetensors").command == "salvit train x"
    assert load_checkpoint(tmp_path / "b.safetensors").command == ""


def test_the_command_of_a_trained_model_begins_with_its_training(listed, tmp_path):
    path = tmp_path / "best.safetensors"
    save_checkpoint(path, Recipe(), {"x": torch.zeros(1)}, {}, {}, "salvit train recipes/x.toml --out run")
    train, freeze_, evaluate = evaluation_command(listed, str(path)).split(" && ")
    assert train == "salvit train recipes/x.toml --out run"
    assert freeze_.endswith("--shots 1 --queries 5 --crop gt-random --episodes 2 --seed 3 --out list.json")
    assert "--model run/best.safetensors " in evaluate and str(tmp_path) not in evaluate


def test_the_command_of_an_untrained_model_has_no_training(listed):
    first, second = evaluation_command(listed, "match:lite0").split(" && ")
    assert first.startswith("salvit data freeze creatures") and "--model match:lite0 " in second


def test_pictures_that_are_mirrored_too_are_in_the_command(listed):
    assert " --ways both " in evaluation_command(listed, "match", ways="both")
    assert "--ways" not in evaluation_command(listed, "match")
    assert " --decoding gathered " in evaluation_command(listed, "lite", decoding="gathered")
    assert "--decoding" not in evaluation_command(listed, "match")


def test_a_part_of_a_list_and_transduction_are_in_the_command(listed):
    part = part_of_list(listed, queries=4, kind="novel")
    made = evaluation_command(part, "match", transductive=TransductiveSettings(eta=2))
    assert "--queries 5 --crop" in made and "--queries 4 --kind novel --transductive" in made and "--eta 2" in made


def test_a_calibrated_checkpoint_knows_both_commands():
    told = calibration_command(
        "salvit train recipes/x.toml --out run", Path("/a/best.safetensors"), ["cub"], 9, Path("c")
    )
    assert told == (
        "salvit train recipes/x.toml --out run && salvit calibrate run/best.safetensors --root $SALVIT_DATA/cub "
        "--episodes 9 --out run/c"
    )
    assert calibration_command("", Path("x"), [], 9, Path("c")) == ""
    both = calibration_command("train", Path("x"), ["cub", "animal_pose"], 9, Path("c"))
    assert "--root cub=$SALVIT_DATA/cub --root animal_pose=$SALVIT_DATA/animal_pose" in both
