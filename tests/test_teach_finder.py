"""A finder for a model that has none: what it learns from, and the command from end to end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from salvit.baselines.build import build_method
from salvit.checkpoint import frozen_sha256, load_checkpoint, own_weights, save_checkpoint
from salvit.cli import app
from salvit.data.creatures import write_creatures
from salvit.model.certainty import Calibration
from salvit.model.finder import Finder
from salvit.near import finder_of
from salvit.predict import load_trained
from salvit.provenance import finder_command
from salvit.recipes import read_recipe
from salvit.sources import open_problems
from salvit.teach_finder import Glances, glance_at, judge, teach

RECIPE = f"""
extends = "{Path(__file__).with_name("tiny.toml").as_posix()}"
[data]
crop = "none"
"""
CALIBRATION = Calibration(
    temperature=2.75, spread=1.2, cell=0.0, radii=(0.7, 2.0, 3.7), right=(-0.9, 0.8, 0.8), presence=(0.0, 0.1, 0.2, 1.0)
)


def track(items, total, what):
    return items


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """Drawn creatures, those of the report species cut short, and an untrained model's calibrated checkpoint."""
    folder = tmp_path_factory.mktemp("finder")
    write_creatures(folder / "data", ("fox", "deer", "giraffe"), 20, 0, size_hw=(120, 160))
    for image in folder.glob("data/images/giraffe*.jpg"):
        image.write_bytes(image.read_bytes()[:1000])  # one of a report species that is decoded is an error
    (folder / "recipe.toml").write_text(RECIPE)
    recipe = read_recipe(folder / "recipe.toml")
    torch.manual_seed(0)
    model = build_method(recipe.model)
    state = {"episode": 5, "backbone_sha256": frozen_sha256(model)}
    path = folder / "model.safetensors"
    command = "salvit train recipes/x.toml"
    save_checkpoint(path, recipe, own_weights(model), {}, state, command=command, calibration=CALIBRATION)
    return folder


def run(ground, *more, model="model.safetensors", out="near.safetensors"):
    command = ["teach-finder", str(ground / model), "--root", str(ground / "data"), "--out", str(ground / out)]
    return CliRunner().invoke(app, [*command, "--device", "cpu", "--pictures", "16", "--epochs", "2", *more])


@pytest.fixture(scope="module")
def taught(ground):
    done = run(ground)
    assert done.exit_code == 0, (done.output, done.exception)
    assert "dev pictures: mean IoU" in done.output and "not calibrated: `salvit calibrate`" in done.output
    return ground / "near.safetensors"


def test_the_command_writes_the_same_model_with_a_finder(ground, taught):
    old, new = load_checkpoint(ground / "model.safetensors"), load_checkpoint(taught)
    assert new.recipe == replace(old.recipe, model=replace(old.recipe.model, finder=True)) != old.recipe
    added = set(new.weights) - set(old.weights)
    assert added and all(name.startswith("finder.") for name in added)
    assert all(torch.equal(new.weights[name], value) for name, value in old.weights.items())
    assert new.state == old.state and new.calibration is None, "it looks at other windows: calibrated anew"
    assert new.command == (
        "salvit train recipes/x.toml && salvit teach-finder run/model.safetensors --root $SALVIT_DATA/creatures "
        "--pictures 16 --epochs 2 --out near.safetensors"
    )


def test_what_it_wrote_loads_and_finds_objects(ground, taught):
    before, model = load_trained(ground / "model.safetensors", device="cpu"), load_trained(taught, device="cpu")
    assert before.finder is None and finder_of(before) is None
    assert isinstance(model.finder, Finder) and finder_of(model) is not None and not model.finder.training
    from salvit.data.images import read_and_fit

    image = read_and_fit(next(ground.glob("data/images/deer*.jpg")), 96)
    ((x1, y1, x2, y2),) = finder_of(model)([image])
    assert x1 < x2 and y1 < y2
    assert torch.equal(before.encode([image]).features, model.encode([image]).features), "it sees as it did"
    assert "finder" in CliRunner().invoke(app, ["info", str(taught)]).output


def test_a_run_is_repeatable(ground, taught):
    assert run(ground, out="again.safetensors").exit_code == 0
    one, two = load_checkpoint(taught), load_checkpoint(ground / "again.safetensors")
    assert all(torch.equal(value, two.weights[name]) for name, value in one.weights.items())


def test_a_model_that_has_a_finder_is_refused(ground, taught):
    done = run(ground, model="near.safetensors", out="twice.safetensors")
    assert done.exit_code == 1 and "has a finder already" in str(done.exception)
    assert not (ground / "twice.safetensors").exists()


def test_a_file_that_is_there_is_not_written_over_and_another_kind_of_file_is_refused(ground, taught):
    before = taught.read_bytes()
    done = run(ground)
    assert done.exit_code == 1 and "--overwrite" in str(done.exception) and taught.read_bytes() == before
    done = run(ground, out="near.pt")
    assert done.exit_code == 1 and "expected a .safetensors file" in str(done.exception)


def test_a_missing_data_set_is_named(ground):
    done = CliRunner().invoke(
        app,
        ["teach-finder", str(ground / "model.safetensors"), "--root", "cub=x", "--out", str(ground / "x.safetensors")],
    )
    assert done.exit_code == 1 and "the recipe has no such data set" in str(done.exception)


# --- what it learns from --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def opened(ground):
    recipe = read_recipe(ground / "recipe.toml")
    return recipe, open_problems(recipe, {"creatures": ground / "data"})[0]


@pytest.fixture(scope="module")
def model(ground):
    return load_trained(ground / "model.safetensors", device="cpu")


@pytest.mark.parametrize("role", ["train", "dev"])
def test_report_species_are_refused(opened, role):
    recipe, problem = opened
    spoilt = replace(problem, records={**problem.records, role: problem.records["report"]})
    purpose = "train" if role == "train" else "tune"
    with pytest.raises(ValueError, match=rf"'giraffe', a report species.*must not be used to {purpose}"):
        glance_at(None, recipe, [spoilt], role, 4, track=track)


def test_dev_species_are_not_learnt_from(opened):
    recipe, problem = opened
    spoilt = replace(problem, records={**problem.records, "train": problem.records["dev"]})
    with pytest.raises(ValueError, match=r"is a dev record of creatures/giraffe; to train, take records of train"):
        glance_at(None, recipe, [spoilt], "train", 4, track=track)


def test_glances_are_tokens_of_pictures_with_their_boxes_in_the_input(opened, model):
    recipe, problem = opened
    shown = glance_at(model, recipe, [problem], "dev", 5, track=track)
    channels = model.backbone.glance_channels
    assert shown.tokens.shape == (5, channels, 6, 6) and shown.tokens.dtype == torch.float16
    # whole pictures of 160×120 at a scale of 0.6 and with 12 rows of padding, in the order that the seed draws
    records = problem.records["dev"]
    true = {tuple(np.round(np.array(r.box) * 0.6 + [0, 12, 0, 12], 3)) for r in records}
    assert all(
        tuple(np.round(box, 3)) in {tuple(np.float32(one).round(3)) for one in true} for box in shown.boxes.numpy()
    )
    again = glance_at(model, recipe, [problem], "dev", 5, track=track)
    assert torch.equal(again.tokens, shown.tokens) and torch.equal(again.boxes, shown.boxes)
    assert len(glance_at(model, recipe, [problem], "dev", 900, track=track).boxes) == len(records)


def test_mirrored_glances_are_those_of_the_mirrored_picture():
    tokens = torch.arange(2 * 3 * 4 * 4).view(2, 3, 4, 4).half()
    shown = Glances(tokens, torch.tensor([[0.0, 10.0, 20.0, 30.0], [40.0, 0.0, 64.0, 64.0]]))
    same, boxes = shown.mirrored(torch.tensor([1, 0]), 64, is_mirrored=False)
    assert torch.equal(same, tokens[[1, 0]].float()) and torch.equal(boxes, shown.boxes[[1, 0]])
    turned, boxes = shown.mirrored(torch.tensor([1, 0]), 64, is_mirrored=True)
    assert torch.equal(turned[:, :, :, 0], tokens[[1, 0], :, :, 3].float())
    assert boxes.tolist() == [[0.0, 0.0, 24.0, 64.0], [44.0, 10.0, 64.0, 30.0]]


def drawn_glances(count, seed):
    """Noise in which a rectangle looks otherwise, on 6 × 6 cells of 16 pixels."""
    generator = torch.Generator().manual_seed(seed)
    tokens, boxes = 0.3 * torch.randn(count, 6, 6, 6, generator=generator), []
    tokens[:, 1] += 1.0
    for row in tokens:
        left, top = torch.randint(0, 4, (2,), generator=generator).tolist()
        row[:2, top : top + 3, left : left + 2] += torch.tensor([2.0, -1.0])[:, None, None]
        boxes.append([16.0 * left, 16.0 * top, 16.0 * (left + 2), 16.0 * (top + 3)])
    return Glances(tokens.half(), torch.tensor(boxes))


def test_a_taught_finder_finds_what_it_was_not_shown():
    torch.manual_seed(0)
    finder = Finder(6, (6, 6), width=16)
    kept = drawn_glances(40, seed=1)
    before = judge(finder.eval(), kept, 96)
    teach(finder, drawn_glances(160, seed=0), 96, epochs=12, seed=0, track=track)
    after = judge(finder, kept, 96)
    assert before.shape == after.shape == (40,) and not finder.training
    assert before.mean() < 0.5 < 0.6 < after.mean()


@pytest.mark.parametrize("count", [3, 16, 20])
def test_any_number_of_pictures_is_learnt_from(count):
    torch.manual_seed(0)
    finder = Finder(6, (6, 6), width=8)
    before = finder.out.weight.detach().clone()
    teach(finder, drawn_glances(count, seed=0), 96, epochs=2, seed=0, track=track)
    assert torch.isfinite(finder.out.weight).all() and not torch.equal(finder.out.weight, before)


def test_a_finder_that_is_always_right_is_judged_so():
    shown = drawn_glances(3, seed=0)

    class Right(Finder):
        def find(self, raw, input_size):
            return [tuple(row) for row in shown.boxes.tolist()]

    assert judge(Right(6, (6, 6), width=8), shown, 96).tolist() == pytest.approx([1.0] * 3)


def test_the_command_of_a_taught_model_says_all_that_made_it(tmp_path):
    told = finder_command(
        "train", tmp_path / "best.safetensors", ["cub", "animal_pose"], 99, 3, tmp_path / "n.safetensors"
    )
    assert told == (
        "train && salvit teach-finder run/best.safetensors --root cub=$SALVIT_DATA/cub "
        "--root animal_pose=$SALVIT_DATA/animal_pose --pictures 99 --epochs 3 --out n.safetensors"
    )
    assert finder_command("", tmp_path / "x", ["cub"], 1, 1, tmp_path / "n") == ""
