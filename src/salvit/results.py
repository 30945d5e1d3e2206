"""Result files: what a run measured, with everything that is needed to repeat it."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

import salvit


def hardware() -> str:
    """The machine in a few words."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{os.cpu_count()} × {name}, {platform.system()}"


def make_result(about: dict[str, Any], scores: dict[str, Any], list_hash: str) -> dict[str, Any]:
    """A result as results/*.json holds it; figures in percent."""
    return {
        "data": about["data"],
        "problem": about["problem"],
        "model": about["model"],
        "shots": about["shots"],
        "pck": scores["pck"],
        "interval": scores["interval"],
        "harmonic": scores.get("harmonic"),
        "ci95": scores.get("ci95"),
        "coverage": scores["coverage"],
        "calibration": scores["calibration"],
        "ne": scores["ne"],
        "ne_interval": scores["ne_interval"],
        "oks": scores["oks"],
        "auc": scores["auc"],
        "episodes": scores["episodes"],
        "list_hash": list_hash,
        "protocol": about["protocol"],
        "seed": about["seed"],
        "command": about["command"],
        "version": salvit.__version__,
        "hardware": about["hardware"],
        "timing": about.get("timing"),
        "paper": about.get("paper"),
    }


def write_result(result: dict[str, Any], path: Path) -> None:
    """Write a result in one atomic step; the same result gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    partial.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(partial, path)


def read_results(folder: Path) -> dict[str, dict[str, Any]]:
    """All results of a folder, by file name without its ending."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
