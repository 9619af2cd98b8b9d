"""Write slices as Chrome trace JSON (``-o FILE.json``): opens in Perfetto and chrome://tracing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from replay.core.units import NS_PER_US
from replay.report.slices import Slices

_EVENTS_PER_CHUNK = 10_000  # bounds the memory of a large trace's dicts


def write(slices: Slices, path: Path) -> None:
    """Write ``path``; times are microseconds with three decimals, so ns survive."""
    events = iter(_events(slices))
    with path.open("wb") as file:
        file.write(b'{"displayTimeUnit":"ns","traceEvents":[')
        separator = b""
        while chunk := list(islice(events, _EVENTS_PER_CHUNK)):
            file.write(separator + orjson.dumps(chunk)[1:-1])
            separator = b","
        file.write(b"]}\n")


def _events(slices: Slices) -> Iterator[dict[str, Any]]:
    processes = list(dict.fromkeys(track.process for track in slices.tracks))
    pid = [processes.index(track.process) + 1 for track in slices.tracks]
    yield from _metadata(slices, processes, pid)
    for start, end, track, name, args in zip(
        slices.start_ns.tolist(), slices.end_ns.tolist(), slices.track.tolist(), slices.name.tolist(), slices.args(),
        strict=True,
    ):  # fmt: skip
        yield {"ph": "X", "pid": pid[track], "tid": track + 1, "name": slices.names[name], "cat": args["kind"],
               "ts": start / NS_PER_US, "dur": (end - start) / NS_PER_US, "args": args}  # fmt: skip
    yield from _arrows(slices, pid)


def _metadata(slices: Slices, processes: Iterable[str], pid: list[int]) -> Iterator[dict[str, Any]]:
    """Names and order of the tracks."""
    for index, process in enumerate(processes, 1):
        yield {"ph": "M", "pid": index, "name": "process_name", "args": {"name": process}}
        yield {"ph": "M", "pid": index, "name": "process_sort_index", "args": {"sort_index": index}}
    for index, track in enumerate(slices.tracks):
        where = {"ph": "M", "pid": pid[index], "tid": index + 1}
        yield {**where, "name": "thread_name", "args": {"name": track.name}}
        yield {**where, "name": "thread_sort_index", "args": {"sort_index": index}}


def _arrows(slices: Slices, pid: list[int]) -> Iterator[dict[str, Any]]:
    """Flow events; one binds to the slice that encloses its time, so the end lies where both slices have begun."""
    for number, (source, target) in enumerate(
        zip(slices.flow_source.tolist(), slices.flow_target.tolist(), strict=True), 1
    ):
        begin = int(slices.start_ns[source])
        arrive = max(begin, int(slices.start_ns[target]))
        for phase, at, time in (("s", source, begin), ("f", target, arrive)):
            track = int(slices.track[at])
            yield {"ph": phase, "bp": "e", "id": number, "cat": "flow", "name": "flow", "pid": pid[track],
                   "tid": track + 1, "ts": time / NS_PER_US}  # fmt: skip
