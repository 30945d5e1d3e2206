"""``salvit info``."""

import pytest
from typer.testing import CliRunner

from salvit.cli import app
from salvit.model.describe import describe_model, protonet_trunk_parameters
from salvit.model.settings import PRESETS


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    return lambda *args: CliRunner().invoke(app, ["info", *args])


def test_default_model_is_printed_beside_the_papers_figures(run):
    result = run("salvit-resnet50")
    assert result.exit_code == 0, result.output
    rows = {line.split("│")[1].strip(): line for line in result.output.splitlines() if line.count("│") == 4}
    assert "56.95" in rows["total"]
    assert "56.9" in rows["total"].split("│")[3]
    assert "23.51" in rows["backbone"]
    assert "19.05" in rows["trunk of ProtoNet"]
    assert "19.0" in rows["trunk of ProtoNet"].split("│")[3]
    assert "does not state all widths" in " ".join(result.output.split())
    assert "kernel rbf" in result.output


def test_dino_says_why_it_differs_from_the_paper(run):
    text = " ".join(run("salvit-dino-s16").output.split())
    assert "52.91" in text
    assert "50.9" in text
    assert "2.0 M more" in text


@pytest.mark.parametrize("name", PRESETS)
def test_every_known_model_is_described_and_named_by_the_help(run, name):
    result = run(name)
    assert result.exit_code == 0, repr(result.exception)
    assert name in result.output and "total" in result.output
    assert name in run("--help").output


def test_ablation_rows_and_narrow_heads_are_described(run):
    assert "cnn-only" in run("cnn-only").output
    narrow = run("salvit-lite0", "--narrow").output
    assert "Narrow, for training" in narrow


@pytest.mark.parametrize("name", ["lite", "match", "methods", "fskd", "some.safetensors"])
def test_a_narrow_head_of_what_has_none_is_refused(run, name):
    result = run(name, "--narrow")
    assert isinstance(result.exception, ValueError) and f"{name} has no other head" in str(result.exception)


def test_an_unknown_model_is_an_error_that_lists_the_known_ones(run):
    result = run("salvit-vgg")
    assert isinstance(result.exception, ValueError)
    assert "salvit-lite0" in str(result.exception)


def test_parts_add_up_and_frozen_ones_are_not_trained():
    described = describe_model("salvit-resnet50")
    assert (
        sum(count for part, count in described.parameters.items() if part != "total") == described.parameters["total"]
    )
    assert described.trained == described.parameters["total"] - 23_508_032 + 14_964_736
    assert protonet_trunk_parameters() == 19_045_440


def test_a_pack_is_shown_with_its_shots_sides_and_unknown_names(run, tmp_path):
    import torch

    from salvit.packs import save_pack
    from salvit.types import Pack

    mask = torch.tensor([[True, True, False], [True, False, False]])
    names = ("left_eye", "right_eye", "nose")
    pack = Pack(torch.rand(2, 3, 4), mask, names, "match:lite0", "ab" * 32, pairs=(names[:2],), version="0.1.0")
    result = run(str(save_pack(pack, tmp_path / "eyes.safetensors")))
    rows = {line.split("│")[1].strip(): line for line in result.output.splitlines() if line.count("│") == 4}
    assert "2" in rows["left_eye"] and "right_eye" in rows["left_eye"] and "unknown" in rows["nose"]
    assert "match:lite0" in result.output and "abababababab" in result.output


def test_a_checkpoint_is_shown_with_its_recipe_and_state(run, tmp_path):
    import torch

    from salvit.checkpoint import save_checkpoint
    from salvit.recipes import Recipe

    path = tmp_path / "best.safetensors"
    save_checkpoint(path, Recipe(), {"x": torch.zeros(1000)}, {}, {"episode": 120})
    result = run(str(path))
    assert result.exit_code == 0, result.output
    assert "0.00 M in 1 tensors" in result.output and "episode: 120" in result.output and "model" in result.output


def test_match_is_described(run):
    assert "no training" in run("match").output


def test_a_file_of_something_else_is_an_error(run, tmp_path):
    import torch
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"nonsense")
    messages = {"other": "neither a pack nor", "broken": "not a safetensors file", "absent": "does not exist"}
    for name, message in messages.items():
        result = run(str(tmp_path / f"{name}.safetensors"))
        assert isinstance(result.exception, ValueError | OSError) and message in str(result.exception)


def test_all_compared_methods_are_listed_with_the_papers_size(run):
    result = run("methods")
    assert result.exit_code == 0, result.output
    rows = {line.split("│")[1].strip(): line.split("│") for line in result.output.splitlines() if line.count("│") == 5}
    assert {"protonet", "relationnet", "probintr", "fskd", "maml", "tfa"} <= set(rows)
    assert [cell.strip() for cell in rows["fskd"][3:5]] == ["65.15", "65.2"]
    assert "nearest to the prototype" in " ".join(rows["protonet"][2].split())


def test_one_method_is_described_by_its_name(run):
    output = run("relationnet").output
    assert "21.14" in output and "21.1" in output and "protonet" not in output
