"""Training on several data sets at once: who is drawn, who is looked at, and that a run goes on exactly."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from salvit.cli.train import roots_of
from salvit.data.creatures import KEYPOINTS, write_creatures
from salvit.data.episodes import EpisodePool, EpisodeSettings
from salvit.features import open_cache
from salvit.recipes import read_recipe
from salvit.sources import MixedEpisodes, Sources, open_problems
from salvit.train import dev_of_all, train

RECIPE = f"""
extends = "{Path(__file__).with_name("tiny.toml").as_posix()}"
[data]
crop = "gt-or-none"
keypoints = "all"
weight = 3.0
[[also]]
name = "coco"
dev_species = ["hare"]
crop = "none"
[model]
width = "narrow"
[model.head]
descriptor_channels = 16
[train]
episodes = 8
learning_rate = 1e-3
dev_every = 4
dev_episodes = 2
checkpoint_every = 3
"""


def pass_on(items, total, what):
    return items


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    write_creatures(folder / "creatures", ("fox", "leopard", "deer", "giraffe"), 12, 0, size_hw=(120, 160))
    write_creatures(folder / "coco", ("bear", "hare"), 12, 0, size_hw=(120, 160))
    (folder / "recipe.toml").write_text(RECIPE)
    return folder


@pytest.fixture
def recipe(ground, monkeypatch):
    monkeypatch.setenv("SALVIT_CACHE", str(ground / "cache"))
    return read_recipe(ground / "recipe.toml")


@pytest.fixture
def problems(ground, recipe):
    return open_problems(recipe, {"creatures": ground / "creatures", "coco": ground / "coco"})


@pytest.fixture(scope="module")
def model(ground):
    from salvit.model.build import build_model

    torch.manual_seed(0)
    return build_model(read_recipe(ground / "recipe.toml").model)


class Named:
    """A source that gives its own name."""

    def __init__(self, name):
        self.name = name

    def load(self, index):
        return f"{self.name}{index}"


def test_weights_are_honoured_and_an_episode_is_always_of_the_same_set():
    mixed = MixedEpisodes([Named("a"), Named("b"), Named("c")], [1.0, 2.0, 1.0], seed=0)
    names = [mixed.load(index) for index in range(4000)]
    shares = [sum(name.startswith(letter) for name in names) / 4000 for letter in "abc"]
    assert np.allclose(shares, [0.25, 0.5, 0.25], atol=0.03)  # three standard deviations are 0.024
    assert all(name.endswith(str(index)) for index, name in enumerate(names))
    again = MixedEpisodes([Named("a"), Named("b"), Named("c")], [1.0, 2.0, 1.0], seed=0)
    assert [again.load(index) for index in (7, 3, 3999)] == [names[7], names[3], names[3999]]
    other = MixedEpisodes([Named("a"), Named("b"), Named("c")], [1.0, 2.0, 1.0], seed=1)
    assert [other.load(index) for index in range(50)] != names[:50]


def test_all_keypoints_are_drawn_and_report_species_stay_unseen(problems):
    creatures = problems[0]
    assert creatures.split.base == KEYPOINTS and creatures.split.novel == ()
    settings = EpisodeSettings(shots=(1, 5), queries=5)
    pool = EpisodePool(creatures, "train", "base", settings, purpose="train", seed=0)
    drawn = [pool.draw(index) for index in range(20)]
    assert {episode.species for episode in drawn} == {"fox", "leopard"}
    assert all(episode.names == KEYPOINTS for episode in drawn)
    with pytest.raises(ValueError, match="report species"):
        EpisodePool(creatures, "report", "base", settings, purpose="tune", seed=0)


def test_sources_mix_the_sets_and_look_at_the_dev_of_each(recipe, problems, model):
    sources = Sources(recipe, problems, model, None, pass_on)
    assert {name: set(kinds) for name, kinds in sources.dev.items()} == {"creatures": {"base"}, "coco": {"base"}}
    counts = {sources.train.load(index).num_real for index in range(8)}
    assert counts == {len(KEYPOINTS)}  # the COCO file has the same names
    loaded = [sources.train.load(index) for index in range(8)]
    parts = {sources.train.choose(index): (one.first_part, one.num_named) for index, one in enumerate(loaded)}
    named = loaded[0].support_mask.shape[1]  # with the auxiliary ones, whose paths are fixed
    assert sources.train.choose(0) == 0 and parts == {0: (0, named), 1: (named, 0)}  # COCO species have their own
    figures = dev_of_all(model, sources.dev, 2)
    assert set(figures) == {"creatures", "coco", "harmonic"}
    assert figures["harmonic"] == pytest.approx((figures["creatures"] + figures["coco"]) / 2, abs=1e-3)


def test_only_the_records_that_the_episodes_show_are_cached(recipe, problems, model, monkeypatch):
    asked = {}

    def watch(model, problem, records, shown, **more):
        asked.setdefault((problem.name, shown.augment is not None), {record.id for record in records})
        return open_cache(model, problem, records, shown, **more)

    monkeypatch.setattr("salvit.sources.open_cache", watch)
    short = replace(recipe, train=replace(recipe.train, episodes=2, shots=(1, 1), queries=2))
    sources = Sources(short, problems, model, None, pass_on)
    cached = [len(asked.get((problem.name, True), ())) for problem in problems]
    assert 3 <= sum(cached) <= 6 < len(problems[0].records["train"])
    for index in range(2):
        sources.train.load(index)  # all that they show is there
    dev = {record.id for record in problems[0].records["dev"]}
    assert asked["creatures", False] == dev


def test_a_problem_without_dev_is_passed_over(recipe, problems, model):
    bare = [replace(problem, records={**problem.records, "dev": ()}) for problem in problems]
    sources = Sources(recipe, [bare[0], problems[1]], model, None, pass_on)
    assert set(sources.dev) == {"coco"}
    with pytest.raises(ValueError, match="no dev records; set train"):
        Sources(recipe, bare, model, None, pass_on)


def test_a_mixed_run_goes_on_exactly(ground, recipe, problems):
    from lightning_fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=1)

    def run(name, report=lambda progress: None, resume=False):
        train(recipe, problems, ground / name, fabric, resume=resume, track=pass_on, report=report)
        return [json.loads(line) for line in (ground / name / "log.jsonl").read_text().splitlines()]

    def stop(progress):
        if progress.episode == 5:  # two after the checkpoint
            raise KeyboardInterrupt

    whole = run("whole")
    assert set(whole[3]["dev"]) == {"creatures", "coco", "harmonic"}
    with pytest.raises(KeyboardInterrupt):
        run("part", stop)
    assert run("part", resume=True) == whole
    a, b = (load_file(ground / name / "last.safetensors") for name in ("whole", "part"))
    assert a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def test_roots_are_given_by_name_or_to_the_first_set(recipe, ground, tmp_path):
    names = ["creatures", "coco"]
    assert {k: str(v) for k, v in roots_of(["a/b=c", "coco=d"], names).items()} == {"creatures": "a/b=c", "coco": "d"}
    with pytest.raises(ValueError, match="has a folder already"):
        roots_of(["a", "b"], names)
    with pytest.raises(ValueError, match="--root coco=DIR"):
        open_problems(recipe, {"creatures": ground / "creatures"})
    with pytest.raises(ValueError, match="has no such data set; it has creatures, coco"):
        open_problems(recipe, {"cub": tmp_path})


def test_creatures_without_a_folder_are_drawn_once(tmp_path, monkeypatch):
    from salvit.recipes import DataSettings, Recipe

    monkeypatch.setenv("SALVIT_CACHE", str(tmp_path))
    monkeypatch.setattr("salvit.sources.SPECIES", ("fox", "hare"))
    recipe = Recipe(data=DataSettings(name="creatures", unseen="fox", pictures=2))
    (first,) = open_problems(recipe, {})
    monkeypatch.setattr("salvit.sources.write_creatures", lambda *_, **__: pytest.fail("drawn again"))
    (second,) = open_problems(recipe, {})
    assert first.roles == second.roles and len(first.records["report"]) == 2
