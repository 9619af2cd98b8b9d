"""Device ops of one rank: one op per kernel, copy or set, two (arrival, transfer) per communication kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Int32, Int64
from replay.graph.selection import RankStep
from replay.graph.types import OpKind
from replay.trace import EventKind, Trace

_KIND = {EventKind.KERNEL: OpKind.COMPUTE, EventKind.MEMCPY: OpKind.MEMCPY, EventKind.MEMSET: OpKind.MEMSET}


@dataclass(frozen=True, slots=True)
class DeviceOps:
    """Columns of length d (ops); ``first`` and ``last`` give the op of each selected device event."""

    event: Int64
    kind: Int64
    start_ns: Int64
    end_ns: Int64
    lane: Int32
    first: dict[int, int]  # event → op that must be released (the arrival of a collective)
    last: dict[int, int]  # event → op whose end is the event's end


def device_ops(trace: Trace, step: RankStep) -> DeviceOps:
    """Ops in order of start; work that began before the step is cut at the step's begin."""
    is_comm = trace.comm[step.device] >= 0
    copies = np.where(is_comm, 2, 1)
    event = np.repeat(step.device, copies)
    second = np.zeros(len(event), np.bool_)
    position = np.cumsum(copies) - 1  # of the last op of each event
    second[position[is_comm]] = True
    start = np.maximum(trace.start_ns[event], step.begin_ns)
    end = np.maximum(trace.end_ns[event], start)
    plain = np.array([_KIND.get(EventKind(int(k)), OpKind.COMPUTE) for k in trace.kind[event]], np.int64)
    kind = np.where(trace.comm[event] < 0, plain, np.where(second, OpKind.TRANSFER, OpKind.ARRIVAL))
    end = np.where(kind == OpKind.ARRIVAL, start, end)
    first = {int(e): int(p - c + 1) for e, p, c in zip(step.device, position, copies, strict=True)}
    last = {int(e): int(p) for e, p in zip(step.device, position, strict=True)}
    return DeviceOps(event, kind, start, end, trace.lane[event], first, last)
