"""JSON files beside an Ascend timeline as objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec

from parsers.ascend.folder import Role
from parsers.ascend.text import rank_number, text_of
from parsers.source import SourceFile
from replay.trace import MISSING

Objects = Mapping[Role, list[tuple[str, dict[str, object]]]]  # by role: file name and content


def read_objects(files: Sequence[SourceFile], damaged: list[str]) -> list[tuple[str, dict[str, object]]]:
    """(name, object) of every file; an empty object, since the name may tell a rank, where one is damaged."""
    found = []
    for file in files:
        try:
            found.append((file.name, as_dict(decoded_json(text_of(file.read())))))
        except ValueError as error:  # of either decoder; a compressed file that is cut short, too
            found.append((file.name, {}))
            damaged.append(f"{file.name} is damaged ({error}) and was left out")
    return found


def decoded_json(text: str) -> object:
    """A JSON value; Python writes NaN and Infinity, which are no JSON, and reads them again.

    Raises ``ValueError`` where it is none, or nested beyond what the decoders take.
    """
    value: object
    try:
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            value = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def as_dict(value: object) -> dict[str, object]:
    """A JSON object, an empty one where it is something else."""
    return value if isinstance(value, dict) else {}


def as_ranks(value: object) -> tuple[int, ...]:
    """A list of rank numbers, empty where it is something else."""
    ranks = tuple(map(rank_number, value)) if isinstance(value, list) else ()
    return ranks if MISSING not in ranks else ()
