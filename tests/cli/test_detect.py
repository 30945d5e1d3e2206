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


def wait_for_lines(path, count):
    """Wait until a run has written that many lines."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if path.exists() and path.read_text().count("\n") >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} has not {count} lines")


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
        (["--model", "magic"], "known: lite, dino, match"),
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
    assert result.exit_code == 1 and "ffmpeg" in result.output


def test_where_no_picture_can_be_read_the_exit_code_is_1(marked_folder):
    words = ["detect", "--support", "support.json", "--out", "out.json", "--overwrite"]
    (marked_folder / "out.json").write_text("from before")
    absent = run(*words, "--query", "absent.jpg", cwd=marked_folder)
    assert absent.returncode == 1 and "no picture to look in: absent.jpg: no such file" in absent.stderr
    assert (marked_folder / "out.json").read_text() == "from before"
    (marked_folder / "empty.png").write_bytes(b"")
    empty = run(*words, "--query", "empty.png", cwd=marked_folder)
    assert empty.returncode == 1 and "the file is empty" in empty.stderr
    assert "no picture could be read, so out.json holds no detection" in empty.stderr
    assert json.loads((marked_folder / "out.json").read_text())["annotations"] == []


@pytest.mark.parametrize("words", [["--min-score", "1.1"], ["--min-score", "-1"], ["--max-megapixels", "0"]])
def test_numbers_out_of_range_are_refused(marked_folder, monkeypatch, words):
    monkeypatch.chdir(marked_folder)
    result = CliRunner().invoke(app, ["detect", "--support", "support.json", "--query", "queries", *words])
    assert result.exit_code == 2 and words[0] in result.output


def test_ctrl_c_midway_saves_what_was_done_and_exits_130(marked_folder):
    for number in range(400):
        (marked_folder / "queries" / f"more{number:03d}.png").write_bytes(
            (marked_folder / "queries" / "1.png").read_bytes()
        )
    out = marked_folder / "out.json"
    words = ["detect", "--support", "support.json", "--query", "queries", "--out", str(out), "--batch", "1"]
    process = subprocess.Popen(
        [*SALVIT, *words],
        cwd=marked_folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a test run in the background ignores it
    )
    wait_for_lines(marked_folder / "out.json.partial.jsonl", 5)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    saved = len(json.loads(out.read_text())["annotations"])
    assert 0 < saved < 403
    assert (marked_folder / "out.json.partial.jsonl").exists()  # --resume goes on from it


def test_help_answers_without_importing_torch():
    code = "import sys; from salvit.cli import app; app(['--help'], standalone_mode=False)\n"
    code += "assert not {'torch', 'numpy', 'PIL', 'transformers'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_the_version_is_printed():
    assert CliRunner().invoke(app, ["--version"]).output.startswith("salvit 0.")


def invoke(folder, *words):
    """``salvit detect`` with ``match``: it finds coloured discs, which no trained model has to."""
    told = ["detect", "--support", "support.json", "--model", "match", *words]
    result = CliRunner().invoke(app, told, env={"COLUMNS": "200"})
    assert not isinstance(result.exception, Exception), result.exception
    return result


def test_a_run_that_was_killed_goes_on_where_it_was(marked_folder):
    for number in range(60):
        (marked_folder / "queries" / f"more{number:03d}.png").write_bytes(
            (marked_folder / "queries" / "1.png").read_bytes()
        )
    lines = marked_folder / "out.json.partial.jsonl"
    words = ["detect", "--support", "support.json", "--query", "queries", "--out", "out.json", "--batch", "1"]
    process = subprocess.Popen([*SALVIT, *words], cwd=marked_folder, env={**os.environ, "OMP_NUM_THREADS": "1"})
    wait_for_lines(lines, 4)
    process.kill()
    process.wait(timeout=60)
    assert not (marked_folder / "out.json").exists()
    done = lines.read_text().count("\n") - 1
    with lines.open("a") as file:
        file.write('{"image": {"file_na')  # killed in the middle of a line
    refused = run(*words, cwd=marked_folder)
    assert refused.returncode == 1 and "--resume goes on with it" in refused.stderr
    again = run(*words, "--resume", cwd=marked_folder)
    assert again.returncode == 0, again.stderr
    assert f"{done} of 63 were done by the run before" in again.stdout and not lines.exists()
    content = json.loads((marked_folder / "out.json").read_text())
    assert sorted(image["file_name"] for image in content["images"]) == sorted(
        f"queries/{path.name}" for path in (marked_folder / "queries").iterdir()
    )


def test_a_run_with_other_options_is_not_gone_on_with(marked_folder, monkeypatch):
    monkeypatch.chdir(marked_folder)
    invoke(marked_folder, "--query", "queries/1.png", "--out", "out.jsonl")
    words = ["detect", "--support", "support.json", "--query", "queries", "--out", "out.jsonl", "--resume"]
    words += ["--model", "match"]
    other = CliRunner().invoke(app, [*words, "--flip"])
    assert isinstance(other.exception, ValueError) and "is of another run: its settings" in str(other.exception)
    assert CliRunner().invoke(app, words).exit_code == 0
    rows = [json.loads(line) for line in (marked_folder / "out.jsonl").read_text().splitlines()]
    assert rows[0]["schema"] == "salvit-detection-lines-1"
    assert [row["image"]["file_name"] for row in rows[1:]] == [f"queries/{n}.png" for n in (1, 2, 3)]


@pytest.mark.parametrize("name", ["out.csv", "out.slp", "walk/CollectedData_me.h5", "pose/data.yaml", "tasks.json"])
def test_detections_are_written_in_the_formats_of_others(marked_folder, monkeypatch, name):
    from salvit.formats import read

    monkeypatch.chdir(marked_folder)
    more = ["--format", "label-studio"] if name == "tasks.json" else []
    invoke(marked_folder, "--query", "queries", "--out", name, *more)
    found = read(marked_folder / name)
    assert [marked.path.name for marked in found.images] == ["1.png", "2.png", "3.png"]
    for marked in found.images:
        order = [marked.names.index(key) for key in ("nose", "tail", "paw")]
        assert abs(marked.points[order] - [[60, 80], [250, 150], [120, 200]]).max() < 17
    assert not list(marked_folder.rglob("*.partial.jsonl"))


def test_a_pack_finds_what_its_marked_pictures_find(marked_folder, monkeypatch):
    monkeypatch.chdir(marked_folder)
    runner = CliRunner()
    learnt = runner.invoke(
        app, ["learn", "--support", "support.json", "--model", "match", "--out", "thing.safetensors"]
    )
    assert learnt.exit_code == 0 and "nose" in learnt.output
    invoke(marked_folder, "--query", "queries", "--out", "one.json")
    words = ["detect", "--pack", "thing.safetensors", "--query", "queries", "--out", "other.json"]
    assert runner.invoke(app, words).exit_code == 0
    one, other = (json.loads((marked_folder / name).read_text()) for name in ("one.json", "other.json"))
    assert one == other


def test_boxes_of_a_file_give_a_detection_each(marked_folder, monkeypatch):
    monkeypatch.chdir(marked_folder)
    (marked_folder / "boxes.csv").write_text(
        "image,x1,y1,x2,y2\nqueries/1.png,40,60,270,220\nqueries/1.png,0,0,60,60\nqueries/2.png,9,9,3,3\n"
    )
    result = invoke(marked_folder, "--boxes", "boxes.csv", "--out", "out.json", "--draw", "drawn")
    assert result.exit_code == 3 and "line 4" in result.output
    content = json.loads((marked_folder / "out.json").read_text())
    assert len(content["images"]) == 1 and [row["image_id"] for row in content["annotations"]] == [1, 1]
    assert [row["bbox"] for row in content["annotations"]] == [[40, 60, 230, 160], [0, 0, 60, 60]]
    assert sorted(path.name for path in (marked_folder / "drawn").iterdir()) == ["1-2.jpg", "1.jpg"]


def test_a_keypoint_that_no_support_has_is_said_to_be_unknown(marked_folder, monkeypatch):
    monkeypatch.chdir(marked_folder)
    content = json.loads((marked_folder / "support.json").read_text())
    content["annotations"][0]["keypoints"][:3] = [0, 0, 0]
    (marked_folder / "support.json").write_text(json.dumps(content))
    result = invoke(marked_folder, "--query", "queries/1.png", "--out", "out.json")
    assert "no marked picture has nose" in result.output and "unknown" in result.output
    written = json.loads((marked_folder / "out.json").read_text())
    assert written["info"]["unknown"] == ["nose"] and written["annotations"][0]["keypoints"][:3] == [0, 0, 0]


def test_low_scores_abstain(marked_folder, monkeypatch):
    monkeypatch.chdir(marked_folder)
    invoke(marked_folder, "--query", "queries/1.png", "--out", "out.json", "--min-score", "1")
    (row,) = json.loads((marked_folder / "out.json").read_text())["annotations"]
    assert row["keypoints"] == [0, 0, 0] * 3 and row["num_keypoints"] == 0


def test_pictures_worth_marking_are_named_with_and_without_a_file(marked_folder, monkeypatch):
    monkeypatch.chdir(marked_folder)
    for more in ([], ["--out", "out.jsonl"]):
        result = invoke(marked_folder, "--query", "queries", "--suggest", "2", *more)
        table = result.output[result.output.index("worth marking next") :]
        assert sum(f"{n}.png" in table for n in (1, 2, 3)) == 2
    resumed = invoke(marked_folder, "--query", "queries", "--suggest", "2", "--out", "out.jsonl", "--resume")
    assert resumed.output[resumed.output.index("worth marking next") :] == table


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--query", "queries", "--pack", "p.safetensors"], "either --support FILE or --pack"),
        ([], "nowhere to look"),
        (["--query", "queries", "--pairs", "nose"], "expected LEFT:RIGHT"),
        (["--query", "queries", "--pairs", "nose:wing"], "names 'wing'"),
        (["--query", "queries", "--resume"], "expected --out FILE"),
        (["--query", "queries", "--out", "o.json", "--format", "labelme"], "expected one of coco"),
        (["--query", "queries", "--out", "o.xyz"], "tells no format"),
    ],
)
def test_options_that_cannot_be_meant_are_errors(marked_folder, monkeypatch, words, message):
    monkeypatch.chdir(marked_folder)
    result = CliRunner().invoke(app, ["detect", "--support", "support.json", *words])
    assert isinstance(result.exception, ValueError | OSError) and message in str(result.exception)


def test_flip_and_salient_boxes_run(marked_folder, monkeypatch):
    monkeypatch.chdir(marked_folder)
    result = invoke(marked_folder, "--query", "queries/1.png", "--flip", "--pairs", "nose:tail", "--box", "saliency")
    assert result.exit_code == 0 and "nose" in result.output
