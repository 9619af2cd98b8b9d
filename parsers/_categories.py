"""Which event kind a Chrome category means, whatever its spelling was that year (one table, case-insensitive)."""

from __future__ import annotations

import re

from parsers._chrome_events import Event
from replay.trace import MISSING, EventKind

KIND_OF_CATEGORY: dict[str, EventKind] = {
    "cpu_op": EventKind.CPU_OP,
    "operator": EventKind.CPU_OP,  # PyTorch <= 1.11
    "hpu_op": EventKind.CPU_OP,
    "user_annotation": EventKind.ANNOTATION,
    "cuda_runtime": EventKind.RUNTIME,  # also HIP's
    "cuda_driver": EventKind.RUNTIME,
    "runtime": EventKind.RUNTIME,
    "hip_runtime": EventKind.RUNTIME,
    "xpu_runtime": EventKind.RUNTIME,
    "xpu_driver": EventKind.RUNTIME,
    "mtia_runtime": EventKind.RUNTIME,
    "glow_runtime": EventKind.RUNTIME,
    "privateuse1_runtime": EventKind.RUNTIME,
    "privateuse1_driver": EventKind.RUNTIME,
    "kernel": EventKind.KERNEL,
    "mtia_ccp_events": EventKind.KERNEL,
    "collective_comm": EventKind.KERNEL,
    "gpu_memcpy": EventKind.MEMCPY,
    "memcpy": EventKind.MEMCPY,
    "gpu_memset": EventKind.MEMSET,
    "memset": EventKind.MEMSET,
    "cuda_sync": EventKind.SYNC,
    "xpu_sync": EventKind.SYNC,
    "gpu_user_annotation": EventKind.DEVICE_ANNOTATION,
    "overhead": EventKind.OVERHEAD,
}

SKIPPED_CATEGORIES: dict[str, str] = {
    "trace": "profiler spans",
    "python_function": "python functions",  # nn.Module rows are kept
    "cuda_profiler_range": "profiler ranges",
    "xpu_scope_profiler": "profiler ranges",
    "mtia_insight": "profiler ranges",
    "mtia_counters": "counters",
    "hardware_counters": "counters",
    "external_correlation": "correlation records",
    "cuda_event": "event records of zero length",
}

SKIPPED_PHASES: dict[str, str] = {
    "s": "flow arrows",
    "t": "flow arrows",
    "f": "flow arrows",
    "C": "counters",
    "i": "instant events",
    "I": "instant events",
    "M": "metadata records",
    "b": "async spans",
    "n": "async spans",
    "e": "async spans",
    "P": "samples",
    "R": "marks",
}

MODULE_PREFIX = "nn.Module: "
NO_STREAM = 4294967295  # -1 as uint32
ON_DEVICE = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET, EventKind.SYNC, EventKind.DEVICE_ANNOTATION)
_RUNTIME_CALL = re.compile(r"(?:cuda|cu|hip)[A-Z]")


def kind_without_category(event: Event) -> EventKind:
    """Kind of an event that has no category: device rows name a stream, runtime calls a correlation."""
    args = event.args
    if args is None:
        return EventKind.OTHER
    name = str(event.name)
    if _RUNTIME_CALL.match(name):
        return EventKind.RUNTIME
    if MISSING in (args.stream, args.correlation):
        return EventKind.CPU_OP if args.dims else EventKind.OTHER
    word = name[:6].lower()
    return EventKind.MEMCPY if word == "memcpy" else EventKind.MEMSET if word == "memset" else EventKind.KERNEL
