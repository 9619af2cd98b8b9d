"""Device events of a rank whose timeline is missing, from its kernel table and the statistics of its collectives.

Which host call launched a kernel, and what it waited for, is not in any table; such a trace can be looked at, not
replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from parsers._rows import COLUMNS, CommInfo, Rows
from parsers.ascend.hccl import HcclOp, op_of_name
from parsers.ascend.rows import AscendContent
from parsers.ascend.tables import CommStatistics, KernelRow
from replay.core.columns import Interner
from replay.trace import MISSING, EventKind, Lane

_COMMUNICATION = ("HCCL", "COMMUNICATION")
_STREAMS = ("kernels", "collectives")


def tabled_rows(kernels: Sequence[KernelRow], statistics: Sequence[CommStatistics]) -> AscendContent:
    """Every kernel, and every collective that only the statistics know, as a device event on one of two lanes."""
    listed = {kernel.name for kernel in kernels}
    timed = [(kernel.name, kernel.core in _COMMUNICATION, kernel.start_ns, kernel.dur_ns) for kernel in kernels]
    rest = [entry for entry in statistics if entry.name not in listed and min(entry.start_ns, entry.dur_ns) >= 0]
    timed += [(entry.name, True, entry.start_ns, entry.dur_ns) for entry in rest]
    names = Interner()
    columns: dict[str, list[int]] = {name: [] for name in COLUMNS}
    comms: dict[int, CommInfo] = {}
    ops: dict[int, HcclOp] = {}
    for row, (written, told, start, dur) in enumerate(timed):
        is_comm = told or written.lower().startswith("hcom_")
        op = op_of_name(written, start, dur) if is_comm else None
        name = f"hcom_{op.operator}_" if op is not None and op.suffix else written
        given = {"start_ns": start, "dur_ns": dur, "kind": int(EventKind.KERNEL)}
        given |= {"name": names.code(name), "lane": int(is_comm)}
        for column, values in columns.items():
            values.append(given.get(column, MISSING))
        if op is not None:
            comms[row], ops[row] = CommInfo(name), op
    arrays = {name: np.array(values, np.int64) for name, values in columns.items()}
    lanes = tuple(Lane(MISSING, True, label, stream=at) for at, label in enumerate(_STREAMS))
    empty: tuple[str, ...] = ()
    rows = Rows(**arrays, names=names.names, shapes=empty, dtypes=empty, lanes=lanes, comms=comms)
    return AscendContent(rows, ops, MISSING, {}, Counter(), Counter(), Counter())
