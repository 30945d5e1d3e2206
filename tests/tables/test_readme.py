from pathlib import Path

import pytest
from typer.testing import CliRunner

from salvit.cli import app
from salvit.results import read_results
from salvit.tables.readme import TRANSDUCTIVE, animal_pose_table, put_into

ROOT = Path(__file__).parent.parent.parent
ANIMALS = ("cat", "dog", "cow", "horse", "sheep")


def test_a_row_has_the_mean_of_its_species_only_where_all_are_there(result):
    names = {name: f"match-lite0-animal_pose-{name}-1shot" for name in ANIMALS}
    found = {names[name]: result(10.0 * number, 0.5) for number, name in enumerate(ANIMALS)}
    found["salvit-lite0-swift-animal_pose-cow-1shot"] = result(7.0, 0.5)
    rows = animal_pose_table(found).splitlines()
    whole = "0.0 ± 0.5 | 10.0 ± 0.5 | 20.0 ± 0.5 | 30.0 ± 0.5 | 40.0 ± 0.5 | 20.0 |"
    assert rows[2] == f"| `match` on Lite0, untrained, ours | {whole}"
    assert rows[3] == "| SalViT on Lite0, swift, ours | — | — | 7.0 ± 0.5 | — | — | — |"
    assert rows[-1].endswith("| 49.3 |")  # the paper's SalViT


def test_a_row_with_transduction_has_its_own_number_of_episodes_below_the_table(result):
    table = animal_pose_table({"salvit-lite0-swift-animal_pose-cow-1shot-60q-T": result(7.0)})
    assert "+T, ours" in table and table.splitlines()[-2:] == ["", TRANSDUCTIVE] and "200 episodes" in TRANSDUCTIVE
    assert "+T" not in animal_pose_table({})


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
