"""Type and core of kernels by their name, where a kernel table beside the timeline tells them (Ascend).

Names of device ops carry running numbers (``Conv2D1``, ``trans_TransData_10``) or the whole chain of calls
(``aclnnAddmm_MatMulCommon_MatMulV2``); the table has the operator's type behind each, and the core it ran on.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from replay.graph.types import KernelType
from replay.trace import Trace


def kernel_types(trace: Trace) -> dict[str, KernelType]:
    """Type and core of every kernel name in the table, those of most of its time; empty without a table."""
    details = trace.details
    times: dict[str, Counter[KernelType]] = defaultdict(Counter)
    if details is not None:
        for event, op_type, core in zip(details.event.tolist(), details.op_type, details.core, strict=True):
            times[trace.name_of(event)][KernelType(op_type, core)] += int(trace.dur_ns[event])
    return {name: found.most_common(1)[0][0] for name, found in times.items()}
