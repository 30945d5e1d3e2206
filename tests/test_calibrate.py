"""Calibration: a synthetic model of known errors, what is read, and the command from end to end."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from salvit.calibrate import (
    TEMPERATURES,
    cross_fit,
    dev_sources,
    fit,
    is_second_half,
    judge,
    pairs_of,
    restrict,
    tell,
)
from salvit.checkpoint import load_checkpoint, own_weights, save_checkpoint, with_raw_gain
from salvit.data.creatures import write_creatures
from salvit.data.crops import NEAR_MARGIN
from salvit.model.certainty import calibrated, squared_distances
from salvit.model.locator import Located, ScaleOutput
from salvit.recipes import read_recipe, with_decoding
from salvit.sources import open_problems

SIDE, INPUT = 8, 80


def drawn_pairs(seed, count=20000, temperature=2.0):
    """Maps of one scale; the true point is drawn from the map at a temperature, and is there by a known chance."""
    generator = torch.Generator().manual_seed(seed)
    sharpness = 1 + 5 * torch.rand(count, 1, 1, 1, generator=generator)
    logits = sharpness * torch.randn(count, 1, SIDE, SIDE, generator=generator)
    flat = logits.flatten(2)
    drawn = torch.multinomial((flat[:, 0] / temperature).softmax(-1), 1, generator=generator)  # (R, 1)
    inside = torch.rand(count, 1, 2, generator=generator) - 0.5
    cell = INPUT / SIDE

    def centre(cells):
        return (torch.stack([cells % SIDE, cells // SIDE], -1) + 0.5) * cell - 0.5

    truth, points = centre(drawn) + inside * cell, centre(flat.argmax(-1))
    own = 2 * torch.randn(count, 1, generator=generator)
    there = torch.rand(count, 1, generator=generator) < (0.5 * own + 1).sigmoid()
    others = torch.zeros(count, 1, SIDE**2, 2), torch.ones(count, 1, SIDE**2, 2, 3)
    found = pairs_of(
        (ScaleOutput(flat, *others),),
        Located(points, flat.softmax(-1).amax(-1), torch.eye(2).expand(count, 1, 2, 2)),
        INPUT,
        torch.tensor([1]),
        truth=truth,
        is_there=there,
        sizes=torch.full((count,), 60.0),
        is_second=torch.arange(count) % 2 == 1,
        presence=own,
    )
    return replace(found, **{name: getattr(found, name).double() for name in ("moments", "near", "extent", "cells",
                   "scores", "presence", "height", "errors", "shots")})  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    return fit(drawn_pairs(0))


def test_a_model_whose_errors_are_a_known_mixture_is_calibrated_to_within_a_point(fitted):
    fresh = drawn_pairs(1)
    figures = judge(fresh, tell(fresh, fitted))
    for sigma, share in ((1, 39.3), (2, 86.5), (3, 98.9)):
        assert figures[f"coverage_{sigma}_sigma"] == pytest.approx(share, abs=1.0)
    assert figures["score_ece"] < 2 and figures["presence_ece"] < 2


def test_the_temperature_that_the_points_were_drawn_at_is_found(fitted):
    assert fitted.temperature == pytest.approx(2.0, rel=0.2)  # one step of the temperatures tried
    # at the true temperature the moments are the covariance; Σ differs by the scale that makes 2 σ right
    assert fitted.spread == pytest.approx(1.0, abs=0.35) and fitted.radii[1] == 2.0


def test_temperature_and_bias_of_presence_are_found(fitted):
    assert fitted.presence[3] == pytest.approx(0.5, abs=0.05)
    fresh = drawn_pairs(2)
    told = tell(fresh, fitted).presence
    assert (told - (0.5 * fresh.presence + 1).sigmoid()).abs().mean() < 0.02


def test_a_wrong_temperature_is_not_calibrated(fitted):
    fresh = drawn_pairs(1)
    wrong = judge(fresh, tell(fresh, replace(fitted, temperature=TEMPERATURES[0])))
    assert abs(wrong["coverage_2_sigma"] - 86.5) > 10


def test_what_is_judged_was_not_fitted_on():
    pairs = drawn_pairs(3, count=4000)
    result = cross_fit(pairs)
    half = pairs.is_second
    other = tell(pairs.where(half), fit(pairs.where(~half)))
    assert torch.equal(result.after.scores[half], other.scores)
    assert torch.equal(result.after.covariances[half], other.covariances)
    assert result.calibration == fit(pairs)


def test_too_few_pairs_are_refused():
    with pytest.raises(ValueError, match="take more dev episodes"):
        cross_fit(drawn_pairs(0, count=150))


def test_far_errors_do_not_decide_how_much_examples_are_worth():
    """Σ is by a Student's t: with one error in fifty far away, and only where there is one example, γ stays small."""
    pairs = drawn_pairs(0, count=2000)
    shots = torch.where(torch.arange(len(pairs.errors)) % 2 == 0, 1.0, 5.0).double()
    errors = pairs.errors.clone()
    far = (torch.arange(len(errors)) % 50 == 0) & (shots == 1)
    errors[far] *= 12
    calibration = fit(replace(pairs, errors=errors, shots=shots))
    clean = fit(replace(pairs, shots=shots))
    assert abs(clean.shots) < 0.1 and calibration.shots < 0.25


def test_a_prediction_is_told_as_the_pairs_were(fitted):
    """What the fit saw and what ``locate`` says come by two ways; they must be the same."""
    torch.manual_seed(0)
    scales = tuple(
        ScaleOutput(2 * torch.randn(3, 4, s * s), torch.zeros(3, 4, s * s, 2), torch.randn(3, 4, s * s, 2, 3))
        for s in (2, 4)
    )
    located = Located(80 * torch.rand(3, 4, 2), torch.rand(3, 4), torch.eye(2).expand(3, 4, 2, 2).clone())
    shots, own = torch.tensor([1, 0, 5, 2]), torch.randn(3, 4)
    known, shrinking = shots > 0, replace(fitted, shots=0.3, sure=0.2, height=0.4)
    pairs = pairs_of(
        scales,
        located,
        80,
        shots,
        truth=torch.zeros(3, 4, 2),
        is_there=torch.ones(3, 4, dtype=torch.bool),
        sizes=torch.full((3,), 60.0),
        is_second=torch.zeros(3, dtype=torch.bool),
        presence=own,
    )
    told = tell(pairs, shrinking)
    said = calibrated(replace(located, presence=own.sigmoid()), scales, shrinking, 80, shots)
    torch.testing.assert_close(told.covariances, said.covariances[:, known].flatten(0, 1))
    torch.testing.assert_close(told.scores, said.scores[:, known].flatten())
    torch.testing.assert_close(told.presence, said.presence[:, known].flatten())


def test_ellipses_shrink_as_errors_do_with_the_number_of_examples():
    pairs = drawn_pairs(0)
    shots = 1.0 + torch.arange(len(pairs.errors)) % 5
    fewer_errors = replace(pairs, errors=pairs.errors * shots[:, None] ** -0.25, shots=shots.double())
    calibration = fit(fewer_errors)
    assert calibration.shots == pytest.approx(0.5, abs=0.05)  # variances, so twice the power of the errors
    distance = squared_distances(fewer_errors.errors, tell(fewer_errors, calibration).covariances).sqrt()
    for count in (1, 5):
        rows = (shots == count) & pairs.is_there
        assert float((distance[rows] <= 2).double().mean()) == pytest.approx(0.865, abs=0.02)


RECIPE = Path(__file__).with_name("tiny.toml")


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """Drawn creatures, and an untrained model's checkpoint."""
    from salvit.baselines.build import build_method

    folder = tmp_path_factory.mktemp("calibrate")
    write_creatures(folder / "data", ("fox", "deer", "giraffe"), 14, 0, size_hw=(120, 160))
    recipe = read_recipe(RECIPE)
    torch.manual_seed(0)
    model = build_method(recipe.model)
    save_checkpoint(
        folder / "model.safetensors", recipe, own_weights(model), {}, {"episode": 5}, command="salvit train"
    )
    return folder


def run(ground, *more):
    command = [sys.executable, "-m", "salvit", "calibrate", str(ground / "model.safetensors"), "--device", "cpu",
               "--root", str(ground / "data"), "--episodes", "12", "--threads", "1", *more]  # fmt: skip
    environment = {**os.environ, "SALVIT_CACHE": str(ground / "cache"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def calibrated_file(ground):
    report = list(ground.glob("data/images/giraffe*.jpg"))
    assert len(report) == 14
    for image in report:
        image.write_bytes(image.read_bytes()[:1000])  # cut: one of a report species that is decoded is an error
    done = run(ground, "--out", str(ground / "calibrated.safetensors"))
    assert done.returncode == 0, done.stderr
    assert "coverage of 2 σ" in done.stdout and "fitted on all" in done.stdout
    return ground / "calibrated.safetensors"


def test_the_command_writes_a_new_model_and_a_plot(ground, calibrated_file):
    old, new = load_checkpoint(ground / "model.safetensors"), load_checkpoint(calibrated_file)
    assert old.calibration is None and new.calibration is not None
    assert new.calibration.fitted_on.startswith("dev of creatures: ")
    assert new.recipe == old.recipe and new.state == old.state
    assert new.command.startswith(
        "salvit train && salvit calibrate run/model.safetensors --root $SALVIT_DATA/creatures"
    )
    assert all(torch.equal(new.weights[name], value) for name, value in old.weights.items())
    assert calibrated_file.with_suffix(".png").stat().st_size > 10_000


def test_info_says_whether_a_model_is_calibrated(ground, calibrated_file):
    from typer.testing import CliRunner

    from salvit.cli import app

    plain, told = (
        CliRunner().invoke(app, ["info", str(path)]).stdout for path in (ground / "model.safetensors", calibrated_file)
    )
    assert "calibration: none" in plain and "temperature" in told and "radii" in told


def test_another_decoding_is_calibrated_and_kept(ground, calibrated_file):
    gathered = ground / "gathered.safetensors"
    done = run(ground, "--out", str(gathered), "--decoding", "gathered")
    assert done.returncode == 0, done.stderr
    old, new = load_checkpoint(calibrated_file), load_checkpoint(gathered)
    assert new.recipe == with_decoding(old.recipe, "gathered") != old.recipe
    assert " --decoding gathered " in new.command
    assert new.calibration != old.calibration
    assert run(ground, "--out", str(ground / "x.safetensors"), "--decoding", "best").returncode == 1


def test_more_trust_in_raw_tokens_changes_their_gain_alone():
    weights = {"descriptor.gain": torch.tensor([2.0, 3.0]), "descriptor.bias": torch.ones(2)}
    more = with_raw_gain(weights, 1.5)
    assert more["descriptor.gain"].tolist() == [3.0, 4.5] and weights["descriptor.gain"].tolist() == [2.0, 3.0]
    assert more["descriptor.bias"] is weights["descriptor.bias"]
    assert with_raw_gain(weights, 1) is weights
    with pytest.raises(ValueError, match="keeps_raw"):
        with_raw_gain({"descriptor.bias": torch.ones(2)}, 1.5)


def test_a_file_that_is_there_is_not_written_over(ground, calibrated_file):
    done = run(ground, "--out", str(calibrated_file))
    assert done.returncode == 1 and "--overwrite" in done.stderr


def test_locating_uses_the_calibration_and_leaves_the_points(ground, calibrated_file):
    from salvit.demo import demo_queries, demo_support
    from salvit.predict import detect, learn, load

    found = []
    for path in (ground / "model.safetensors", calibrated_file):
        detector = load(str(path), device="cpu")
        found += detect(detector, learn(detector, demo_support()), demo_queries()[:1])
    plain, told = found
    np.testing.assert_allclose(plain.points, told.points)
    assert not np.allclose(plain.covariances, told.covariances) and not np.allclose(plain.scores, told.scores)
    assert (np.linalg.eigvalsh(told.covariances) > 0).all() and ((told.scores >= 0) & (told.scores <= 1)).all()


def problem_of(ground):
    recipe = read_recipe(RECIPE)
    return recipe, open_problems(recipe, {"creatures": ground / "data"})[0]


def test_a_report_species_is_refused(ground, monkeypatch):
    monkeypatch.setenv("SALVIT_CACHE", str(ground / "cache"))
    recipe, problem = problem_of(ground)
    assert all(record.species == "deer" for record in problem.records["dev"])
    spoilt = replace(problem, records={**problem.records, "dev": problem.records["report"]})
    with pytest.raises(ValueError, match=r"'giraffe', a report species.*must not be used to calibrate"):
        dev_sources(recipe, [spoilt], None, None, None)


def test_dev_pictures_are_looked_at_near_what_a_model_with_a_finder_finds(ground, monkeypatch, tmp_path):
    from salvit.model.build import build_model

    monkeypatch.setenv("SALVIT_CACHE", str(tmp_path))
    recipe, problem = problem_of(ground)
    torch.manual_seed(0)
    plain = build_model(recipe.model, None).eval()
    finding = build_model(replace(recipe.model, finder=True), None).eval()
    monkeypatch.setattr(finding.finder, "find", lambda raw, size: [(24.0, 24.0, 72.0, 72.0)] * len(raw))
    sides = []
    for model in (plain, finding):
        sources = dev_sources(recipe, [problem], model, None, lambda items, total, what: items)
        assert [pool.kind for pool, _ in sources] == ["novel", "base"]
        sides.append(torch.cat([source.load(0).box_sides for _, source in sources]))
    # half of the input and a margin of that on both sides, shown over all of it
    torch.testing.assert_close(sides[1], sides[0] / (0.5 * (1 + 2 * NEAR_MARGIN)), rtol=0.03, atol=0)


def test_only_data_sets_of_the_model_are_calibrated_on(ground):
    recipe, _ = problem_of(ground)
    assert restrict(recipe, ["creatures"]) == recipe
    for wrong in ([], ["cub"]):
        with pytest.raises(ValueError, match=r"data sets \(creatures\)"):
            restrict(recipe, wrong)


def test_halves_are_even_and_fixed():
    halves = [is_second_half(f"{number:05d}.jpg") for number in range(2000)]
    assert 900 < sum(halves) < 1100 and is_second_half("a.jpg") == is_second_half("a.jpg")
