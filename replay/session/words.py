"""Questions and facts from names and values: keys of a case file, or the words of a command line.

A key is a size of :class:`Layout`, or a field of :class:`Question` or :class:`Facts`; the word of the command line is
the same with ``--`` in front and hyphens. So whatever can be asked of ``replay run`` can be written in a case file.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from replay.core.errors import LayoutError, UnknownName
from replay.layout import Layout
from replay.session.question import Facts, Question, parse_layout

SOURCE, ANCHOR = "from", "measured_step"  # words for Facts.layout and Facts.measured_step_ms
MICROBATCHES = "microbatches"
WORDS = {"world": "world_size"}  # shorter on the command line

_SIZES: dict[str, Any] = get_type_hints(Layout)
_EDITS = {key: hint for key, hint in get_type_hints(Question).items() if key != "layout"}
_NOT_HERE = ("layout", "measured_step_ms")  # from, measured_step
_FACTS = {key: hint for key, hint in get_type_hints(Facts).items() if key not in _NOT_HERE}
_FACTS |= {ANCHOR: float | None}
_HINTS = {**_FACTS, **_SIZES, **_EDITS}

MOST_DIGITS = 18  # of a whole number: what 64 bits hold
_NAMES_OR_FILES = ("experts", "source_hardware", "hardware")  # a file is meant where there is one of that name

KEYS = (*_SIZES, *_EDITS, SOURCE, *(key for key in _FACTS if key not in _SIZES))


def asked(values: Mapping[str, Any], folder: Path) -> tuple[Question, Facts]:
    """What ``values`` ask and say about the source; files in them are relative to ``folder``.

    ``microbatches`` is a size of the target. Raises :class:`UnknownName` naming the nearest key for one that is not
    known, :class:`LayoutError` for a value of the wrong kind.
    """
    known = {key: _value(key, value, folder) for key, value in values.items()}
    sizes = {key: value for key, value in known.items() if key in _SIZES}
    edits = {key: value for key, value in known.items() if key in _EDITS}
    facts = {key: value for key, value in known.items() if key in _FACTS and key not in _SIZES}
    facts["measured_step_ms"] = facts.pop(ANCHOR, None)
    return Question(layout=sizes, **edits), Facts(layout=known.get(SOURCE, {}), **facts)


def from_words(text: object) -> dict[str, Any]:
    """``--ep 8 --scale 'gemm*=2'`` as keys and values. Raises :class:`LayoutError` for what is no option."""
    if not isinstance(text, str | list | tuple):
        raise LayoutError(f"edit: {text!r} is no text; write options as on the command line: '--ep 8'")
    try:
        words = shlex.split(text) if isinstance(text, str) else [str(word) for word in text]
    except ValueError as error:
        raise LayoutError(f"edit: {text!r} cannot be split into words ({error})") from None
    found: dict[str, Any] = {}
    left = iter(words)
    for word in left:
        name, equals, value = word.removeprefix("--").partition("=")
        key = WORDS.get(name, name.replace("-", "_"))
        if not word.startswith("--") or not name:
            raise LayoutError(f"edit: {word!r} is no option; write options as on the command line: --ep 8")
        check_known(key, KEYS)
        if _HINTS.get(key) is bool:
            found[key] = True
            continue
        given = value if equals else next(left, None)
        if given is None:
            raise LayoutError(f"edit: {word} has no value")
        found[key] = [*found.get(key, []), given] if _is_pairs(key) else given
    if MICROBATCHES in found:  # on the command line the source's count
        found[SOURCE] = ",".join(filter(None, (found.get(SOURCE), _joined({MICROBATCHES: found.pop(MICROBATCHES)}))))
    return found


def sizes_from(value: object) -> dict[str, Any]:
    """A table of sizes, or ``ep=8,vpp=2``."""
    if isinstance(value, Mapping):
        return {WORDS.get(str(key), str(key)): size for key, size in value.items()}
    pairs = [item.strip().partition("=") for item in str(value).split(",") if item.strip()]
    if any(not equals for _, equals, _ in pairs):
        raise LayoutError(f"target: {value!r} is not KEY=VALUE,...")
    named = [(key.strip(), size.strip()) for key, _, size in pairs]
    return {WORDS.get(key, key): size for key, size in named}


def check_known(key: str, known: Iterable[str]) -> None:
    """Raises :class:`UnknownName` with the nearest name for one that is not ``known``."""
    names = list(known)
    if key not in names:
        near = get_close_matches(key, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
        raise UnknownName(f"unknown key {key!r}; {hint}")


def _value(key: str, value: Any, folder: Path) -> Any:
    check_known(key, KEYS)
    if key == SOURCE:
        return parse_layout(value if isinstance(value, str) else _joined(value))
    if _is_pairs(key):
        return tuple(_pair(key, item) for item in _listed(value))
    if key in _NAMES_OR_FILES:
        return str(folder / str(value)) if (folder / str(value)).is_file() else str(value)
    return _single(key, value, folder)


def _joined(sizes: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={size}" for key, size in sizes.items())


def _is_pairs(key: str) -> bool:
    return key in _EDITS and get_origin(_EDITS[key]) is tuple


def _single(key: str, value: Any, folder: Path) -> Any:
    kinds = _kinds(_HINTS[key])
    if bool in kinds:
        return _flag(key, value)
    if int in kinds:
        return _whole(key, value)
    if float in kinds:
        return number(key, value)
    if Path in kinds:
        return folder / str(value)
    if any(get_origin(kind) is tuple for kind in kinds):
        return tuple(_whole(key, item) for item in (value.split(",") if isinstance(value, str) else _listed(value)))
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _kinds(hint: Any) -> set[Any]:
    """The kinds of value that a field takes, ``None`` aside."""
    return {kind for kind in get_args(hint) if kind is not NoneType} if get_origin(hint) is UnionType else {hint}


def number(key: str, value: Any) -> float:
    """A finite number above 0."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = 0.0
    if not 0.0 < found < float("inf") or isinstance(value, bool):
        raise LayoutError(f"{key} must be a number above 0, got {value!r}")
    return found


def _whole(key: str, value: Any) -> int:
    text = str(value).strip()
    whole = text.removesuffix(".0")  # spreadsheets write 8 as 8.0
    if not whole.isdecimal() or len(whole) > MOST_DIGITS or isinstance(value, bool):
        raise LayoutError(f"{key} must be a whole number, got {value!r}")
    return int(whole)


def _flag(key: str, value: Any) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    found = words.get(str(value).strip().lower())
    if found is None:
        raise LayoutError(f"{key} must be true or false, got {value!r}")
    return found


def _listed(value: Any) -> list[Any]:
    """Pairs from a table, a list, or one text."""
    if isinstance(value, Mapping):
        return list(value.items())
    return list(value) if isinstance(value, list | tuple) else [value]


def _pair(key: str, item: Any) -> tuple[str, float]:
    name, factor = item if isinstance(item, tuple) else str(item).rpartition("=")[::2]
    try:
        found = float(factor)
    except (TypeError, ValueError):
        found = -1.0
    if not name or not 0.0 <= found < float("inf"):
        raise LayoutError(f"{key}: {item!r} is not NAME=FACTOR with a factor of 0 or more")
    return str(name), found
