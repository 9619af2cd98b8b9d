"""Profiles as TOML text: the same profile always gives the same bytes, and reading them gives the same profile."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from hwprofiles.fitted import Fitted
from hwprofiles.parameter import Parameter
from hwprofiles.schema import HardwareProfile


def to_toml(profile: HardwareProfile) -> str:
    """The text of a profile; floats are written so that reading gives the same bits."""
    blocks = [_head(profile)]
    blocks += [
        _table(f"parameters.{_key(name)}", _parameter(parameter)) for name, parameter in profile.parameters.items()
    ]
    if not profile.parameters:
        blocks.append("[parameters]")
    blocks += [_fitted(fit) for fit in profile.fitted]
    return "\n\n".join(blocks) + "\n"


def _head(profile: HardwareProfile) -> str:
    fields = {"name": profile.name, "title": profile.title, "devices": list(profile.devices)}
    return "\n".join(f"{name} = {_value(value)}" for name, value in fields.items())


def _fitted(fit: Fitted) -> str:
    head: dict[str, Any] = {"model": fit.model, "samples": fit.samples, "sources": list(fit.sources)}
    blocks = ["\n".join(["[[fitted]]", *_assignments(head)])]
    tables: dict[str, Mapping[str, Any]] = {
        "key": fit.key,
        "calibrated": fit.calibrated,
        "coefficients": fit.coefficients,
        "scores": {name: asdict(score) for name, score in fit.scores.items()},
        "learned": {name: asdict(score) for name, score in fit.learned.items()},
    }
    blocks += [_table(f"fitted.{name}", content) for name, content in tables.items() if content]
    blocks.append(_table("fitted.parameters", {name: _parameter(p) for name, p in fit.parameters.items()}))
    return "\n\n".join(blocks)


def _parameter(parameter: Parameter) -> dict[str, Any]:
    row: dict[str, Any] = {"value": parameter.value, "unit": parameter.unit}
    if parameter.stderr is not None:
        row["stderr"] = parameter.stderr
    row |= {"grade": parameter.grade.label, "source": parameter.source}
    return row | ({"calibrated": parameter.calibrated} if parameter.calibrated else {})


def _table(name: str, content: Mapping[str, Any]) -> str:
    return "\n".join([f"[{name}]", *_assignments(content)])


def _assignments(content: Mapping[str, Any]) -> Iterator[str]:
    return (f"{_key(name)} = {_value(value)}" for name, value in content.items())


def _key(name: str) -> str:
    bare = name.replace("_", "").replace("-", "")
    return name if bare.isascii() and bare.isalnum() else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_assignments(value)) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return _text(value) if isinstance(value, str) else repr(value)


def _text(value: str) -> str:
    """A basic TOML string: JSON's escapes are TOML's, except that TOML also escapes DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
