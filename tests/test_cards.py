import json

import pytest
from typer.testing import CliRunner

from salvit.cards import card_table
from salvit.cli import app


def result(model, *, shots=1, harmonic=50.0, list_hash="aa", **protocol):
    at = {"0.05": 20.0, "0.1": harmonic, "0.15": 60.0, "0.2": 70.0}
    calibration = {"mean_ellipse_area": 123.4, "presence_auroc": 0.812, "coverage": {}}
    return {
        **{"data": "animal_pose", "problem": "cow", "model": model, "shots": shots, "list_hash": list_hash},
        **{"pck": {"novel": at, "base": at}, "harmonic": harmonic, "ci95": 0.7, "coverage": [39.0, 85.0, 98.0]},
        **{"calibration": calibration, "protocol": {"transductive": False, **protocol}},
    }


RESULTS = {
    "lite-5": result("lite", shots=5, harmonic=61.0, list_hash="bb"),
    "lite-1": result("lite"),
    "lite-t": result("lite", harmonic=99.0, transductive=True),
    "lite-o": result("lite", harmonic=98.0, occluder="grey"),
    "lite-both": result("lite", harmonic=97.0, ways="both"),
    "match": result("match:lite0", harmonic=22.6),
    "match-dino": result("match:dinov2-s14", harmonic=20.5),
    "saliency": {"figures": []},
}


def test_each_report_is_a_row_beside_match_on_the_same_list():
    one, five = [line for line in card_table(RESULTS, "lite").splitlines() if "cow" in line]
    assert one == (
        "| animal_pose, cow | 1 | 20.0 / 20.0 | 50.0 / 50.0 | 70.0 / 70.0 | 50.0 ± 0.7 | 22.6 | 39.0, 85.0, 98.0 | 123 "
        "| 0.81 |"
    )
    assert "61.0 ± 0.7 | not run" in five


def test_without_results_there_is_no_table():
    with pytest.raises(ValueError, match="there is no result of dino"):
        card_table(RESULTS, "dino")


def test_the_command_fills_the_card_at_its_marker(tmp_path):
    (tmp_path / "results").mkdir()
    for name, values in RESULTS.items():
        (tmp_path / "results" / f"{name}.json").write_text(json.dumps(values))
    card = tmp_path / "lite.md"
    card.write_text("before\n<!-- results: card -->\nstale\n<!-- end of results -->\nafter\n")
    words = ["weights", "card", "lite", "--into", str(card), "--results", str(tmp_path / "results")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.exception
    text = card.read_text()
    assert "stale" not in text and "22.6" in text and text.startswith("before") and text.endswith("after\n")
    wrong = CliRunner().invoke(app, ["weights", "card", "light", "--into", str(card)])
    assert "expected lite or dino" in str(wrong.exception)
