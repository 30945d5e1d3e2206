import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from salvit.cli import app

SALVIT = [sys.executable, "-c", "from salvit.cli import main; main()"]


def run(*words, cwd=None):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return subprocess.run([*SALVIT, *map(str, words)], capture_output=True, text=True, cwd=cwd, env=environment)


def test_one_command_finds_the_points_prints_them_and_says_where_it_wrote(marked_folder):
    out, draw = marked_folder / "found" / "out.json", marked_folder / "found" / "pictures"
    done = run(
        "detect", "--support", "support.json", "--query", "queries", "--out", out, "--draw", draw, cwd=marked_folder
    )
    assert done.returncode == 0, done.stderr
    assert "nose" in done.stdout and "1.png" in done.stdout and str(out) in done.stdout
    assert len(json.loads(out.read_text())["annotations"]) == 3
    assert sorted(path.name for path in draw.iterdir()) == ["1.jpg", "2.jpg", "3.jpg"]


def test_one_bad_query_never_stops_the_others_and_the_exit_code_says_so(marked_folder):
    (marked_folder / "queries" / "0.png").write_bytes(b"")
    out = marked_folder / "out.json"
    done = run("detect", "--support", marked_folder / "support.csv", "--query", marked_folder / "queries", "--out", out)
    assert done.returncode == 3 and "0.png: the file is empty" in done.stderr
    assert len(json.loads(out.read_text())["annotations"]) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--support", "absent.json"], "does not exist"),
        (["--box", "1,2,3"], "expected four numbers"),
        (["--box", "9,9,3,3"], "X1 < X2"),
        (["--model", "magic"], "known: match"),
        (["--device", "tpu"], "present: cpu"),
        (["--out", "support.json"], "exists; choose another name, or add --overwrite"),
        (["--out", "/proc/nowhere/out.json"], "cannot write"),
        (["--draw", "support.json"], "expected a folder"),
    ],
)
def test_an_error_is_one_line_without_a_traceback(marked_folder, monkeypatch, change, message):
    monkeypatch.chdir(marked_folder)
    words = ["detect", "--support", "support.json", "--query", "queries", *change]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, ValueError | OSError) and message in str(result.exception)
    if change[0] == "--box":
        done = run(*words, cwd=marked_folder)
        assert done.returncode == 1 and done.stderr.startswith("error: ") and "Traceback" not in done.stderr


def test_pictures_of_the_same_name_from_two_folders_are_both_drawn(marked_folder, monkeypatch):
    monkeypatch.chdir(marked_folder)
    (marked_folder / "other").mkdir()
    (marked_folder / "other" / "1.png").write_bytes((marked_folder / "queries" / "1.png").read_bytes())
    words = ["detect", "--support", "support.json", "--query", "queries/1.png", "other/1.png", "--draw", "drawn"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert sorted(path.name for path in (marked_folder / "drawn").iterdir()) == ["1-2.jpg", "1.jpg"]
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 3  # drawn before: left alone


def test_a_video_says_how_to_extract_frames(marked_folder, monkeypatch):
    monkeypatch.chdir(marked_folder)
    (marked_folder / "film.mp4").write_bytes(b"film")
    result = CliRunner().invoke(app, ["detect", "--support", "support.json", "--query", "film.mp4"])
    assert result.exit_code == 3 and "ffmpeg" in result.output


def test_ctrl_c_midway_saves_what_was_done_and_exits_130(marked_folder):
    for number in range(400):
        (marked_folder / "queries" / f"more{number:03d}.png").write_bytes(
            (marked_folder / "queries" / "1.png").read_bytes()
        )
    out = marked_folder / "out.json"
    words = ["detect", "--support", "support.json", "--query", "queries", "--out", str(out), "--batch", "1"]
    process = subprocess.Popen([*SALVIT, *words], cwd=marked_folder, env={**os.environ, "OMP_NUM_THREADS": "1"})
    deadline = time.monotonic() + 60
    while not list(marked_folder.glob(".out.json.*.spool.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    saved = len(json.loads(out.read_text())["annotations"])
    assert 0 < saved < 403


def test_help_answers_without_importing_torch():
    code = "import sys; from salvit.cli import app; app(['--help'], standalone_mode=False)\n"
    code += "assert not {'torch', 'numpy', 'PIL', 'transformers'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_the_version_is_printed():
    assert CliRunner().invoke(app, ["--version"]).output.startswith("salvit 0.")
