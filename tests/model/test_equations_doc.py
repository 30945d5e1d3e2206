"""docs/equations.md is true: what it names exists, and what the code names stands in it."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split("|")] for line in DOC.splitlines() if line.startswith("|")
]
TABLE = [row for row in ROWS if len(row) == 4 and "::" in row[3]]
FUNCTIONS = sorted({name for row in TABLE for name in re.findall(r"`([\w.]+)`", row[2])})
TESTS = sorted({name for row in TABLE for name in re.findall(r"`([\w/]+\.py::\w+)`", row[3])})
SOURCE = ROOT / "src" / "salvit"
PLACES = [*sorted((SOURCE / "model").glob("*.py")), SOURCE / "transductive.py"]


def module_of(path: Path) -> str:
    """``model.losses`` for src/salvit/model/losses.py."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


MODULES = {module_of(path) for path in SOURCE.rglob("*.py")}


def split_name(name: str) -> tuple[str, list[str]]:
    """Module and what is in it: ``model.encoder.Encoder`` is ``model.encoder`` and ``Encoder``."""
    parts = name.split(".")
    length = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in MODULES)
    return ".".join(parts[:length]), parts[length:]


def equations_in(text: str) -> set[int]:
    """Numbers after ``Eq.``: ``Eq. 9``, ``Eq. 1, 2, 4 and 6``."""
    found = re.findall(r"Eq\. (\d+(?:(?:, | and )\d+)*)", text)
    return {int(number) for numbers in found for number in re.findall(r"\d+", numbers)}


def documented(text: str) -> list[tuple[str, str]]:
    """Qualified names and docstrings of a file's classes and functions."""
    tree = ast.parse(text)
    items = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            items.append((node.name, ast.get_docstring(node) or ""))
        if isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            items += [(f"{node.name}.{part.name}", ast.get_docstring(part) or "") for part in methods]
    return items


def test_the_tables_were_found():
    assert len(TABLE) > 40
    assert all(len(row) == 4 and row[2] and row[3] for row in TABLE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_named_in_the_page_exists(name):
    module, parts = split_name(name)
    value = importlib.import_module(f"salvit.{module}")
    for part in parts:
        value = getattr(value, part)


@pytest.mark.parametrize("name", TESTS)
def test_every_test_named_in_the_page_exists(name):
    file, _, function = name.partition("::")
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_equation_has_a_row():
    assert {int(row[0]) for row in TABLE if row[0].isdigit()} == set(range(1, 13))


def test_every_equation_that_the_code_names_stands_in_the_page_with_that_file():
    rows = {
        (int(row[0]), split_name(name)[0].rpartition(".")[2])
        for row in TABLE
        if row[0].isdigit()
        for name in re.findall(r"`([\w.]+)`", row[2])
    }
    named = {(number, path.stem) for path in PLACES for number in equations_in(path.read_text(encoding="utf-8"))}
    within = {(number, stem) for number, stem in named if (number, stem) in rows}
    users = {(2, "attention"), (4, "attention"), (6, "attention")}  # where masks of another file are put to use
    assert named - within <= users
    assert named, "the code names no equation: is the pattern still right?"


def test_every_row_with_a_number_names_a_function_that_names_the_equation():
    texts = {
        f"{module_of(path)}.{name}": text
        for path in PLACES
        for name, text in documented(path.read_text(encoding="utf-8"))
    }
    for row in TABLE:
        if row[0].isdigit():
            names = re.findall(r"`([\w.]+)`", row[2])
            is_default_kernel = names == ["model.attention.rbf_logits"]  # the code's own kernel, not the printed one
            assert is_default_kernel or any(int(row[0]) in equations_in(texts[name]) for name in names), row


def test_every_choice_in_the_code_has_its_file_mentioned():
    assert sum("Choice:" in path.read_text(encoding="utf-8") for path in PLACES) >= 6
    choices = [row for row in ROWS if len(row) == 2 and row[0] not in ("choice", "---")]
    assert len(choices) > 25
    assert all(reason for _, reason in choices)


def test_files_and_functions_stay_short():
    for path in PLACES:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 400, path.name
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= (30 if node.name == "forward" else 60), f"{path.name}: {node.name} has {length} lines"


def test_equation_numbers_are_read_in_all_their_forms():
    assert equations_in("(paper Eq. 1, 2, 4 and 6) and Eq. 10, one scale") == {1, 2, 4, 6, 10}
