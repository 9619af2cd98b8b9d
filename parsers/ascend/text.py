"""Text of Ascend cells: shapes, types and numbers as CANN and torch_npu write them."""

from __future__ import annotations

import math
import re
from functools import lru_cache

import msgspec

from parsers._numbers import us_to_ns
from replay.trace import MISSING

_DIMS = re.compile(r"-?\d+")
NONE = 2**32 - 1  # how CANN writes -1: unknown, or the rank itself
_MOST = 10**18
MOST_RANKS = 10**7  # larger numbers of ranks are damaged
_BYTE_ORDER_MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))
_MISSING_WORDS = frozenset({"", "n/a", "na", "nan", "null", "none", "-"})


def text_of(data: bytes) -> str:
    """The text of a file in the encoding that its first bytes tell, UTF-8 where they do not."""
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8")
    return data.decode(encoding, "replace").replace("\0", "")


def cell(text: str | None) -> str:
    """A CSV cell without the tabs and quotes that keep spreadsheets from rounding it, empty where it is N/A."""
    clean = (text or "").strip().strip('"').strip()
    return "" if clean.lower() in _MISSING_WORDS else clean


def microseconds_ns(text: str) -> int:
    """Exact ns of decimal microseconds, -1 where there is no number."""
    values, valid = us_to_ns([cell(text).encode()])
    return int(values[0]) if valid[0] else MISSING


def number(text: object, missing: float) -> float:
    """A finite number, ``missing`` where there is none."""
    try:
        value = float(cell(str(text)))
    except ValueError:
        return missing
    return value if math.isfinite(value) else missing


def whole(text: object, unit: int) -> int:
    """A positive number in ``unit`` as a whole number of ones, -1 where there is none, or none that an int64 holds."""
    value = number(text, MISSING) * unit
    return round(value) if 0 <= value < _MOST else MISSING


def count(text: object) -> int:
    """A number that counts or names something, -1 where there is none; some releases write it as a float."""
    value = number(text, MISSING)
    return int(value) if 0 <= value < _MOST and value != NONE and value.is_integer() else MISSING


def rank_number(text: object) -> int:
    """Number of a rank or of ranks, -1 where there is none that a job could have."""
    value = count(text)
    return value if value < MOST_RANKS else MISSING


@lru_cache(maxsize=4096)
def dims_json(raw: bytes) -> str:
    """ "Input Dims" (``32,64;\\r\\n;\\r\\n``) as a JSON list of shapes, an empty one for each scalar."""
    text = _text(raw)
    return msgspec.json.encode([_dims(part) for part in text.split(";")] if text else []).decode()


@lru_cache(maxsize=4096)
def types_json(raw: bytes) -> str:
    """ "Input type" (``float;\\r\\nScalar``) as a JSON list of words."""
    text = _text(raw)
    return msgspec.json.encode([part.strip() for part in text.split(";")] if text else []).decode()


def _dims(text: str) -> list[int]:
    return [int(number) for number in _DIMS.findall(text)]


def _text(raw: bytes) -> str:
    """The string inside of raw JSON; a list is taken as it would be written in a cell."""
    if not raw:
        return ""
    try:
        value: object = msgspec.json.decode(raw.decode("utf-8", "replace"))
    except msgspec.DecodeError:
        return ""
    if isinstance(value, list):
        return ";".join(",".join(map(str, part)) if isinstance(part, list) else str(part) for part in value)
    return str(value).strip().strip('"')
