"""Device events of a rank whose timeline is missing, from its kernel table and the statistics of its collectives.

Which host call launched a kernel, and what it waited for, is not in any table; such a trace can be looked at, not
replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from parsers._rows import COLUMNS, CommInfo, Rows
from parsers.ascend.communication import CommStatistics
from parsers.ascend.hccl import HcclOp, op_of_name
from parsers.ascend.kernels import KernelRow
from parsers.ascend.rows import AscendContent
from parsers.ascend.tasks import OF_COMMUNICATION
from replay.core.columns import Interner
from replay.trace import MISSING, EventKind, Lane

_UNKNOWN_STREAM = "kernels"
_COLLECTIVES = "collectives"


def tabled_rows(
    kernels: Sequence[KernelRow], statistics: Sequence[CommStatistics], device: int = MISSING
) -> AscendContent:
    """Every kernel on its stream, and every collective, also those that only the statistics know, on a lane beside."""
    known = {entry.name: entry for entry in statistics}
    rest = known.keys() - {kernel.name for kernel in kernels}
    timed = [(row.name, _is_collective(row), row.start_ns, row.dur_ns, row.stream) for row in kernels]
    beside = [entry for entry in statistics if entry.name in rest]
    told = [entry for entry in beside if min(entry.start_ns, entry.dur_ns) >= 0]
    timed += [(entry.name, True, entry.start_ns, entry.dur_ns, MISSING) for entry in told]
    ops = {
        row: _op(op_of_name(written, start, dur), known.get(written))
        for row, (written, is_comm, start, dur, _) in enumerate(timed)
        if is_comm
    }
    named = {row: f"hcom_{op.operator}_" for row, op in ops.items() if op.suffix}
    names, labels = Interner(), Interner()
    columns = {column: np.full(len(timed), MISSING, np.int64) for column in COLUMNS}
    columns["start_ns"][:] = [start for _, _, start, _, _ in timed]
    columns["dur_ns"][:] = [dur for _, _, _, dur, _ in timed]
    columns["kind"][:] = EventKind.KERNEL
    columns["name"][:] = [names.code(named.get(row, entry[0])) for row, entry in enumerate(timed)]
    columns["lane"][:] = [labels.code(_lane(stream, is_comm=is_comm)) for _, is_comm, _, _, stream in timed]
    comms = {row: CommInfo(named.get(row, op.name)) for row, op in ops.items()}
    rows = Rows(**columns, names=names.names, shapes=(), dtypes=(), lanes=_lanes(labels.names, device), comms=comms)
    dropped = Counter({"collectives of the statistics without times": len(beside) - len(told)})
    return AscendContent(rows, ops, device, {}, Counter(), +dropped, Counter())


def _op(op: HcclOp, entry: CommStatistics | None) -> HcclOp:
    """The operator with the partner that the statistics know."""
    return op if entry is None or entry.partner < 0 else replace(op, partner=entry.partner)


def _lane(stream: int, *, is_comm: bool) -> str:
    if is_comm:
        return _COLLECTIVES
    return _UNKNOWN_STREAM if stream < 0 else f"stream {stream}"


def _is_collective(row: KernelRow) -> bool:
    return row.core in OF_COMMUNICATION or row.name.lower().startswith("hcom_")


def _lanes(labels: Sequence[str], device: int) -> tuple[Lane, ...]:
    """Lanes of streams by their numbers; those that no table tells are numbered above all others."""
    told = {label: int(label.removeprefix("stream ")) for label in labels if label.startswith("stream ")}
    free = max(told.values(), default=MISSING) + 1
    untold = {label: free + at for at, label in enumerate(label for label in labels if label not in told)}
    numbers = told | untold
    return tuple(Lane(MISSING, True, label, device=device, stream=numbers[label]) for label in labels)
