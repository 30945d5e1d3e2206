from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def made(harmonic: float, ci95: float = 0.6, novel: float = 20.0) -> dict[str, Any]:
    """A result with what tables read of it."""
    return {
        "data": "animal_pose",
        "harmonic": harmonic,
        "ci95": ci95,
        "pck": {"novel": {"0.1": novel}},
        "interval": {"novel": {"0.1": 1.0}},
        "ne": {"novel": 0.125},
        "ne_interval": {"novel": 0.004},
        "episodes": {"novel": 1000, "base": 1000},
        "seed": 0,
        "hardware": "a machine",
        "command": "salvit train recipes/x.toml --out run && salvit evaluate",
    }


@pytest.fixture
def result() -> Callable[..., dict[str, Any]]:
    return made
