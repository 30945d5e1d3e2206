"""The compared methods in figures: code, page and paper agree."""

import re
from pathlib import Path

import pytest

from salvit.baselines.describe import describe_method, describe_methods

PAPER_MILLIONS = {
    "protonet": 19.0,
    "relationnet": 21.1,
    "weight_generator": 23.2,
    "weight_generator_without_attention": 19.0,
    "probintr": 29.5,
    "fskd": 65.2,
}
"""Parameters in the paper's main table."""
PAGE = (Path(__file__).parents[2] / "docs" / "methods.md").read_text(encoding="utf-8").partition("## How they were")[0]


@pytest.mark.parametrize("name", PAPER_MILLIONS)
def test_parameters_are_the_papers(name):
    described = describe_method(name)
    assert described.paper == PAPER_MILLIONS[name]
    assert round(described.parameters / 1e6, 1) == PAPER_MILLIONS[name]


def test_every_method_says_what_it_is():
    sentences = [described.what for described in describe_methods()]
    assert all(sentence.endswith(".") and "``" not in sentence for sentence in sentences)


def test_sizes_in_the_page_are_those_of_the_code():
    rows = {
        row[0]: row[1:] for row in re.findall(r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+|—) \|", PAGE, flags=re.MULTILINE)
    }
    assert set(PAPER_MILLIONS) <= set(rows)
    for name, (size, stated) in rows.items():
        described = describe_method(name)
        assert float(size) == round(described.parameters / 1e6, 2)
        assert stated == ("—" if described.paper is None else f"{described.paper:.1f}")
