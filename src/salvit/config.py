"""Settings as typed, frozen dataclasses: strict to load, exact to save.

The settings of a part stand as a dataclass here; its defaults are the paper's main setting. Parts themselves take plain
arguments, so that each can be built in a test with three numbers.
"""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Config = TypeVar("Config")


def from_mapping(cls: type[Config], values: dict[str, Any], at: str = "") -> Config:
    """Build a config dataclass; an unknown key or a value of the wrong type is an error that names it."""
    if not isinstance(values, dict):
        raise ValueError(f"setting {at.rstrip('.')!r}: expected a table of settings, got {values!r}")
    hints, known = get_type_hints(cls), {f.name for f in fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(set(values) - known):
        raise ValueError(f"unknown setting {at + unknown[0]!r}; known: {', '.join(sorted(known))}")
    return cls(**{key: _convert(value, hints[key], at + key) for key, value in values.items()})


def to_mapping(config: Any) -> dict[str, Any]:
    """The settings as plain dicts and lists, ready for TOML or JSON; None values are left out."""
    plain: dict[str, Any] = {}
    for f in fields(config):
        value = getattr(config, f.name)
        if value is None:
            continue
        if is_dataclass(value):
            value = to_mapping(value)
        elif isinstance(value, tuple):
            value = [_plain_item(item) for item in value]
        plain[f.name] = value
    return plain


def _plain_item(item: Any) -> Any:
    if is_dataclass(item):
        return to_mapping(item)
    return list(item) if isinstance(item, tuple) else item


def _convert(value: Any, hint: Any, at: str) -> Any:
    """Check a plain value against a type hint, and turn lists into tuples and tables into dataclasses."""
    origin, options = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return from_mapping(hint, value, at + ".")  # type: ignore[arg-type]
    if origin is Literal:
        if value not in options or isinstance(value, bool) != isinstance(options[0], bool):
            raise ValueError(f"setting {at!r}: expected one of {', '.join(map(repr, options))}, got {value!r}")
        return value
    if origin in (Union, types.UnionType):
        return _convert_union(value, options, at)
    if origin is tuple and isinstance(value, list | tuple):
        inner = [options[0]] * len(value) if options[-1] is Ellipsis else list(options)
        if len(inner) != len(value):
            raise ValueError(f"setting {at!r}: expected {len(inner)} values, got {value!r}")
        return tuple(
            _convert(item, hint_, f"{at}[{i}]") for i, (item, hint_) in enumerate(zip(value, inner, strict=True))
        )
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(hint, type) or type(value) is not hint:
        raise ValueError(f"setting {at!r}: expected {getattr(hint, '__name__', hint)}, got {value!r}")
    return value


def _convert_union(value: Any, options: tuple[Any, ...], at: str) -> Any:
    problems = []
    for option in options:
        if option is type(None):
            if value is None:
                return None
            continue
        try:
            return _convert(value, option, at)
        except ValueError as problem:
            problems.append(str(problem))
    raise ValueError(problems[-1])
