"""Every compared method: learns, and takes whatever an episode is."""

import ast
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import salvit.baselines
from salvit.baselines.build import METHODS, build_method
from salvit.baselines.comparison import recipe_of
from salvit.baselines.describe import describe_method
from salvit.baselines.method import Method, scale_of_map
from salvit.checkpoint import own_weights, put_weights
from salvit.episode_tensors import EpisodeTensors
from salvit.learner import Learner, flat
from salvit.model.locator import covariance, decode
from salvit.model.settings import ModelSettings, preset
from salvit.recipes import TrainSettings, read_recipe
from salvit.types import Example

ROOT = Path(__file__).parents[2]
CASES = [*((name, "flat") for name in METHODS), *((name, "spatial") for name in ("protonet", "fskd", "maml", "tfa"))]
"""Every method with the paper's head; with the spatial one, or its decoding, those that it makes a difference to."""


def learn_by_heart(model, episode, steps=400):
    """Steps of the real learner until the episode is known."""
    support, points, mask, query = episode.tensors(model)
    shown = EpisodeTensors(
        support, points, mask, query, episode.points_input, episode.valid, points.shape[1], episode.boxes
    )
    learner = Learner(model, TrainSettings())
    weights = [weight for weight in learner.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(weights, lr=3e-3)
    for step in range(1, steps + 1):
        model.train()
        terms = learner(*flat(shown))
        optimizer.zero_grad()
        terms["loss"].backward()
        optimizer.step()
        if step % 20 == 0 and episode.hits(model.eval()) >= 0.9:
            break
    return episode.hits(model.eval())


@pytest.mark.parametrize(("name", "head"), CASES)
def test_one_creature_episode_is_learnt_by_heart(name, head, small, episode):
    model = small(name, head=head)
    before = episode.hits(model)
    after = learn_by_heart(model, episode)
    assert after >= 0.9 and before < 0.6


@pytest.mark.parametrize(("name", "head"), CASES)
@pytest.mark.parametrize("count", [1, 40])
def test_any_number_of_keypoints_and_one_that_no_shot_has(name, head, count, small, episode):
    model = small(name, head=head)
    rng = np.random.default_rng(0)
    visible = np.ones(count, dtype=bool)
    visible[0] = count == 1
    names = tuple(f"point {n}" for n in range(count))
    shots = [Example(image, names, rng.uniform(20, 100, (count, 2)), visible) for image in episode.queries]
    pack = model.learn(shots)
    found = model.detect(pack, episode.queries)
    assert found.points.shape == (2, count, 2)
    assert np.isfinite(found.points).all() and np.isfinite(found.covariances).all()
    assert found.known.tolist() == visible.tolist()
    assert (np.linalg.eigvalsh(found.covariances[:, visible]) > 0).all()


@pytest.mark.parametrize(("name", "head"), CASES)
def test_a_training_step_is_finite_where_no_shot_has_a_keypoint_and_where_nothing_counts(name, head, small, episode):
    model = small(name, head=head).train()
    support, points, mask, query = episode.tensors(model)
    for hidden in (mask & (torch.arange(mask.shape[1]) > 0), torch.zeros_like(mask)):
        valid = episode.valid & hidden.any(0)
        shown = EpisodeTensors(support, points, hidden, query, episode.points_input, valid, 4, episode.boxes)
        terms = Learner(model, TrainSettings())(*flat(shown))
        terms["loss"].backward()
        grads = [weight.grad for weight in model.parameters() if weight.grad is not None]
        assert torch.isfinite(terms["loss"]) and all(torch.isfinite(grad).all() for grad in grads)


@pytest.mark.parametrize(("name", "head"), CASES)
def test_wanted_pairs_are_those_of_the_whole(name, head, small, episode):
    model = small(name, head=head)
    inputs = episode.tensors(model)
    wanted = episode.valid & (torch.arange(episode.valid.shape[1]) % 2 == 0)
    with torch.no_grad():
        whole, part = model(*inputs), model(*inputs, wanted)
    for first, second in zip(whole.scales, part.scales, strict=True):
        torch.testing.assert_close(first.logits[wanted][None], second.logits, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(first.offsets[wanted][None], second.offsets, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(("name", "head"), CASES)
def test_forward_finds_what_the_verbs_find(name, head, small, episode):
    model = small(name, head=head)
    support, points, mask, query = episode.tensors(model)
    with torch.no_grad():
        points_input = model.decode(model(support, points, mask, query).scales).points_input
    found = model.detect(model.learn([episode.support]), episode.queries)
    known = mask[0].numpy()
    for row, image in enumerate(episode.queries):
        there = image.fit.to_image(points_input[row].double().numpy())
        np.testing.assert_allclose(found.points[row][known], there[known], atol=0.05)


@pytest.mark.parametrize("name", METHODS)
def test_saliency_weighs_the_features_where_that_is_asked_for(name, small, episode):
    model = small(name, reweight=True)
    dark = [replace(image, saliency=np.zeros_like(image.saliency)) for image in episode.queries]
    first, second = model.encode(dark).features
    torch.testing.assert_close(first, second, msg="nothing of the pictures is left")
    for seen in (model.encode(episode.queries).features, small(name).encode(dark).features):
        assert (seen[0] - seen[1]).abs().max() > 0.1


@pytest.mark.parametrize("name", METHODS)
def test_weights_are_kept_and_put_back(name, small, episode):
    model, other = small(name), small(name)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.add_(0.01 * torch.randn_like(weight))
    put_weights(other, own_weights(model))
    found = [one.detect(one.learn([episode.support]), episode.queries).points for one in (model, other)]
    np.testing.assert_array_equal(*found)


def test_a_recipe_names_a_method_and_an_unknown_one_is_refused(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text('[model]\npreset = "salvit-lite0"\nwidth = "light"\nmethod = "protonet"\nreweight = true\n')
    model = build_method(read_recipe(path).model, None)
    assert isinstance(model, Method) and model.name == "protonet:lite0" and model.encoder.channels == 192
    with pytest.raises(ValueError, match="unknown method 'protnet'; known: salvit, protonet"):
        build_method(read_recipe(path, ["model.method=protnet"]).model, None)
    with pytest.raises(ValueError, match=r"model\.reweight is for a compared method"):
        ModelSettings(reweight=True)


def test_a_new_method_is_the_one_file_and_the_one_line_that_contributing_shows(tmp_path, monkeypatch, small, episode):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    file, line = re.findall(r"```py\n(.*?)```", text.partition("## A method to compare with")[2], flags=re.DOTALL)
    ((name, path),) = ast.literal_eval(f"{{{line.strip()}}}").items()
    module, _, kind = path.rpartition(".")
    assert name not in METHODS and f"class {kind}(Method)" in file
    (tmp_path / f"{module.rpartition('.')[2]}.py").write_text(file)
    monkeypatch.setattr(salvit.baselines, "__path__", [*salvit.baselines.__path__, str(tmp_path)])
    monkeypatch.setitem(METHODS, name, path)
    try:
        assert learn_by_heart(small(name), episode) >= 0.9
        assert describe_method(name).parameters == 19_045_440
    finally:
        sys.modules.pop(module, None)


def test_a_map_is_said_as_a_scale():
    scores = torch.full((1, 1, 4, 4), -20.0)
    scores[0, 0, 1, 2], scores[0, 0, 1, 3] = 0.0, -1.0
    (scale,) = scale_of_map(scores)
    found = decode((scale,), 64)
    x = 16 * (2 + 0.5 * (-20 + 1) / (-20 - 1)) + 7.5  # the parabola through −20, 0 and −1
    torch.testing.assert_close(found.points_input[0, 0], torch.tensor([x, 16 * 1 + 7.5]))
    spread = covariance(scale.latents)[0, 0, 0]
    assert spread[0, 0] > spread[1, 1], "two cells in a row: more uncertain along x"
    torch.testing.assert_close(spread[1, 1], torch.tensor(4 / 12), atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", METHODS)
def test_the_shipped_recipe_builds_every_method(name):
    path = ROOT / "recipes" / "animal_pose-compared.toml"
    recipe = read_recipe(path, ["model.input_size=128"])
    model = build_method(replace(recipe_of(recipe, name, "cow").model, reweight=True), None)
    batch = model.prepare(torch.rand(2, 3, 128, 128), torch.rand(2, 128, 128))
    points, mask = 20 + 80 * torch.rand(2, 3, 2), torch.ones(2, 3, dtype=torch.bool)
    output = model(batch, points, mask, batch)
    assert torch.isfinite(model.decode(output.scales).points_input).all()
    assert 0 < sum(weight.numel() for weight in model.parameters() if weight.requires_grad) < 12_000_000


@pytest.mark.parametrize("name", ["fskd", "maml", "tfa"])
def test_a_head_without_weights_is_refused_by_methods_that_need_them(name):
    settings = replace(preset("salvit-lite0", "swift"), method=name)
    with pytest.raises(ValueError, match="needs a localisation net with weights"):
        build_method(settings, None)
