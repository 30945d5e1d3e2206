"""Our own safetensors files: a format and facts in the metadata, written in one atomic step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor


def write_tensors(path: Path, tensors: Mapping[str, Tensor], format: str, facts: Mapping[str, str]) -> None:
    """Write tensors; whatever fails (a full disk), a file that was there before stays whole."""
    from safetensors.torch import save

    content = save(
        {name: value.detach().cpu().contiguous() for name, value in tensors.items()}, {"format": format, **facts}
    )
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def read_tensors(path: Path, format: str, what: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and facts of a file of that format; ``what`` names it in errors."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; expected {what}")
    try:
        with safe_open(path, framework="pt") as file:
            facts = dict(file.metadata() or {})
            if facts.get("format") != format:
                raise ValueError(f"{path} is not {what}: its format is {facts.get('format')!r}, not {format!r}")
            return {key: file.get_tensor(key) for key in file.keys()}, facts
    except SafetensorError as problem:
        raise ValueError(f"{path} is not {what}: {problem}") from problem


def format_of(path: Path) -> str | None:
    """The format that a safetensors file states, None where it states none."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; expected a .safetensors file")
    try:
        with safe_open(path, framework="pt") as file:
            return (file.metadata() or {}).get("format")
    except SafetensorError as problem:
        raise ValueError(f"{path} is not a safetensors file: {problem}") from problem
