from pathlib import Path

import pytest

from salvit.results import read_results
from salvit.tables import animal_pose_table, put_into

ROOT = Path(__file__).parent.parent


def result(model, species, harmonic):
    return {
        "data": "animal_pose",
        "problem": species,
        "model": model,
        "shots": 1,
        "harmonic": harmonic,
        "ci95": 0.5,
        "pck": {},
    }


def test_a_row_has_the_mean_of_its_species_only_where_all_are_there():
    animals = ("cat", "dog", "cow", "horse", "sheep")
    whole = {name: result("a", name, 10.0 * number) for number, name in enumerate(animals)}
    rows = animal_pose_table({**whole, "b": result("b", "cow", 7.0)}).splitlines()
    assert rows[2] == "| `a`, ours | 0.0 ± 0.5 | 10.0 ± 0.5 | 20.0 ± 0.5 | 30.0 ± 0.5 | 40.0 ± 0.5 | 20.0 |"
    assert rows[3] == "| `b`, ours | — | — | 7.0 ± 0.5 | — | — | — |"
    assert rows[-1].endswith("| 49.3 |")  # the paper's SalViT


def test_transductive_and_occluded_results_are_not_in_the_usual_table():
    plain = result("a", "cow", 7.0)
    others = {"t": {**plain, "protocol": {"transductive": True}}, "o": {**plain, "protocol": {"occluder": "grey"}}}
    assert "ours" not in animal_pose_table(others) and "`a`, ours" in animal_pose_table({**others, "p": plain})


def test_a_table_goes_between_its_markers_and_nowhere_else():
    text = "a\n<!-- results: x -->\nold\n<!-- end of results -->\nb\n"
    assert put_into(text, "x", "new\n") == "a\n<!-- results: x -->\nnew\n<!-- end of results -->\nb\n"
    with pytest.raises(ValueError, match="has no place"):
        put_into("nothing", "x", "new\n")


def test_the_tables_of_the_readme_are_those_of_the_results():
    readme = (ROOT / "README.md").read_text()
    table = animal_pose_table(read_results(ROOT / "results"))
    assert put_into(readme, "animal_pose", "\n" + table + "\n") == readme, "run `salvit tables --into README.md`"
