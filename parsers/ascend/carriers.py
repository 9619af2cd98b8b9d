"""Device tasks that carry out a collective, and the compute kernel that one is the communication of (MC2).

A collective's row says when it ran; its work shows again among the tasks of the streams: copies and notifies, a kernel
of the vector cores (AIV), or one of the device's own processor (AICPU), which for a fused kernel serves the compute
kernel beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from parsers._comm_names import kind_of_name
from parsers._numbers import integer
from parsers.ascend.hccl import HcclOp, is_carrier, operator_of
from parsers.ascend.tasks import is_copy, is_signal, is_wait
from parsers.ascend.timed import Timed
from replay.core.columns import Int64
from replay.trace import MISSING, CollectiveKind

_COPY = "MEMCPY"


def carriers_of(tasks: Timed, big: Timed, ops: Sequence[HcclOp]) -> list[list[int]]:
    """Tasks of every op, in order of start: those of its connection, else those that move data in its time.

    ``big`` holds the rows of the ops. A fused kernel's communication is carried out by the streams of its planes only.
    """
    by_connection = np.argsort(tasks.connection, kind="stable")
    numbers = tasks.connection[by_connection]
    moving = _where(tasks, lambda row: is_signal(str(tasks.args[row].task_type or "")))
    found = []
    for op, number in zip(ops, big.connection.tolist(), strict=True):
        first, last = np.searchsorted(numbers, (number, number + 1)).tolist() if number > 0 else (0, 0)
        same = by_connection[first:last]
        own = same[(tasks.start_ns[same] >= op.start_ns) & (tasks.start_ns[same] <= op.end_ns)]
        if not len(own) or op.served:  # the compute kernel of a fused one may bear its connection
            first, last = np.searchsorted(tasks.start_ns[moving], (op.start_ns, op.end_ns)).tolist()
            own = np.array([row for row in moving[first:last].tolist() if _is_signal_of(tasks, row, op)], np.int64)
        found.append(own[np.argsort(tasks.start_ns[own], kind="stable")].tolist())
    return found


def moving_ns(tasks: Timed, rows: Sequence[int]) -> int:
    """Time in which at least one of the tasks ``rows`` moved data, -1 unless others of them waited.

    It holds copies inside of the rank as well, and so is a little more than the time on the wire.
    """
    types = [str(tasks.args[row].task_type or "") for row in rows]
    moves = np.array([row for row, kind in zip(rows, types, strict=True) if is_copy(kind)], np.int64)
    if not len(moves) or not any(map(is_wait, types)):
        return MISSING
    moves = moves[np.argsort(tasks.start_ns[moves], kind="stable")]
    begin, end = tasks.start_ns[moves], np.maximum.accumulate(tasks.start_ns[moves] + tasks.dur_ns[moves])
    return int((end - np.maximum(begin, np.append(begin[:1], end[:-1]))).clip(0).sum())


def servers(tasks: Timed, ops: Sequence[HcclOp]) -> list[int]:
    """Kernels that carry out a collective, or the communication of a fused kernel.

    They run beside the op or the kernel whose operator they name, some name none (``AivKernel``).
    """
    rows = _where(tasks, lambda row: is_carrier(str(tasks.events[row].name)))
    if not len(rows):
        return []
    fused = _where(tasks, lambda row: kind_of_name(str(tasks.events[row].name)) != CollectiveKind.UNKNOWN)
    others = fused[~np.isin(fused, rows)]
    beside = Spans(
        [*(op.operator for op in ops), *(str(tasks.events[row].name) for row in others.tolist())],
        np.concatenate([np.array([op.start_ns for op in ops], np.int64), tasks.start_ns[others]]),
        np.concatenate([np.array([op.end_ns for op in ops], np.int64), (tasks.start_ns + tasks.dur_ns)[others]]),
    )
    found = []
    for row in rows.tolist():
        base = operator_of(str(tasks.events[row].name))
        near = beside.overlapping(int(tasks.start_ns[row]), tasks.end_of(row))
        if any(_names(base, beside.names[at]) for at in near):
            found.append(row)
    return found


class Spans:
    """Named spans of time, to be asked which of them overlap another one."""

    def __init__(self, names: Sequence[str], start_ns: Int64, end_ns: Int64) -> None:
        self.names, self.start_ns, self.end_ns = names, start_ns, end_ns
        self._order = np.argsort(start_ns, kind="stable")
        self._starts = start_ns[self._order]
        self._reached = np.maximum.accumulate(end_ns[self._order])

    def overlapping(self, start_ns: int, end_ns: int) -> list[int]:
        """Numbers of the spans that share time with this one."""
        first = int(np.searchsorted(self._reached, start_ns, side="right"))
        last = int(np.searchsorted(self._starts, end_ns))
        return [at for at in self._order[first:last].tolist() if self.end_ns[at] > start_ns]


def _names(base: str, operator: str) -> bool:
    """Whether a kernel named ``base`` stands for an operator: by its name, or what its name says of the kind."""
    kind = kind_of_name(base)
    return base.lower() in operator.lower() or kind_of_name(operator) == kind != CollectiveKind.UNKNOWN


def fused_kernel(op: HcclOp, kernels: Spans) -> int:
    """Number of the compute kernel that ``op`` is the communication of, -1 none."""
    base = op.operator.lower()
    near = [at for at in kernels.overlapping(op.start_ns, op.end_ns) if base in kernels.names[at].lower()]
    shared = np.minimum(kernels.end_ns[near], op.end_ns) - np.maximum(kernels.start_ns[near], op.start_ns)
    return near[int(np.argmax(shared))] if near else -1


def _where(tasks: Timed, accept: Callable[[int], bool]) -> Int64:
    """Rows that are accepted, in order of start."""
    rows = np.array([row for row in range(len(tasks)) if accept(row)], np.int64)
    return rows[np.argsort(tasks.start_ns[rows], kind="stable")]


def _is_signal_of(tasks: Timed, row: int, op: HcclOp) -> bool:
    """Whether a task that moves or signals belongs to ``op`` rather than to a copy of the program's own."""
    if str(tasks.events[row].name).upper().startswith(_COPY) or tasks.end_of(row) > op.end_ns:
        return False
    streams = integer(tasks.events[row].tid), integer(tasks.args[row].physical)
    return not op.served or any(stream in op.streams for stream in streams)
