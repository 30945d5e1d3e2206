from pathlib import Path

import pytest
from typer.testing import CliRunner

from salvit.cli import app
from salvit.results import read_results
from salvit.tables.readme import TRANSDUCTIVE, animal_pose_table, put_into

ROOT = Path(__file__).parent.parent.parent
ANIMALS = ("cat", "dog", "cow", "horse", "sheep")


def whole_line(result, model, more="-1shot"):
    return {f"{model}-animal_pose-{name}{more}": result(10.0 * number, 0.5) for number, name in enumerate(ANIMALS)}


def test_a_line_is_there_where_all_species_are_with_the_mean_of_five_shots_beside(result):
    found = whole_line(result, "match-lite0") | whole_line(result, "salvit-lite0-near")
    found |= whole_line(result, "salvit-lite0-near", "-5shot")
    found["salvit-lite0-swift-animal_pose-cow-1shot"] = result(7.0, 0.5)
    rows = animal_pose_table(found).splitlines()
    species = "0.0 ± 0.5 | 10.0 ± 0.5 | 20.0 ± 0.5 | 30.0 ± 0.5 | 40.0 ± 0.5 | 20.0"
    assert rows[2] == f"| `match` on Lite0, untrained, ours | {species} | — |"
    assert rows[3] == f"| SalViT on Lite0, near, ours | {species} | 20.0 |"
    assert rows[5].endswith("| 49.3 | 57.1 |") and rows[6].endswith("| 52.5 | 59.4 |")  # the paper's SalViT
    assert len(rows) == 7 and len({row.count("|") for row in rows}) == 1


def test_a_row_with_transduction_has_its_own_number_of_episodes_below_the_table(result):
    table = animal_pose_table(whole_line(result, "salvit-lite0-swift", "-1shot-60q-T"))
    assert "+T, ours" in table and table.splitlines()[-2:] == ["", TRANSDUCTIVE] and "200 episodes" in TRANSDUCTIVE
    assert TRANSDUCTIVE not in animal_pose_table({})


def test_other_results_are_not_in_the_short_table(result):
    names = ("occlusion-rgb-lite0-animal_pose-cow-1shot", "salvit-lite0-swift-animal_pose-cow-1shot-grey50-novel")
    assert "ours" not in animal_pose_table({name: result(7.0) for name in names})


def test_a_table_goes_between_its_markers_and_nowhere_else():
    text = "a\n<!-- results: x -->\nold\n<!-- end of results -->\nb\n"
    assert put_into(text, "x", "new\n") == "a\n<!-- results: x -->\nnew\n<!-- end of results -->\nb\n"
    with pytest.raises(ValueError, match="has no place"):
        put_into("nothing", "x", "new\n")


def test_the_tables_of_the_readme_are_those_of_the_results():
    readme = (ROOT / "README.md").read_text()
    table = animal_pose_table(read_results(ROOT / "results"))
    assert put_into(readme, "animal_pose", "\n" + table + "\n") == readme, "run `salvit tables --into README.md`"


def test_one_command_writes_the_page_and_the_readme(tmp_path):
    readme, page = tmp_path / "README.md", tmp_path / "tables.md"
    readme.write_text("<!-- results: animal_pose -->\n<!-- end of results -->\n", encoding="utf-8")
    made = CliRunner().invoke(app, ["tables", "--results", str(tmp_path), "--out", str(page), "--into", str(readme)])
    assert made.exit_code == 0, made.output
    assert "| " in readme.read_text(encoding="utf-8")
    assert page.read_text(encoding="utf-8").startswith("# ")
