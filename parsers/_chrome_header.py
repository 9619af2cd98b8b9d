"""What a Kineto file says outside of its events: rank, groups, device, clock base, versions.

Kineto pastes these keys together as text, so the whole need not be valid JSON (unescaped log lines); each key is found
and decoded by itself. It may stand before or after the events.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from parsers._chrome_stream import ChromeStream
from parsers._comm_info import int_list
from replay.trace import MISSING, Group

_SHOWN = (
    "cuda_runtime_version", "cuda_driver_version", "cupti_version", "hip_runtime_version", "hip_driver_version",
    "roctracer_version", "record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules",
)  # fmt: skip  # user, host and job names are left out on purpose
_SIZE = re.compile(
    r"(?:^|[^A-Za-z])(?:seq(?:_?len)?|ep|tp|pp|cp|dp|mbs|gbs|hidden)_?\d+(?=[^A-Za-z0-9]|$)", re.IGNORECASE
)
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Header:
    """Facts of one file; -1 and empty where the file does not say."""

    rank: int = MISSING
    world_size: int = MISSING
    base_ns: int = 0
    groups: tuple[Group, ...] = ()
    device: str = ""
    metadata: dict[str, str] = field(default_factory=dict)


def read_header(stream: ChromeStream) -> Header:
    """Header of a stream whose pieces have all been read."""
    if stream.is_list:
        return Header()
    text = stream.head.decode("utf-8", "replace") + "\n" + stream.tail.decode("utf-8", "replace")
    distributed = _value(text, "distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    return Header(
        rank=_int(distributed.get("rank")),
        world_size=_int(distributed.get("world_size")),
        base_ns=max(0, _int(_value(text, "baseTimeNanoseconds"))),
        groups=_groups(distributed.get("pg_config")),
        device=_device(_value(text, "deviceProperties")),
        metadata=_metadata(text, distributed),
    )


def _value(text: str, key: str) -> object:
    """Value of a key anywhere in ``text``, ``None`` where it is absent or damaged."""
    found = re.search(rf'"{key}"\s*:\s*', text)
    if found is None:
        return None
    try:
        value: object = _DECODER.raw_decode(text, found.end())[0]
    except (ValueError, RecursionError):
        return None
    return value


def _groups(config: object) -> tuple[Group, ...]:
    groups = []
    for entry in config if isinstance(config, list) else []:
        if not isinstance(entry, dict) or "pg_name" not in entry:
            continue
        listed = entry.get("ranks")
        ranks = tuple(map(_int, listed)) if isinstance(listed, list) else int_list(str(listed or "")) or ()
        size = _int(entry.get("pg_size"))
        description = str(entry.get("pg_desc", ""))
        groups.append(Group(str(entry["pg_name"]), description, ranks, size if size > 0 else len(ranks) or MISSING))
    return tuple(groups)


def _device(properties: object) -> str:
    for entry in properties if isinstance(properties, list) else []:
        if isinstance(entry, dict) and entry.get("name"):
            return str(entry["name"])
    return ""


def _metadata(text: str, distributed: dict[str, object]) -> dict[str, str]:
    shown = {key: value for key in _SHOWN if (value := _value(text, key)) is not None}
    shown |= {key: distributed[key] for key in ("backend", "nccl_version") if key in distributed}
    sizes = _SIZE.findall(str(_value(text, "traceName") or ""))  # of a path that may hold user names, sizes alone
    if sizes:
        shown["trace_name"] = " ".join(word.strip("_-./ ") for word in sizes)
    return {key: str(value) for key, value in shown.items()}


def _int(value: object) -> int:
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        return MISSING
