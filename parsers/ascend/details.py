"""Joins the rows of a kernel table to the device events of a trace: same rank, same start, within rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from parsers.ascend.kernels import KernelRow
from replay.core.columns import Int64
from replay.core.units import NS_PER_US
from replay.trace import CoreCounters, Health, KernelDetails, Trace

_TOLERANCE_NS = NS_PER_US  # old tables round to 0.1 us or 1 us
_FEW = 0.1  # share of the rows that need no words


def with_details(trace: Trace, kernels: dict[int, list[KernelRow]]) -> Trace:
    """``trace`` with the details of every device event that a table describes; counts the rows without one."""
    found: list[tuple[int, KernelRow]] = []
    warnings: list[str] = []
    for rank, rows in kernels.items():
        own = _joined(trace, rank, rows)
        found += own
        lost = len(rows) - len(own)
        if lost > _FEW * len(rows):
            warnings.append(f"rank {rank}: the timeline lacks {lost} of {len(rows)} kernels of the kernel table")
    total = sum(map(len, kernels.values()))
    if not total:
        return trace
    found.sort(key=lambda item: item[0])
    skipped = {"kernel table rows without a device event": total - len(found)} if total > len(found) else {}
    health = trace.health.merged(Health(skipped=skipped, warnings=tuple(warnings)))
    return replace(trace, details=_packed([row for _, row in found], [event for event, _ in found]), health=health)


def _joined(trace: Trace, rank: int, rows: list[KernelRow]) -> list[tuple[int, KernelRow]]:
    """(event, row); of several events that start within the tolerance the one of closest duration is taken, once."""
    events = np.flatnonzero((trace.rank == rank) & trace.is_device)
    start = trace.start_ns[events]
    taken: set[int] = set()
    found = []
    for row in rows:
        at = row.start_ns - trace.epoch_ns
        first, last = np.searchsorted(start, (at - _TOLERANCE_NS, at + _TOLERANCE_NS + 1)).tolist()
        near = [event for event in events[first:last].tolist() if event not in taken]
        if near:
            best = min(near, key=lambda event: _distance(trace, event, row, at))
            taken.add(best)
            found.append((best, row))
    return found


def _distance(trace: Trace, event: int, row: KernelRow, at: int) -> tuple[bool, int]:
    off = abs(int(trace.start_ns[event]) - at) + abs(int(trace.dur_ns[event]) - row.dur_ns)
    return trace.name_of(event) not in (row.name, row.op_type), off


def _packed(rows: list[KernelRow], events: list[int]) -> KernelDetails:
    event: Int64 = np.array(events, np.int64)
    return KernelDetails(
        event=event,
        op_type=tuple(row.op_type for row in rows),
        core=tuple(row.core for row in rows),
        input_shapes=tuple(row.input_shapes for row in rows),
        input_dtypes=tuple(row.input_dtypes for row in rows),
        input_formats=tuple(row.input_formats for row in rows),
        output_shapes=tuple(row.output_shapes for row in rows),
        output_dtypes=tuple(row.output_dtypes for row in rows),
        output_formats=tuple(row.output_formats for row in rows),
        wait_ns=np.array([row.wait_ns for row in rows], np.int64),
        cube_utilization_pct=np.array([row.cube_utilization_pct for row in rows], np.float64),
        counters=_counters(rows),
    )


def _counters(rows: list[KernelRow]) -> CoreCounters | None:
    counted = [(row.blocks, row.cube_ns, row.cube_cycles, row.hf32) for row in rows]
    ratio = np.array([row.mac_ratio for row in rows], np.float64)
    blocks, cube_ns, cycles, hf32 = np.array(counted, np.int64).reshape(-1, 4).T.copy()
    if (np.stack([blocks, cube_ns, cycles, hf32]) < 0).all() and np.isnan(ratio).all():
        return None
    return CoreCounters(blocks, cube_ns, cycles, ratio, hf32.astype(np.int8))
