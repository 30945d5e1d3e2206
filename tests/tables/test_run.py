"""Running tables at toy scale: drawn creatures, a tiny model, real processes, real kills."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from salvit.data.creatures import write_creatures
from salvit.recipes import read_recipe
from salvit.results import write_result
from salvit.tables.commands import training_of
from salvit.tables.contents import find_tables
from salvit.tables.rows import asks_of
from salvit.tables.run import Places, paper_figures, plan

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def places(tmp_path):
    return Places(tmp_path / "data", ROOT / "recipes", tmp_path / "runs", tmp_path / "results")


def test_every_result_that_is_missing_is_in_one_job_and_the_smallest_comes_first(places):
    jobs = plan(find_tables(["main"]), places)
    assert sum(len(job.asks) for job in jobs) == len(asks_of(find_tables(["main"])))
    assert [job.seconds for job in jobs] == sorted(job.seconds for job in jobs)
    assert len({job.name for job in jobs}) == len(jobs)
    assert all(len({(ask.data, ask.unseen) for ask in job.asks}) == 1 for job in jobs)


def test_a_result_that_is_there_is_not_run_again(places):
    (first, *_) = plan(find_tables(["toy"]), places)
    write_result({}, places.results / f"{first.asks[0].name_for(first.model.name)}.json")
    again = {job.name: job for job in plan(find_tables(["toy"]), places)}
    assert again[first.name].asks == first.asks[1:]


def test_a_named_model_is_planned_whether_meant_for_this_hardware_or_not(places):
    (job,) = plan(find_tables(["main"]), places, models=["main-protonet"], unseen=["cow"])
    assert [ask.shots for ask in job.asks] == [1, 5] and job.changes == ("data.unseen=cow",)
    assert not [job for job in plan(find_tables(["main"]), places) if job.model.name == "main-protonet"]


def test_another_data_set_is_set_beside_the_recipe(places):
    (job,) = plan(find_tables(["main"]), places, models=["salvit-lite0-swift"], unseen=["val"])
    assert job.changes == ("data.name=cub", "data.unseen=val") and job.recipe.data.name == "cub"


def test_a_training_that_goes_on_from_another_is_planned_with_both_times(places):
    (job,) = plan(find_tables(["main"]), places, models=["salvit-lite0-near"], unseen=["sheep"])
    first = read_recipe(places.recipes / "animal_pose-near-first.toml").train.episodes
    assert job.recipe.train.episodes < first and job.episodes == first + job.recipe.train.episodes
    assert job.train_seconds == pytest.approx(0.5 * (first + job.recipe.train.episodes))
    told = training_of(job.model, job.asks[0]).split(" && ")
    assert told[0].endswith("--out first --set data.unseen=cow --set 'data.dev_species=[\"sheep\"]'")
    assert told[1].endswith("--out run --start first/last.safetensors --set data.unseen=sheep")


def test_a_result_holds_the_papers_figure_of_its_own_cell():
    figures = paper_figures(find_tables(["main"]))
    assert figures["salvit-lite0-swift-animal_pose-cow-1shot"] == 48.13
    assert figures["salvit-lite0-swift-cub-all-5shot-60q-T"] == 89.81
    assert "match-lite0-animal_pose-cow-1shot" not in figures


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    species = ("fox", "leopard", "deer", "giraffe")
    write_creatures(folder / "data" / "creatures", species, 8, 0, size_hw=(120, 160))
    return folder


def start(ground, name):
    """``salvit tables toy --run`` with results and runs of its own; cached tokens are shared."""
    out = ground / name
    command = [sys.executable, "-m", "salvit", "tables", "toy", "--run", "--root", str(ground / "data")]
    command += ["--results", str(out / "results"), "--runs", str(out / "runs"), "--recipes", str(ROOT / "recipes")]
    command += ["--device", "cpu", "--threads", "1", "--out", str(out / "tables.md")]
    environment = {**os.environ, "SALVIT_CACHE": str(ground / "cache"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process):
    said = process.communicate(timeout=1200)
    assert process.returncode == 0, said
    return said[1]


def kill_when(process, happened):
    deadline = time.monotonic() + 1200
    while not happened() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert happened()


def read(folder):
    """All results without what a clock said."""
    found = {path.name: json.loads(path.read_text()) for path in (folder / "results").glob("*.json")}
    return {name: {**result, "timing": None} for name, result in found.items()}


@pytest.mark.slow
def test_tables_killed_in_training_and_between_results_end_as_if_nothing_had_happened(ground):
    said = finish(start(ground, "whole"))
    whole = read(ground / "whole")
    assert len(whole) == 4 and "[2/2]" in said and "left" in said
    out = ground / "killed"
    last = out / "runs" / "toy-creatures-creatures-giraffe" / "last.safetensors"
    kill_when(start(ground, "killed"), last.exists)
    assert not list((out / "results").glob("*.json"))
    kill_when(start(ground, "killed"), lambda: any((out / "results").glob("*.json")))
    before = {path: path.stat().st_mtime_ns for path in (out / "results").glob("*.json")}
    finish(start(ground, "killed"))
    assert read(out) == whole
    assert all(path.stat().st_mtime_ns == changed for path, changed in before.items())
    assert (out / "tables.md").read_text() == (ground / "whole" / "tables.md").read_text()
    again = finish(start(ground, "killed"))
    assert "0 results are missing" in again
    result = whole["toy-creatures-creatures-giraffe-1shot-6q-T-zoom.json"]
    assert result["command"].startswith(
        "salvit train recipes/toy-creatures.toml --root $SALVIT_DATA/creatures --out run"
    )
    assert result["protocol"]["training_episodes"] == 12 and str(ground) not in json.dumps(result)


def test_a_data_set_that_is_not_there_stops_its_job_alone(places, monkeypatch):
    from typer.testing import CliRunner

    from salvit.cli import app

    arguments = ["tables", "main", "--run", "--root", str(places.data), "--results", str(places.results)]
    arguments += ["--runs", str(places.runs), "--recipes", str(places.recipes), "--model", "match-lite0"]
    done = CliRunner().invoke(app, [*arguments, "--unseen", "cow", "--unseen", "val"])
    assert done.exit_code == 3 and done.output.count("could not be done") == 2 and "does not exist" in done.output


def test_a_dry_run_says_what_would_be_run(places):
    from typer.testing import CliRunner

    from salvit.cli import app

    arguments = ["tables", "toy", "--run", "--dry", "--root", str(places.data), "--recipes", str(places.recipes)]
    done = CliRunner().invoke(app, [*arguments, "--results", str(places.results), "--runs", str(places.runs)])
    assert done.exit_code == 0 and "toy-creatures-creatures-deer: 2 results, about 2:05 min" in done.output


def test_tables_ask_where_the_data_sets_are(monkeypatch):
    from salvit.cli.tables import _data_folder

    monkeypatch.delenv("SALVIT_DATA", raising=False)
    with pytest.raises(ValueError, match="--root DIR, or set SALVIT_DATA"):
        _data_folder(None)
    monkeypatch.setenv("SALVIT_DATA", "/somewhere")
    assert _data_folder(None) == Path("/somewhere") and _data_folder(Path("/else")) == Path("/else")
