"""``salvit figures`` from the command line."""

from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from salvit.cli import app
from salvit.data.creatures import SPECIES


@pytest.fixture
def run(creatures, tiny, maps_of, monkeypatch, tmp_path):
    monkeypatch.setattr("salvit.priors.saliency_of_records", lambda detector: maps_of)
    common = ["--data", "creatures", "--root", str(creatures / "data"), "--unseen", SPECIES[1]]
    common += ["--list", str(creatures / "list.json"), "--out", str(tmp_path / "out"), "--episodes", "2"]

    def call(*arguments, detector=tiny):
        monkeypatch.setattr("salvit.predict.load", lambda *_, **__: detector)
        return CliRunner().invoke(app, ["figures", *arguments, *common])

    return call


def test_the_named_figures_are_written_and_the_same_again_with_the_same_seed(run, tmp_path):
    assert run("worst", "powers").exit_code == 0
    paths = [tmp_path / "out" / name for name in ("powers.jpg", "worst.jpg")]
    assert sorted((tmp_path / "out").iterdir()) == paths
    before = [path.read_bytes() for path in paths]
    refused = run("worst")
    assert isinstance(refused.exception, FileExistsError) and [path.read_bytes() for path in paths] == before
    assert run("worst", "powers", "--overwrite").exit_code == 0
    assert [path.read_bytes() for path in paths] == before


def test_an_unknown_figure_is_refused_with_those_that_there_are(run):
    with pytest.raises(ValueError, match="known: qualitative, worst, occlusions, saliency, powers"):
        raise run("best").exception


def test_what_a_model_cannot_give_is_refused_by_name_and_left_out_of_all(run, monkeypatch):
    match = SimpleNamespace(name="match")
    with pytest.raises(ValueError, match="has no exponents"):
        raise run("powers", detector=match).exception
    made = []
    monkeypatch.setattr("salvit.figures.make_figure", lambda name, ground: made.append(name))
    monkeypatch.setattr("salvit.figures.save_sheet", lambda sheet, path: None)
    done = run(detector=match)
    assert done.exit_code == 0 and "powers is left out: match" in done.output
    assert made == ["qualitative", "worst", "occlusions", "saliency"]
