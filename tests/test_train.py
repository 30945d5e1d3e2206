"""Training on drawn creatures with a tiny model: real processes, real kills."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from salvit.checkpoint import load_checkpoint
from salvit.data.creatures import write_creatures
from salvit.learner import Learner
from salvit.model.build import build_model
from salvit.model.settings import preset
from salvit.recipes import TrainSettings
from salvit.train import learning_rate, parameter_groups

RECIPE = f"""
extends = "{Path(__file__).with_name("tiny.toml").as_posix()}"
[model]
width = "narrow"
[model.head]
descriptor_channels = 16
[train]
episodes = 24
views = 2
learning_rate = 1e-3
dev_every = 12
dev_episodes = 2
checkpoint_every = 4
"""
MAIN = [sys.executable, "-m", "salvit"]


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """A recipe, its data, and a folder for cached tokens."""
    folder = tmp_path_factory.mktemp("train")
    write_creatures(folder / "data", ("fox", "leopard", "deer", "giraffe"), 12, 0, size_hw=(120, 160))
    (folder / "recipe.toml").write_text(RECIPE)
    return folder


def command(ground, out, *more):
    return [*MAIN, "train", str(ground / "recipe.toml"), "--root", str(ground / "data"), "--out", str(out),
            "--device", "cpu", "--threads", "1", *more]  # fmt: skip


def environment(ground):
    return {**os.environ, "SALVIT_CACHE": str(ground / "cache"), "OMP_NUM_THREADS": "1"}


def run(ground, out, *more):
    return subprocess.run(command(ground, out, *more), env=environment(ground), capture_output=True, text=True)


@pytest.fixture(scope="module")
def undisturbed(ground):
    done = run(ground, ground / "undisturbed")
    assert done.returncode == 0, done.stderr
    return ground / "undisturbed"


def same_weights(one, other):
    a, b = load_file(one / "last.safetensors"), load_file(other / "last.safetensors")
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def test_a_run_leaves_models_a_log_and_events_and_learns(undisturbed):
    assert {"best.safetensors", "last.safetensors", "log.jsonl", "tensorboard"} <= {
        p.name for p in undisturbed.iterdir()
    }
    rows = [json.loads(line) for line in (undisturbed / "log.jsonl").read_text().splitlines()]
    assert [row["episode"] for row in rows] == list(range(1, 25)) and "dev" in rows[11]
    losses = [row["loss"] for row in rows]
    assert np.mean(losses[-6:]) < np.mean(losses[:6])


def test_what_was_trained_can_be_loaded_and_used(undisturbed, ground, monkeypatch):
    from salvit.demo import demo_queries, demo_support
    from salvit.predict import detect, learn, load

    detector = load(str(undisturbed / "best.safetensors"), device="cpu")
    (found,) = detect(detector, learn(detector, demo_support()), demo_queries()[:1])
    assert np.isfinite(found.points).all() and (np.linalg.eigvalsh(found.covariances) > 0).all()


def test_a_run_begins_with_the_weights_of_another(undisturbed, ground):
    first = undisturbed / "last.safetensors"
    done = run(ground, ground / "second", "--start", str(first), "--set", "train.learning_rate=1e-12")
    assert done.returncode == 0, done.stderr
    ended, begun = (load_file(path) for path in (ground / "second" / "last.safetensors", first))
    weights = [key for key in begun if key.startswith("model.")]
    assert weights and all(torch.allclose(ended[key], begun[key], atol=1e-6) for key in weights)
    words = load_checkpoint(ground / "second" / "last.safetensors").command.split(" && ")
    assert len(words) == 2 and words[1].startswith("salvit train") and "--start first/last.safetensors" in words[1]
    assert "--out first" in words[0] and "--out run" in words[1]
    leak = run(ground, ground / "third", "--start", str(first), "--set", "data.unseen=fox")
    assert leak.returncode == 1 and "giraffe unseen" in leak.stderr and "held back the same" in leak.stderr
    absent = run(ground, ground / "third", "--start", str(ground / "absent.safetensors"))
    assert absent.returncode == 1 and "absent.safetensors" in absent.stderr and "Traceback" not in absent.stderr


def test_a_run_begins_with_one_that_held_back_more_where_nobody_looked_at_it(undisturbed, ground):
    few = ("--set", "train.episodes=2", "--set", "train.dev_every=0")
    assert run(ground, ground / "held", *few).returncode == 0
    other = (*few, "--set", "data.unseen=deer", "--set", "data.dev_species=[]")
    done = run(ground, ground / "next", *other, "--start", str(ground / "held" / "last.safetensors"))
    assert done.returncode == 0, done.stderr
    looked = run(ground, ground / "refused", *other, "--start", str(undisturbed / "last.safetensors"))
    assert looked.returncode == 1 and "held back the same" in looked.stderr


def test_a_folder_that_holds_a_run_is_not_written_over(undisturbed, ground):
    done = run(ground, undisturbed)
    assert done.returncode == 1 and "--resume goes on with it" in done.stderr


def kill_and_resume(ground, undisturbed, out, kills, seed):
    """Kill a run at random moments, go on each time; the end must equal the undisturbed run to the bit."""
    rng = random.Random(seed)
    took = 14.0
    for _ in range(kills):
        process = subprocess.Popen(command(ground, out, "--resume"), env=environment(ground), stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=rng.uniform(2.0, took))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    done = run(ground, out, "--resume")
    assert done.returncode == 0, done.stderr
    assert same_weights(out, undisturbed)
    assert (out / "log.jsonl").read_bytes() == (undisturbed / "log.jsonl").read_bytes()


def test_a_run_killed_after_a_checkpoint_goes_on_exactly(ground, undisturbed):
    out = ground / "killed"
    process = subprocess.Popen(command(ground, out), env=environment(ground), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 90
    while not (out / "last.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len((out / "log.jsonl").read_text().splitlines()) < 24
    done = run(ground, out, "--resume")
    assert done.returncode == 0, done.stderr
    assert same_weights(out, undisturbed)
    assert (out / "log.jsonl").read_bytes() == (undisturbed / "log.jsonl").read_bytes()


@pytest.mark.slow
def test_a_run_killed_at_ten_random_moments_goes_on_exactly(ground, undisturbed):
    kill_and_resume(ground, undisturbed, ground / "ten", kills=10, seed=0)


def test_another_recipe_cannot_go_on_with_a_run(ground, undisturbed):
    done = run(ground, undisturbed, "--resume", "--set", "train.seed=9")
    assert done.returncode == 1 and "made by another recipe" in done.stderr


def test_two_processes_give_the_same_weights_as_one_with_the_same_batch(ground):
    few = ["--set", "train.episodes=8", "--set", "train.episodes_per_step=2", "--set", "train.dev_every=0"]
    one = run(ground, ground / "one", *few)
    two = run(ground, ground / "two", *few, "--devices", "2")
    assert one.returncode == 0 and two.returncode == 0, one.stderr + two.stderr
    a, b = (load_file(ground / name / "last.safetensors") for name in ("one", "two"))
    for key in a:
        if key.startswith("model."):
            assert torch.allclose(a[key], b[key], atol=2e-5), key


MASKED = [
    *('model.saliency="rbd"', "train.masking.rgb=true", "train.masking.saliency=true"),
    *("train.masking.probability=1.0", "train.masking.views=1", "train.dev_every=0", "train.checkpoint_every=2"),
]


@pytest.fixture
def masked(ground, monkeypatch):
    """Train with masks in this process; gives the rows of the log."""
    from lightning_fabric import Fabric

    from salvit.data.splits import open_problem
    from salvit.recipes import read_recipe
    from salvit.train import train

    monkeypatch.setenv("SALVIT_CACHE", str(ground / "cache"))
    fabric = Fabric(accelerator="cpu", devices=1)

    def run_masked(name, *changes, report=lambda progress: None, resume=False):
        settings = read_recipe(ground / "recipe.toml", [*MASKED, *changes])
        problem = open_problem("creatures", ground / "data", "giraffe", dev_species=("deer",))
        pass_on = lambda items, total, what: items  # noqa: E731
        train(settings, [problem], ground / name, fabric, resume=resume, track=pass_on, report=report)
        return [json.loads(line) for line in (ground / name / "log.jsonl").read_text().splitlines()]

    return run_masked


@pytest.mark.parametrize("alignment", ["none", "simmim", "non_occluded", "mmd", "l2", "l1", "probability"])
def test_every_alignment_trains(masked, alignment):
    rows = masked(f"masked-{alignment}", f'train.masking.alignment="{alignment}"', "train.episodes=2")
    assert len(rows) == 2 and all(np.isfinite(row["loss"]) for row in rows)
    assert all(("alignment" in row) == (alignment != "none") for row in rows)
    if alignment != "none":
        assert any(row["alignment"] > 0 for row in rows)
        terms = 0.5 * rows[0]["main"] + 0.5 * rows[0]["auxiliary"] + 0.5 * rows[0]["regulariser"]
        assert rows[0]["loss"] == pytest.approx(terms + 0.1 * rows[0]["alignment"], rel=1e-4)


def test_masks_are_drawn_for_fresh_views_too(masked):
    changes = ("train.views=0", 'train.masking.alignment="probability"', "train.episodes=1")
    assert masked("masked-fresh", *changes)[0]["alignment"] > 0


def test_a_masked_run_with_parts_of_its_own_goes_on_exactly_and_the_model_can_be_used(masked, ground):
    changes = ('train.masking.alignment="simmim"', "train.episodes=6")
    whole = masked("whole", *changes)

    def stop(progress):
        if progress.episode == 3:  # one after the checkpoint
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        masked("part", *changes, report=stop)
    assert masked("part", *changes, resume=True) == whole
    assert same_weights(ground / "part", ground / "whole")
    from salvit.predict import load

    assert load(str(ground / "part" / "last.safetensors"), device="cpu").settings.saliency == "rbd"


def test_two_processes_mask_as_one_does(ground):
    few = ["train.episodes=4", "train.episodes_per_step=2", 'train.masking.alignment="probability"']
    changes = [part for change in (*MASKED, *few) for part in ("--set", change)]
    one = run(ground, ground / "masked-one", *changes)
    two = run(ground, ground / "masked-two", *changes, "--devices", "2")
    assert one.returncode == 0 and two.returncode == 0, one.stderr + two.stderr
    a, b = (load_file(ground / name / "last.safetensors") for name in ("masked-one", "masked-two"))
    for key in a:
        if key.startswith("model."):
            assert torch.allclose(a[key], b[key], atol=2e-5), key


def test_mixed_precision_on_a_cpu_is_refused(ground):
    done = run(ground, ground / "mixed", "--set", 'train.precision="bf16-mixed"')
    assert done.returncode == 1 and "not safe on a CPU" in done.stderr


def test_the_schedules_are_worked_by_hand():
    paper = TrainSettings()
    assert learning_rate(paper, 19_999) == 1e-4 and learning_rate(paper, 20_000) == pytest.approx(0.6e-4)
    cosine = TrainSettings(schedule="cosine", episodes=100)
    assert learning_rate(cosine, 0) == 1e-4 and learning_rate(cosine, 50) == pytest.approx(0.5e-4)


def test_a_trained_part_of_the_backbone_learns_at_its_own_rate_and_a_frozen_one_not_at_all():
    settings = TrainSettings(backbone_rate=0.1)
    own, lent = parameter_groups(Learner(build_model(preset("salvit-resnet50", "swift"), None), settings), settings)
    assert (own["rate"], lent["rate"]) == (1.0, 0.1)
    model = build_model(preset("salvit-lite0", "swift"), None)
    (alone,) = parameter_groups(Learner(model, settings), settings)
    assert len(alone["params"]) == sum(weight.requires_grad for weight in model.parameters())
    turning = TrainSettings(matrix_rate=3.0)
    rest, matrices = parameter_groups(Learner(model, turning), turning)
    assert matrices["is_matrix"] and matrices["rate"] == 3.0 and "is_matrix" not in rest
    assert len(rest["params"]) + len(matrices["params"]) == len(alone["params"])
    assert any(weight is model.descriptor.generate[2].weight for weight in matrices["params"])
