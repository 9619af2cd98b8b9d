"""One rank of a recording: its rows in integer nanoseconds, sorted by what they are."""

from __future__ import annotations

import ast
import gzip
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One row in order of start; ``tid`` is the stream of a kernel, ``args`` are as Kineto writes them."""

    start: int
    end: int
    name: str
    tid: int
    args: dict[str, Any]


class Group(NamedTuple):
    """One communicator of the job."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rank:
    """Rows by kind; device rows by the correlation that joins them to the call of the host."""

    number: int
    pid: int
    world_size: int
    groups: dict[str, Group]
    operators: list[Row]
    ranges: list[Row]
    calls: list[Row]
    kernels: dict[int, Row]
    waits: dict[int, Row]

    @property
    def device(self) -> int:
        """Place in a node of eight."""
        return self.number % 8


def read_rank(file: Path) -> Rank:
    """Read one Kineto file of ``traces/record``."""
    text = file.read_bytes()
    body = json.loads(gzip.decompress(text) if file.suffix == ".gz" else text)
    info, base = _decoded(body["distributedInfo"]), int(body["baseTimeNanoseconds"])
    of: dict[str, list[Row]] = defaultdict(list)
    events = [event for event in body["traceEvents"] if event["ph"] == "X"]
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        start = base + round(event["ts"] * 1000)
        end = start + round(event["dur"] * 1000)
        of[event["cat"]].append(Row(start, end, event["name"], event["tid"], event.get("args", {})))
    groups = (Group(g["pg_name"], g["pg_desc"], tuple(g["ranks"])) for g in _decoded(info["pg_config"]))
    return Rank(
        number=int(info["rank"]),
        pid=next(int(event["pid"]) for event in events if event["cat"] == "user_annotation"),
        world_size=int(info["world_size"]),
        groups={group.name: group for group in groups},
        operators=of["cpu_op"],
        ranges=of["user_annotation"],
        calls=of["cuda_runtime"],
        kernels={row.args["correlation"]: row for row in of["kernel"]},
        waits={row.args["correlation"]: row for row in of["cuda_sync"]},
    )


def _decoded(value: Any) -> Any:
    """Kineto writes nested values as text."""
    return ast.literal_eval(value) if isinstance(value, str) else value
