"""What must hold for the repository as a whole."""

import ast
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "salvit"
FILES = sorted(SOURCE.rglob("*.py"))

LAYERS = (
    ("types", "geometry", "config", "memory", "tensor_files"),
    ("backbones",),
    ("saliency",),
    ("data", "model", "demo", "formats"),
    ("packs", "predict", "queries", "flip", "suggest", "encoded_lists", "evaluate", "score", "metrics", "results",
     "detections", "draw", "baselines", "train",
     "checkpoint", "features", "episode_tensors", "recipes", "finetune", "priors", "tables", "compare_saliency",
     "teach_saliency", "projects", "transductive", "kept_features", "masked_views", "learner", "suites",
     "suite_report", "spoiled", "together", "provenance", "sources", "released", "cards", "calibrate",
     "calibration_report", "zoom", "evaluate_zoom", "figures", "fabric", "muon", "near", "teach_finder",
     "prepared_lists"),
    ("web",),
    ("bench",),
    ("cli",),
)  # fmt: skip


def layer_of(module: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if module in names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_and_functions_keep_their_budgets(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= 60, f"{node.name} has {length} lines"
            assert node.name != "forward" or length <= 30, f"forward has {length} lines"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path):
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if own in ("__init__", "__main__"):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("salvit."):
            other = node.module.split(".")[1]
            assert layer_of(other) <= layer_of(own), f"{own} imports {other}"


def test_no_file_has_a_name_that_says_nothing():
    assert not {"utils.py", "core.py", "misc.py", "helpers.py", "common.py"} & {path.name for path in FILES}


def test_the_python_of_the_readme_runs():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    assert len([line for line in code.splitlines() if line and not line.startswith("import")]) <= 5
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 6 and "nose" in done.stdout


def test_the_commands_of_the_readme_exist():
    from typer.main import get_command

    from salvit.cli import app

    known = set(get_command(app).commands)
    named = set(re.findall(r"`salvit ([a-z-]+)", (ROOT / "README.md").read_text()))
    assert named <= known, named - known


def test_links_in_the_documents_lead_somewhere():
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text()):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_constraints_name_no_local_version_and_no_path():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert len(lines) > 50
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line), line


def test_the_wheel_works_outside_the_clone(tmp_path):
    """Build it, install it alone into a new environment (its dependencies are borrowed from this one), run the demo."""
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("salvit-*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    site = next((tmp_path / "env").glob("lib/python*/site-packages"))
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    run = [str(python), "-c", "import salvit; print(salvit.__file__); from salvit.cli import main; main()", "demo"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(site)), done.stdout.splitlines()[0]
    assert (tmp_path / "salvit-demo" / "detections.json").is_file() and (
        tmp_path / "salvit-demo" / "demo.jpg"
    ).is_file()
