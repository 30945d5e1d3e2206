import pytest

from salvit.model.settings import preset
from salvit.recipes import Recipe, read_recipe, recipe_from_table, recipe_to_table


def write(folder, name, text):
    (folder / name).write_text(text)
    return folder / name


def test_the_defaults_are_the_papers(tmp_path):
    recipe = read_recipe(write(tmp_path, "r.toml", ""))
    assert recipe == Recipe() and recipe.train.episodes == 40_000 and recipe.train.learning_rate == 1e-4
    assert recipe.model == preset("salvit-resnet50")


def test_a_recipe_states_only_its_difference(tmp_path):
    write(tmp_path, "base.toml", '[model]\npreset = "salvit-dinov2"\nwidth = "narrow"\n[train]\nepisodes = 100\n')
    path = write(tmp_path, "r.toml", 'extends = "base.toml"\n[model.attention]\nbeta = 2\n[train]\nseed = 3\n')
    recipe = read_recipe(path, ["train.episodes=50", "data.unseen=cow", "model.head.scales=[8, 16]"])
    assert (recipe.train.episodes, recipe.train.seed, recipe.data.unseen) == (50, 3, "cow")
    assert recipe.model.attention.beta == 2.0 and recipe.model.head.scales == (8, 16)
    assert recipe.model.backbone == preset("salvit-dinov2", "narrow").backbone


def test_settings_survive_a_checkpoints_way_of_keeping_them(tmp_path):
    recipe = read_recipe(write(tmp_path, "r.toml", '[model]\npreset = "salvit-lite0"\n[data]\nunseen = "cat"\n'))
    assert recipe_from_table(recipe_to_table(recipe)) == recipe


def test_further_data_sets_survive_too(tmp_path):
    recipe = read_recipe(write(tmp_path, "r.toml", '[[also]]\nname = "cub"\nweight = 2.0\naugment.flip = 0.1\n'))
    assert [data.name for data in recipe.datasets] == ["animal_pose", "cub"]
    assert recipe_from_table(recipe_to_table(recipe)) == recipe and recipe.also[0].augment.flip == 0.1


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        ("[train]\nepisode = 5\n", [], r"unknown setting 'train\.episode'"),
        ("[trains]\n", [], "unknown setting 'trains'"),
        ('[model]\npreset = "magic"\n', [], "known: salvit-resnet50"),
        ("[model]\nattention.betta = 1.0\n", [], r"'model\.attention\.betta'"),
        ("[train\n", [], "not valid TOML"),
        ("", ["train.episodes"], r"expected section\.setting=value"),
        ("", ["train.episodes=many"], r"'train\.episodes': expected int"),
        ("[train]\nepisodes = 5\nepisodes_per_step = 2\n", [], "multiple"),
        ('[[also]]\nname = "animal_pose"\n', [], r"names a data set twice \(animal_pose, animal_pose\)"),
        ('[[also]]\nname = "cub"\nweight = 0\n', [], "weight must be above 0"),
        ('[[also]]\nname = "cub"\nweights = 1\n', [], r"unknown setting 'also\[0\]\.weights'"),
        ('extends = "r.toml"\n', [], "leads back to itself"),
        ('extends = "absent.toml"\n', [], "does not exist"),
    ],
)
def test_what_is_wrong_in_a_recipe_is_named(tmp_path, text, changes, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_recipe(write(tmp_path, "r.toml", text), changes)


def test_every_shipped_recipe_loads():
    from pathlib import Path

    recipes = sorted((Path(__file__).parent.parent / "recipes").glob("*.toml"))
    assert recipes
    for path in recipes:
        read_recipe(path)
        assert "command" in path.read_text().split("\n\n")[0], f"{path.name}: its header lacks the command"
