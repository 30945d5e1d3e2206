from dataclasses import dataclass
from typing import Literal

import pytest

from salvit.config import from_mapping, to_mapping


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 0.5
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True, kw_only=True)
class Outer:
    inner: Inner = Inner()
    scales: tuple[int, ...] = (8, 12)
    pair: tuple[float, float] = (1.0, 2.0)
    limit: int | None = None
    on: bool = False


def test_a_mapping_becomes_a_config_and_back():
    config = from_mapping(Outer, {"inner": {"rate": 1, "kind": "b"}, "scales": [4], "limit": 3})
    assert config == Outer(inner=Inner(rate=1.0, kind="b"), scales=(4,), limit=3)
    assert from_mapping(Outer, to_mapping(config)) == config
    assert "limit" not in to_mapping(Outer())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"inner": {"rat": 1.0}}, r"unknown setting 'inner\.rat'; known: kind, rate"),
        ({"inner": {"rate": "fast"}}, r"'inner\.rate': expected float, got 'fast'"),
        ({"inner": {"kind": "c"}}, "expected one of 'a', 'b', got 'c'"),
        ({"inner": 3}, "'inner': expected a table"),
        ({"on": 1}, "'on': expected bool"),
        ({"limit": True}, "'limit': expected int"),
        ({"scales": ["x"]}, r"'scales\[0\]': expected int"),
        ({"pair": [1.0]}, "expected 2 values"),
    ],
)
def test_a_wrong_setting_is_an_error_that_names_it(values, message):
    with pytest.raises(ValueError, match=message):
        from_mapping(Outer, values)
