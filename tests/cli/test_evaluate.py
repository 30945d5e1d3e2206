"""``salvit evaluate`` and ``salvit score``: parts of a list, and options that would be ignored."""

import pytest
from typer.testing import CliRunner

from salvit.cli import app
from salvit.data.creatures import write_creatures


def test_one_kind_is_evaluated_and_scored_again(tmp_path):
    write_creatures(tmp_path / "data", ("fox", "leopard", "deer", "giraffe"), 6, 0, size_hw=(120, 160))
    data = ["--root", str(tmp_path / "data"), "--unseen", "giraffe"]
    told = ["data", "freeze", "creatures", *data, "--episodes", "1", "--queries", "2", "--out"]
    assert CliRunner().invoke(app, [*told, str(tmp_path / "list.json")]).exit_code == 0
    common, out = ["--data", "creatures", *data, "--list", str(tmp_path / "list.json")], tmp_path / "p.jsonl"
    more = ["--kind", "novel", "--out", str(out), "--result", str(tmp_path / "r.json"), "--device", "cpu"]
    done = CliRunner().invoke(app, ["evaluate", *common, *more])
    assert done.exit_code == 0, repr(done.exception)
    words = ["score", str(out), *common, "--out", str(tmp_path / "s.json")]
    whole = CliRunner().invoke(app, words)
    assert isinstance(whole.exception, ValueError) and "--kind" in str(whole.exception)
    assert CliRunner().invoke(app, [*words, "--kind", "novel"]).exit_code == 0
    assert (tmp_path / "s.json").read_bytes() == (tmp_path / "r.json").read_bytes()


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["--eta", "2"], "--transductive"),
        (["--rounds", "2"], "--transductive"),
        (["--kappa", "0.8"], "--transductive"),
        (["--assignment", "oracle"], "--transductive"),
        (["--selection", "score"], "--transductive"),
        (["--protocol", "paper"], "--transductive"),
        (["--occlusion", "0.5"], "--occluder"),
    ],
)
def test_options_that_would_be_ignored_are_refused(words, needed, tmp_path):
    common = ["evaluate", "--data", "creatures", "--root", "absent", "--list", "absent.json"]
    result = CliRunner().invoke(app, [*common, "--out", str(tmp_path / "p.jsonl"), *words])
    assert isinstance(result.exception, ValueError)
    assert f"without {needed} nothing comes of {words[0]}" in str(result.exception)
