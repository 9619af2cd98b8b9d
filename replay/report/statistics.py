"""Statistics of an input: device ops by time, collectives by kind and group, launches whose work was recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Float64, Int64
from replay.core.units import ns_to_ms, percent
from replay.graph.host_compute import computes_on_host, operators, wrapping_names
from replay.graph.types import Graph, OpKind
from replay.program.groups import family_named
from replay.program.links import ASSUMED_DEVICES_PER_NODE
from replay.report.result import CollectiveRow, OpTotal
from replay.trace import CollectiveKind, EventKind, Group, Trace

TOP_OPS = 15
UNKNOWN_GROUP = "not known"


def top_ops(trace: Trace, limit: int = TOP_OPS) -> tuple[OpTotal, ...]:
    """Device ops of all steps and ranks by summed time, largest first; operators count on ranks without a device."""
    work = np.concatenate([np.flatnonzero(trace.is_device), *_host_work(trace)])
    names, duration = trace.name[work], trace.dur_ns[work]
    total = np.bincount(names, weights=duration, minlength=len(trace.names))
    calls = np.bincount(names, minlength=len(trace.names))
    order = [int(code) for code in np.argsort(-total, kind="stable")[:limit] if calls[code]]
    whole = float(total.sum())
    return tuple(
        OpTotal(trace.names[code], int(calls[code]), ns_to_ms(total[code]), percent(total[code], whole))
        for code in order
    )


def _host_work(trace: Trace) -> Iterator[Int64]:
    """Compute operators of every rank without a device."""
    on_host = [rank for rank in trace.ranks if computes_on_host(trace, rank)]
    wraps = wrapping_names(trace) if on_host else np.zeros(0, np.bool_)
    for rank in on_host:
        own = trace.rank == rank
        yield operators(trace, own, np.flatnonzero(own & (trace.kind == EventKind.RUNTIME)), wraps)


def launch_coverage_pct(trace: Trace) -> float | None:
    """Share of launches whose device work is in the file; ``None`` where the input has no launches."""
    device = int(trace.is_device.sum()) - trace.health.kernels_without_launch
    launches = device + trace.health.launches_without_kernel
    return percent(device, launches) if launches > 0 else None


@dataclass(frozen=True, slots=True)
class _Total:
    """Sums over the members of one kind of collective in groups of one meaning; ``None`` where not known."""

    size: int | None
    nodes: int | None  # that the widest of the groups spans
    calls: int
    nbytes: int | None
    transfer_ms: float


def collectives(
    before: Graph, after: Graph | None = None, devices_per_node: int = ASSUMED_DEVICES_PER_NODE
) -> tuple[CollectiveRow, ...]:
    """Calls, bytes and transfer time by kind and group, summed over ranks, of one graph or of two side by side."""
    old = _totals(before, devices_per_node)
    new = _totals(after, devices_per_node) if after is not None else {}
    keys = sorted(old.keys() | new.keys(), key=lambda key: -(old.get(key) or new[key]).transfer_ms)
    return tuple(_row(key, old.get(key), new.get(key)) for key in keys)


def _totals(graph: Graph, devices_per_node: int) -> dict[tuple[str, str], _Total]:
    """Totals by (kind, meaning of the group); groups with one description are added up."""
    comms = graph.comms
    transfer_ns = np.zeros(len(comms))
    moving = (graph.kind == OpKind.TRANSFER) & (graph.comm >= 0)
    np.add.at(transfer_ns, graph.comm[moving], graph.duration_ns[moving])
    names = [_group_name(group) for group in graph.groups] + [UNKNOWN_GROUP]  # the last one takes group = -1
    rows: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, (kind, group) in enumerate(zip(comms.kind.tolist(), comms.group.tolist(), strict=True)):
        rows[CollectiveKind(kind).name.lower(), names[group]].append(row)
    totals = {key: _total(graph, np.array(chosen), transfer_ns, devices_per_node) for key, chosen in rows.items()}
    return {key: total for key, total in totals.items() if total.size != 1}  # a group of one exchanges nothing


def _total(graph: Graph, rows: Int64, transfer_ns: Float64, devices_per_node: int) -> _Total:
    comms = graph.comms
    size = int(comms.size[rows].max())
    groups = [graph.groups[group] for group in np.unique(comms.group[rows]) if group >= 0]
    spans = [len({rank // devices_per_node for rank in group.ranks}) for group in groups if group.ranks]
    return _Total(
        size if size > 0 else None,
        max(spans, default=None),
        len(rows),
        None if (comms.nbytes[rows] < 0).any() else int(comms.nbytes[rows].sum()),
        ns_to_ms(float(transfer_ns[rows].sum())),
    )


def _group_name(group: Group) -> str:
    """Short word for Megatron's groups, else what the trace calls it."""
    return family_named(group.description) or group.description or group.name


def _row(key: tuple[str, str], old: _Total | None, new: _Total | None) -> CollectiveRow:
    return CollectiveRow(
        kind=key[0],
        group=key[1],
        size_before=old.size if old else None,
        nodes_before=old.nodes if old else None,
        calls_before=old.calls if old else None,
        nbytes_before=old.nbytes if old else None,
        transfer_ms_before=old.transfer_ms if old else None,
        size_after=new.size if new else None,
        nodes_after=new.nodes if new else None,
        calls_after=new.calls if new else None,
        nbytes_after=new.nbytes if new else None,
        transfer_ms_after=new.transfer_ms if new else None,
    )
