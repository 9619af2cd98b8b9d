"""Statistics of an input: device ops by time, collectives by kind and group, launches whose work was recorded."""

from __future__ import annotations

import numpy as np

from replay.core.units import ns_to_ms, percent
from replay.graph.types import Graph, OpKind
from replay.report.result import CollectiveRow, OpTotal
from replay.trace import CollectiveKind, Trace

TOP_OPS = 15


def top_ops(trace: Trace, limit: int = TOP_OPS) -> tuple[OpTotal, ...]:
    """Device ops of all steps and ranks by summed time, largest first."""
    device = trace.is_device
    names, duration = trace.name[device], trace.dur_ns[device]
    total = np.bincount(names, weights=duration, minlength=len(trace.names))
    calls = np.bincount(names, minlength=len(trace.names))
    order = [int(code) for code in np.argsort(-total, kind="stable")[:limit] if calls[code]]
    whole = float(total.sum())
    return tuple(
        OpTotal(trace.names[code], int(calls[code]), ns_to_ms(total[code]), percent(total[code], whole))
        for code in order
    )


def launch_coverage_pct(trace: Trace) -> float | None:
    """Share of launches whose device work is in the file; ``None`` where the input has no launches."""
    device = int(trace.is_device.sum()) - trace.health.kernels_without_launch
    launches = device + trace.health.launches_without_kernel
    return percent(device, launches) if launches > 0 else None


def collectives(before: Graph, after: Graph | None = None) -> tuple[CollectiveRow, ...]:
    """Calls, bytes and transfer time by kind and group, summed over ranks, of one graph or of two side by side."""
    rows = _totals(before)
    changed = _totals(after) if after is not None else {}
    keys = sorted(rows.keys() | changed.keys(), key=lambda key: -(rows.get(key) or changed[key])[3])
    return tuple(_row(key, rows.get(key), changed.get(key)) for key in keys)


_Total = tuple[int | None, int, int | None, float]  # group size, calls, bytes (None: not known), transfer ms


def _totals(graph: Graph) -> dict[tuple[str, str], _Total]:
    comms = graph.comms
    transfer_ns = np.zeros(len(comms))
    members = (graph.kind == OpKind.TRANSFER) & (graph.comm >= 0)
    np.add.at(transfer_ns, graph.comm[members], graph.duration_ns[members])
    totals: dict[tuple[str, str], _Total] = {}
    pairs = np.stack([comms.kind.astype(np.int64), comms.group.astype(np.int64)], axis=1)
    for kind, group in np.unique(pairs, axis=0):
        rows = (comms.kind == kind) & (comms.group == group)
        nbytes = None if (comms.nbytes[rows] < 0).any() else int(comms.nbytes[rows].sum())
        size = int(comms.size[rows].max())
        key = (CollectiveKind(kind).name.lower(), _group_name(graph, int(group)))
        totals[key] = (size if size > 0 else None, int(rows.sum()), nbytes, ns_to_ms(transfer_ns[rows].sum()))
    return totals


def _group_name(graph: Graph, group: int) -> str:
    if group < 0:
        return "not known"
    return graph.groups[group].description or graph.groups[group].name


def _row(key: tuple[str, str], before: _Total | None, after: _Total | None) -> CollectiveRow:
    size = (before or after or (None,))[0]
    calls, nbytes, transfer = before[1:] if before else (None, None, None)
    calls_after, nbytes_after, transfer_after = after[1:] if after else (None, None, None)
    return CollectiveRow(*key, size, calls, nbytes, transfer, calls_after, nbytes_after, transfer_after)
