"""Values of a sqlite export: integers, and the strings and enumerations that numbers stand for."""

from __future__ import annotations

import re

import msgspec

from parsers._numbers import INT64_MAX
from parsers.ascend.database import Database, Value
from parsers.ascend.text import NONE
from replay.core.errors import TraceError
from replay.trace import MISSING

_INTEGER = re.compile(r"\s*-?\d{1,20}\s*")
_API_TYPES = {
    5000: "runtime", 5500: "communication", 10000: "node", 15000: "model", 20000: "acl",
    50001: "op", 50002: "queue", 50003: "trace", 50004: "mstx",
}  # fmt: skip
_DATA_TYPES = {
    0: "INT8", 1: "INT16", 2: "INT32", 3: "FP16", 4: "FP32", 5: "INT64", 6: "UINT64", 7: "UINT8", 8: "UINT16",
    9: "UINT32", 10: "FP64", 11: "BFP16", 12: "INT128", 14: "HIF8", 15: "FP8E4M3", 16: "FP8E5M2", 17: "FP8E8M0",
}  # fmt: skip
_COPIES = {
    0: "host to host", 1: "host to device", 2: "device to host", 3: "device to device",
    5: "addr device to device", 6: "host to device ex", 7: "device to host ex",
}  # fmt: skip
_RANGE_TYPES = {0: "marker", 1: "push/pop", 2: "start/end", 3: "marker_ex"}
_OVERLAPS = {0: "COMPUTE", 1: "COMMUNICATION", 2: "COMM_NOT_OVERLAP_COMP", 3: "FREE"}


def integer_of(value: Value) -> int | None:
    """An integer, also one kept as text or as a whole float; ``None`` for anything else, and beyond 64 bits."""
    if type(value) is int:  # of most values
        return value if -INT64_MAX <= value <= INT64_MAX else None
    if isinstance(value, str):
        number = int(value) if _INTEGER.fullmatch(value) else None
    elif isinstance(value, float):
        number = int(value) if value.is_integer() else None
    else:
        return None
    return number if number is not None and -INT64_MAX <= number <= INT64_MAX else None


def known(value: Value) -> int:
    """A number that names or counts something, -1 where there is none, or CANN's own -1 (4294967295)."""
    number = value if type(value) is int else integer_of(value)
    return MISSING if number is None or number < 0 or number == NONE or number > INT64_MAX else number


class Names:
    """Strings and enumerations of one export. Raises :class:`TraceError` where it has no strings at all."""

    def __init__(self, database: Database) -> None:
        if not database.has("STRING_IDS"):
            raise TraceError(
                f"{database.name}: the table STRING_IDS, which is written last, is missing or empty, so nothing in the "
                "others has a name; the export was not finished: export again"
            )
        pairs = database.rows("STRING_IDS", ("id", "value"))
        self._strings = {integer_of(key): str(value) for key, value in pairs if value is not None}
        self._raw: dict[str, msgspec.Raw] = {}
        self.unknown = 0  # rows whose name is not among the strings
        self.api_types = _enumeration(database, "ENUM_API_TYPE", _API_TYPES)
        self.data_types = _enumeration(database, "ENUM_HCCL_DATA_TYPE", _DATA_TYPES)
        self.copies = _enumeration(database, "ENUM_MEMCPY_OPERATION", _COPIES)
        self.range_types = _enumeration(database, "ENUM_MSTX_EVENT_TYPE", _RANGE_TYPES)
        self.overlaps = _enumeration(database, "ENUM_OVERLAP_ANALYSIS_TYPE", _OVERLAPS)

    def text(self, value: Value) -> str:
        """The string that a number stands for, text that is no number as it is, empty where there is none."""
        number = value if type(value) is int else integer_of(value)
        if number is None:
            return value if isinstance(value, str) else ""
        return self._strings.get(number, "")

    def name(self, value: Value, instead: str = "") -> str:
        """The name of a row; where it is not among the strings, ``instead`` or its number."""
        found = self.text(value)
        if found:
            return found
        self.unknown += not instead
        return instead or f"string {value}"

    def numbers_of(self, prefix: str) -> list[int]:
        """Numbers of all strings that begin so."""
        return [number for number, text in self._strings.items() if number is not None and text.startswith(prefix)]

    def raw(self, text: str) -> msgspec.Raw:
        """A string as the JSON that a timeline would hold."""
        if text not in self._raw:
            self._raw[text] = msgspec.Raw(msgspec.json.encode(text))
        return self._raw[text]


def _enumeration(database: Database, table: str, default: dict[int, str]) -> dict[int, str]:
    found = {known(key): str(name) for key, name in database.rows(table, ("id", "name"))}
    found.pop(MISSING, None)
    return {**default, **found}
