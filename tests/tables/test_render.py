from dataclasses import replace
from pathlib import Path

from salvit.results import read_results
from salvit.tables.commands import lines_of
from salvit.tables.main import DEEPFASHION2_TABLE, MAIN
from salvit.tables.page import render_cost, render_page, render_priors
from salvit.tables.render import render_block, render_table, signed
from salvit.tables.rows import Ask, Block, Cell, Figure, Group, Line, Model

ROOT = Path(__file__).parent.parent.parent
COLUMNS = ("cow", "AwA")
CELLS = {
    "cow": Cell((Ask(data="animal_pose", unseen="cow"),)),
    "AwA": Cell((Ask(data="awa_pose", unseen="test"),)),
}


def group(label, name, paper, **more):
    return Group((Line(f"{label}, light", Model(name, name), CELLS, "f"),), label, {"cow": Figure(paper)}, **more)


def test_the_papers_figure_ours_the_interval_and_the_gap_stand_together(result):
    block = Block("", COLUMNS, (group("A", "a", 48.13),))
    rows = render_block(block, {"a-animal_pose-cow-1shot": result(50.0, 0.66)}).splitlines()
    assert rows[2:] == ["| *A* | 48.1 | – |", "| **A, light** | **50.0** ±0.7 | no data |", "| gap | +1.9 |  |"]


def test_a_line_that_was_not_run_is_named_below_the_table():
    text = render_block(Block("", COLUMNS, (group("A", "a", 48.13),)), {})
    assert text.endswith("\n*Recipe ready, not run on this hardware:* A, light (A).\n") and "gap" not in text


def test_a_line_of_other_species_than_the_papers_has_no_gap(result):
    (line,) = group("A", "a", 48.13).lines
    block = Block("", COLUMNS, (Group((replace(line, has_gap=False),), "A", {"cow": Figure(48.13)}),))
    text = render_block(block, {"a-animal_pose-cow-1shot": result(50.0, 0.66)})
    assert "**50.0** ±0.7" in text and "gap" not in text


def test_lines_of_one_label_are_named_together(result):
    groups = tuple(group("X", name, 1.0) for name in "abc")
    found = {"b-animal_pose-cow-1shot": result(50.0)}
    assert "hardware:* X, light (every row)." in render_block(Block("", COLUMNS, groups), {})
    assert "hardware:* X, light (X; X)." in render_block(Block("", COLUMNS, groups), found)


def test_changes_are_told_against_the_baseline_in_the_papers_figures_and_in_ours(result):
    block = Block("", COLUMNS, (group("A", "a", 44.0), group("B", "b", 46.0, is_baseline=True)))
    text = render_block(block, {"a-animal_pose-cow-1shot": result(31.0), "b-animal_pose-cow-1shot": result(30.5)})
    assert "| *A* | 44.0 (−2.0) |" in text and "**31.0** ±0.6 (+0.5)" in text
    assert "| *B* | 46.0 |" in text and "**30.5** ±0.6 |" in text


def test_the_papers_changes_are_differences_of_its_decimals():
    block = Block("", COLUMNS, (group("A", "a", 44.25), group("B", "b", 46.60, is_baseline=True)))
    assert "| *A* | 44.3 (−2.4) |" in render_block(block, {})


def test_a_difference_of_nothing_has_no_sign():
    assert [signed(value) for value in (0.04, -0.04, -1.25, 2.0)] == ["0.0", "0.0", "−1.2", "+2.0"]


def test_data_that_is_not_at_hand_is_said_so():
    text = render_table(DEEPFASHION2_TABLE, {})
    assert (
        "*no data:* DeepFashion2 is not at hand." in text
        and "*Recipe ready, no data:* the paper's full setting (every row)." in text
    )
    assert "0.130 ±0.004" in text and "36.2 ±1.5" in text


def test_commands_are_the_results_own_or_those_that_would_be_typed(result):
    text = render_table(MAIN, {"salvit-lite0-swift-animal_pose-cow-1shot": result(50.0)})
    folded = text.split("<details>")[1]
    assert "1,000 novel + 1,000 base episodes, seed 0, a machine" in folded
    assert "  salvit train recipes/x.toml --out run\n  salvit evaluate\n" in folded
    assert "salvit train recipes/main-protonet.toml --root $SALVIT_DATA/animal_pose --out run" in folded
    assert "recipes/animal_pose-lite0.toml" not in folded  # it was run: its own command is there


def test_every_number_of_shots_has_a_list_and_an_evaluation_of_its_own():
    then = render_table(MAIN, {}).split("Then:")[1]
    for shots in (1, 5):
        assert then.count(f"--out list-{shots}shot.json\n") == 1
        files = f"--list list-{shots}shot.json --model run/best.safetensors --out run-animal_pose-cat-{shots}shot.jsonl"
        assert then.count(files) == 1
        assert then.count(f"--result run-animal_pose-cat-{shots}shot-60q-T.json\n") == 1


def test_what_is_missing_with_failing_saliency_has_its_own_command(result):
    from salvit.tables.studies import FAILURES

    names = [ask.name_for("study-dinov2") for cell in lines_of(FAILURES)[1].cells.values() for ask in cell.asks]
    text = render_table(FAILURES, {name: result(50.0) for name in names})
    assert "salvit tables failures --run --root $SALVIT_DATA --model salvit-lite0-swift\n" in text
    assert "--model compared-fskd-reweighted\n" in text and "--model study-dinov2\n" not in text


def test_results_of_a_comparison_are_found_in_their_one_file(result):
    row = {"labels": {"method": "fskd", "shots": 1.0, "unseen": "cow"}, "result": {**result(33.3), "problem": "cow"}}
    from salvit.tables.main import COMPARED_TABLE

    text = render_table(COMPARED_TABLE, {"compared": {"suite": "compared", "rows": [row]}})
    assert "| **Lite0** | **33.3** ±0.6 | – |" in text
    assert "[compared-fskd-animal_pose-cow-1shot](../results/compared.json)" in text


def test_priors_and_cost_stand_beside_the_papers():
    rows = [{"provider": "rbd", "iou_to_reference": 49.0, "added_parameters": 0, "ms_per_picture": 105.79}]
    made = {"data": "animal_pose", "pictures": 200, "command": "salvit saliency compare --root folder --limit 200"}
    text = render_priors({"saliency-animal_pose-cow": {"figures": rows, **made}})
    assert "ours on 200 pictures (cow of Animal Pose)" in text and "--root $SALVIT_DATA/animal_pose --limit" in text
    assert "| RBD | 34.3 | 41.2 | **49.0** | 0 | **0.00** | 265.39 | **105.8** |" in text
    figures = [{"model": "SalViT (default)", "millions": 56.95, "ms_1_shot": 800.0, "ms_5_shot": 2400.0}]
    measured = {"figures": figures, "hardware": "a machine", "threads": 1, "command": "c", "keypoints": 11}
    assert "| SalViT (default) | 56.9 | **57.0** | +0.1 | 4.5 | **800** | 5.5 | **2400** |" in render_cost(
        {"cost": measured}
    )
    assert "not run on this hardware" in render_cost({})


def test_the_page_is_that_of_the_results():
    page = render_page(read_results(ROOT / "results"))
    assert (ROOT / "docs" / "tables.md").read_text() == page, "run `salvit tables --out docs/tables.md`"
