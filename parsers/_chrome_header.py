"""What a Kineto file says outside of its events: rank, groups, device, clock base, versions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from parsers._chrome_stream import ChromeStream
from parsers._comm_info import int_list
from replay.trace import MISSING, Group

_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*"?(-?\d+)')
_SHOWN = (
    "cuda_runtime_version", "cuda_driver_version", "cupti_version", "hip_runtime_version", "hip_driver_version",
    "roctracer_version", "record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules",
)  # fmt: skip  # user, host and job names are left out on purpose


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
    base = _BASE.search(stream.head) or _BASE.search(stream.tail)
    top = _top_level(stream)
    distributed = top.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    return Header(
        rank=_int(distributed.get("rank")),
        world_size=_int(distributed.get("world_size")),
        base_ns=int(base[1]) if base else 0,
        groups=_groups(distributed.get("pg_config")),
        device=_device(top.get("deviceProperties")),
        metadata=_metadata(top, distributed),
    )


def _top_level(stream: ChromeStream) -> dict[str, Any]:
    if stream.is_list:
        return {}
    for text in (stream.head + (stream.tail or b"]}"), stream.head + b"]}", b"{" + stream.tail.lstrip(b"], \r\n\t")):
        try:
            top = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if isinstance(top, dict):
            return top
    return {}


def _groups(config: object) -> tuple[Group, ...]:
    groups = []
    for entry in config if isinstance(config, list) else []:
        if not isinstance(entry, dict) or "pg_name" not in entry:
            continue
        ranks = entry.get("ranks")
        members = tuple(ranks) if isinstance(ranks, list) else int_list(str(ranks or "")) or ()
        size = _int(entry.get("pg_size"))
        description = str(entry.get("pg_desc", ""))
        groups.append(Group(str(entry["pg_name"]), description, members, size if size > 0 else len(members) or MISSING))
    return tuple(groups)


def _device(properties: object) -> str:
    for entry in properties if isinstance(properties, list) else []:
        if isinstance(entry, dict) and entry.get("name"):
            return str(entry["name"])
    return ""


def _metadata(top: dict[str, Any], distributed: dict[str, Any]) -> dict[str, str]:
    shown = {key: str(top[key]) for key in _SHOWN if key in top}
    shown |= {key: str(distributed[key]) for key in ("backend", "nccl_version") if key in distributed}
    return shown


def _int(value: object) -> int:
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError):
        return MISSING
