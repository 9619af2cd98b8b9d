"""Edited recordings as files: every event of a Kineto trace moved to where its ops run in an edited step."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from replay.core.units import NS_PER_US
from replay.graph.types import DEVICE_OPS, Graph, OpKind
from replay.trace import Trace


def read_json(path: Path) -> dict[str, Any]:
    """A Kineto trace as it stands in its file."""
    data = path.read_bytes()
    return dict(json.loads(gzip.decompress(data) if path.suffix == ".gz" else data))


def moved(document: dict[str, Any], trace: Trace, before: Graph, after: Graph) -> dict[str, Any]:
    """The document of one rank with the times of ``after``, which has the ops of ``before`` first, in its order.

    Starts follow the starts of the ops of their lane, ends the ends, linearly in between; what comes after the step
    moves by as much as the step grew. An op that only ``after`` has becomes a runtime call up to its thread's next op.
    """
    rank = trace.ranks[0]
    shift_ns = _shift_ns(document, trace, before)
    warps = {}
    for index, lane in enumerate(trace.lanes):
        ops = np.flatnonzero((before.lane == index) & (before.rank == rank))
        key = ("", str(lane.stream)) if lane.is_device else (lane.pid, lane.tid)
        warps[key] = _Warp(before, after, ops)
    events = []
    for event in document["traceEvents"]:
        thread = str(event.get("tid"))
        warp = warps.get((str(event.get("pid")), thread)) or warps.get(("", thread))
        if event.get("ph") != "X" or warp is None:
            events.append(event)
            continue
        start = round(event["ts"] * NS_PER_US) - shift_ns
        end = start + round(event.get("dur", 0) * NS_PER_US)
        begin, finish = warp.start(start), warp.end(end)
        events.append(event | {"ts": (begin + shift_ns) / NS_PER_US, "dur": max(finish - begin, 0) / NS_PER_US})
    events += [_call(trace, after, op, shift_ns) for op in range(len(before), len(after))]
    return document | {"traceEvents": events}


class _Warp:
    """Old to new times of one lane."""

    def __init__(self, before: Graph, after: Graph, ops: np.ndarray) -> None:
        grown = after.measured_step_ns - before.measured_step_ns
        old = (before.measured_start_ns[ops], before.measured_end_ns[ops])
        new = (after.measured_start_ns[ops], after.measured_end_ns[ops])
        self._points = []
        for was, now in zip(old, new, strict=True):
            order = np.argsort(was, kind="stable")
            first = min(int(was.min(initial=0)), 0) - 1  # what lies before the step stays where it is
            times = np.concatenate([[first], was[order], [before.measured_step_ns + 1]])
            self._points.append((times, np.concatenate([[0], (now - was)[order], [grown]])))

    def start(self, time_ns: int) -> int:
        """Where a start goes."""
        return self._at(0, time_ns)

    def end(self, time_ns: int) -> int:
        """Where an end goes."""
        return self._at(1, time_ns)

    def _at(self, side: int, time_ns: int) -> int:
        times, offsets = self._points[side]
        return time_ns + round(float(np.interp(time_ns, times, offsets)))


def _shift_ns(document: dict[str, Any], trace: Trace, graph: Graph) -> int:
    """Time in the file, ns, of the step's begin: from the first device event, which both know."""
    device = [
        event["ts"] for event in document["traceEvents"] if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    known = np.flatnonzero((graph.event >= 0) & np.isin(graph.kind, DEVICE_OPS) & (graph.kind != OpKind.TRANSFER))
    op = int(known[0])
    begin = int(trace.start_ns[graph.event[op]]) - int(graph.measured_start_ns[op])
    return round(min(device) * NS_PER_US) - int(trace.start_ns[trace.is_device].min()) + begin


def _call(trace: Trace, graph: Graph, op: int, shift_ns: int) -> dict[str, Any]:
    """A runtime call that blocks until the next op of its thread."""
    lane = trace.lanes[int(graph.lane[op])]
    start = int(graph.measured_start_ns[op])
    later = graph.measured_start_ns[(graph.lane == graph.lane[op]) & (graph.measured_start_ns > start)]
    return {
        "ph": "X", "cat": "cuda_runtime", "name": graph.name_of(op), "pid": int(lane.pid), "tid": int(lane.tid),
        "ts": (start + shift_ns) / NS_PER_US, "dur": (int(later.min()) - start) / NS_PER_US,
        "args": {"correlation": 999_999_000 + op % 1000},
    }  # fmt: skip
