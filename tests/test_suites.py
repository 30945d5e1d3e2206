"""Every study on drawn creatures, from the command line to the table and the plot."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from salvit.cli.evaluate import about_run
from salvit.data.creatures import SPECIES, write_creatures
from salvit.data.episodes import EpisodeSettings
from salvit.data.frozen import freeze, read_frozen, write_frozen
from salvit.data.splits import open_problem
from salvit.model.build import build_model
from salvit.recipes import recipe_from_table
from salvit.suite_report import table_of, write_report
from salvit.suites import (
    ASSIGNMENTS,
    Case,
    Study,
    assignments,
    exponents,
    fixed_exponent,
    occlusion,
    pseudo_labels,
    saliency,
    shots,
)
from salvit.transductive import TransductiveSettings


def track(items, total, what):
    return items


def maps_of(record):
    height, width = record.image_hw
    plane = np.zeros((height, width), dtype=np.float32)
    x1, y1, x2, y2 = (int(side) for side in record.box)
    plane[y1:y2, x1:x2] = 1.0
    return plane


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """Data and a frozen list: 2 shots, 6 queries, 1 episode of each kind."""
    folder = tmp_path_factory.mktemp("suites")
    write_creatures(folder / "data", SPECIES[:4], 10, 0, size_hw=(120, 160))
    problem = open_problem("creatures", folder / "data", SPECIES[3])
    settings = EpisodeSettings(shots=2, queries=6, crop="gt-random")
    write_frozen(freeze(problem, settings, episodes=1, seed=0), folder / "list.json")
    return folder, read_frozen(folder / "list.json", problem, purpose="report")


@pytest.fixture(scope="module")
def tiny():
    torch.manual_seed(0)
    settings = {"preset": "salvit-lite0", "width": "narrow", "saliency": "rbd", "input_size": 96}
    return build_model(recipe_from_table({"model": settings}).model, backbone_weights=None)


@pytest.fixture
def study(ground, tiny, tmp_path):
    (tmp_path / "cases").mkdir()
    return Study(
        ground[1],
        (("tiny", tiny),),
        lambda detector: maps_of,
        lambda detector, listed, settings: about_run(detector, listed, 0, settings),
        tmp_path,
        track,
    )


def test_occlusion_measures_each_kind_and_share_and_shares_the_clean_case(study):
    cases = list(occlusion(study, (0.0, 1.0)))
    assert [(case.labels["occluder"], case.labels["hidden"]) for case in cases] == [
        *(("grey", 0.0), ("grey", 100.0), ("average", 0.0), ("average", 100.0)),
        *(("background", 0.0), ("background", 100.0)),
    ]
    assert cases[0].result is cases[2].result is cases[4].result
    assert cases[1].result["protocol"]["occluder"] == "grey" and cases[1].result["protocol"]["occlusion"] == 1.0


def test_a_case_that_was_done_is_not_done_again(study, monkeypatch):
    first = list(occlusion(study, (1.0,)))
    monkeypatch.setattr("salvit.suites.predict_list", lambda *_, **__: pytest.fail("it was done again"))
    again = list(occlusion(study, (1.0,)))
    assert [case.figure for case in again] == [case.figure for case in first]
    assert not list(study.folder.rglob("*.jsonl"))


def test_assignments_are_those_of_the_papers_table(study):
    cases = list(assignments(study))
    assert tuple(case.labels["assignment"] for case in cases) == ASSIGNMENTS
    assert [case.result["protocol"]["transductive"] for case in cases] == [False, True, True, True]
    assert [case.result["model"] for case in cases] == [
        study.detectors[0][1].name + end for end in ("", "+T", "+T", "+T")
    ]
    assert [case.figure for case in assignments(study)] == [case.figure for case in cases]


def test_the_shared_first_search_gives_what_a_single_run_gives(study, tmp_path):
    from salvit.transductive import TransductiveSettings

    shared = {case.labels["assignment"]: case.result["pck"] for case in assignments(study)}
    detector = study.detectors[0][1]
    encoded = study.encode(detector, study.listed)
    for way in ("average", "soft"):
        alone = study.case({"way": way}, detector, study.listed, lambda: encoded, TransductiveSettings(assignment=way))
        assert alone.result["pck"] == shared[way]


def test_shots_use_the_first_supports_and_the_same_queries(study):
    cases = list(shots(study, 2))
    assert [case.result["shots"] for case in cases] == [1, 2]
    with pytest.raises(ValueError, match="freeze one with --shots 5"):
        list(shots(study, 5))


def test_pseudo_labels_stand_beside_the_inductive_result_on_the_same_queries(study):
    cases = list(pseudo_labels(study, ((3, 1), (6, 2))))
    assert [case.labels["queries"] for case in cases] == ["3 (η 1)", "3 (η 1)", "6 (η 2)", "6 (η 2)"]
    assert cases[0].result["list_hash"] == cases[1].result["list_hash"] != cases[2].result["list_hash"]


def test_a_case_is_measured_again_where_the_way_to_search_has_changed(study):
    few, more = (list(assignments(study, TransductiveSettings(eta=eta, sigma=5.0))) for eta in (1, 4))
    assert few[0].result["pck"] == more[0].result["pck"], "inductive is as before"
    assert few[2].result["protocol"]["transduction"]["eta"] == 1
    assert more[2].result["protocol"]["transduction"]["eta"] == 4


def test_exponents_are_set_for_a_moment_and_the_model_is_as_before(study, tiny):
    before = tiny.weights_sha256
    cases = list(exponents(study, (0.5,)))
    assert [case.labels["exponent"] for case in cases] == ["as trained", 0.5] and tiny.weights_sha256 == before
    with fixed_exponent(tiny, 2.0):
        (block,) = tiny.encoder.blocks
        mask, exponent = block.morphology(torch.full((1, 4), 0.5), None, torch.zeros(1, 4, 384))
        assert exponent is None and mask.tolist() == [[0.25] * 4]


def test_saliency_fails_in_salvit_and_in_models_that_are_weighted_by_it(study, match, monkeypatch):
    monkeypatch.setattr("salvit.suites.failure_sweep", lambda: iter([("emptied", 0.0)]))
    both = replace(study, detectors=(*study.detectors, ("match", match)))
    cases = list(saliency(both))
    assert [(case.labels["model"], case.labels["failure"]) for case in cases] == [
        *(("tiny", "none"), ("tiny", "emptied")),
        *(("match, re-weighted", "none"), ("match, re-weighted", "emptied")),
    ]
    assert cases[2].result["pck"] != cases[3].result["pck"]  # without features match finds nothing


def case(model, place, figure):
    result = {"harmonic": figure, "ci95": 1.5, "data": "animal_pose", "problem": "cow", "list_hash": "abc" * 20}
    return Case({"model": model, "hidden": place}, {**result, "episodes": {"novel": 2, "base": 2}, "pck": {}})


def test_the_table_has_a_row_for_each_line_and_a_dash_where_nothing_was_measured(tmp_path):
    cases = [case("a", 0.0, 50.0), case("a", 100.0, 20.25), case("b", 0.0, 51.0)]
    lines = table_of(cases, "hidden").splitlines()
    assert lines[:4] == [
        "| model | hidden 0 | hidden 100 |",
        "|---|---|---|",
        "| a | 50.0 ± 1.5 | 20.2 ± 1.5 |",
        "| b | 51.0 ± 1.5 | — |",
    ]
    facts, table, plot = write_report("occlusion", cases, "hidden", tmp_path)
    assert json.loads(facts.read_text())["suite"] == "occlusion" and table.read_text().splitlines() == lines
    assert Image.open(plot).width > 800


def test_one_kind_alone_has_its_own_figure():
    made = case("a", 0.0, None)
    made.result.update(pck={"novel": {"0.1": 33.0}}, interval={"novel": {"0.1": 2.0}})
    assert made.figure == (33.0, 2.0)
    assert "novel PCK@0.1" in table_of([made], "hidden")


def test_the_command_line_runs_a_study(ground, tmp_path):
    from typer.testing import CliRunner

    from salvit.cli import app

    folder, listed = ground
    common = ["--data", "creatures", "--root", str(folder / "data"), "--unseen", listed.problem.unseen]
    common += ["--list", str(folder / "list.json"), "--model", "floor=match", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(
        app, ["suite", "occlusion", *common, "--hidden", "0", "--hidden", "100", "--device", "cpu"]
    )
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("cases", "occlusion.json", "occlusion.md", "occlusion.png")
    }
    assert "| floor | grey |" in (tmp_path / "out" / "occlusion.md").read_text()
    one = CliRunner().invoke(app, ["suite", "shots", *common, "--most", "2", "--kind", "novel", "--device", "cpu"])
    assert one.exit_code == 0 and "novel PCK@0.1" in one.output, one.output
