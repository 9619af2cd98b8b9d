"""Trace: the events of all ranks as equal-length columns, and a Health record of everything that was not taken as is.

Times are integer nanoseconds on one axis per trace (``Trace.epoch_ns`` is its zero); sizes are bytes. Events are sorted
by (rank, start, -duration), so a parent precedes its children. Missing integers are -1 (``MISSING``), never 0.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from replay.core.columns import Bool, Float64, Int8, Int32, Int64, Ragged, check_equal_length, freeze

if TYPE_CHECKING:
    import pandas as pd

MISSING = -1
RECORDED = "recorded in the trace"  # how the world size is known, where it is
ON_HOST = -2  # device of a stream whose work the host's own threads carry out (Gloo)


class EventKind(IntEnum):
    """What an event is, whatever its producer called it."""

    CPU_OP = 0  # a framework operator on a host thread
    ANNOTATION = 1  # a named range on a host thread (record_function, ProfilerStep)
    RUNTIME = 2  # a runtime or driver call (cudaLaunchKernel, hipMemcpyAsync, aclrt…)
    KERNEL = 3  # device compute or communication kernel
    MEMCPY = 4
    MEMSET = 5
    SYNC = 6  # a recorded synchronisation row (cuda_sync)
    MODULE = 7  # python_function rows of nn.Module calls
    DEVICE_ANNOTATION = 8  # ranges drawn on device lanes; derived, never ops
    OVERHEAD = 9  # the profiler's own time
    OTHER = 10


DEVICE_KINDS = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)


class CollectiveKind(IntEnum):
    """Kind of a communication op."""

    UNKNOWN = 0  # communication, kind not told (ncclDevKernel_Generic, …)
    ALL_REDUCE = 1
    ALL_GATHER = 2
    REDUCE_SCATTER = 3
    ALL_TO_ALL = 4
    BROADCAST = 5
    REDUCE = 6
    GATHER = 7
    SCATTER = 8
    BARRIER = 9
    SEND = 10
    RECV = 11
    SEND_RECV = 12  # a fused exchange: one rendezvous, both directions
    DISPATCH = 13  # expert dispatch (DeepEP and alike)
    COMBINE = 14  # expert combine
    NOTIFY = 15  # control exchange before a dispatch/combine; its time is waiting


class CommEvidence(IntEnum):
    """Where a collective's metadata was read; a larger value is weaker."""

    KERNEL_ARGS = 0
    PARENT_OP = 1  # the record_param_comms (or c10d) op around its launch
    NAME = 2  # the kernel's name only


@dataclass(frozen=True, slots=True)
class Lane:
    """A stream (device) or a thread (host) of one rank."""

    rank: int
    is_device: bool
    label: str  # "stream 7", "thread 1074 (pt_autograd_0)"
    device: int = MISSING  # device ordinal for streams, or ON_HOST
    stream: int = MISSING
    pid: str = ""
    tid: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A communicator. ``ranks`` is empty when only its size is known; ``size`` is -1 when not even that."""

    name: str
    description: str = ""
    ranks: tuple[int, ...] = ()
    size: int = MISSING


@dataclass(frozen=True, slots=True)
class LinkUse:
    """What one member of a collective moved over one kind of link, summed over tasks that may have run at once."""

    transport: str  # as recorded: "HCCS", "SIO", "PCIE" inside of a node, "RDMA" between nodes
    nbytes: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class Collectives:
    """One row per communication event; ``Trace.comm`` points here. Columns of length c."""

    kind: Int8  # CollectiveKind
    group: Int32  # index into Trace.groups, -1 unknown
    sequence: Int64  # per group and rank, recorded; -1 unknown
    in_nbytes: Int64  # this rank's input buffer, -1 unknown
    out_nbytes: Int64
    peer: Int32  # global rank of the peer of a send/recv, -1 unknown
    evidence: Int8  # CommEvidence
    dtype: tuple[str, ...]  # one word per row ("BFloat16"), "" unknown
    in_split: Ragged  # elements sent to each member, empty rows when unknown
    out_split: Ragged
    transfer_ns: Int64 | None = None  # time on the wire, recorded beside the waiting; -1 unknown, None: no row knows
    algorithm: tuple[str, ...] = ()  # as the library names it ("MESH-RING"), "" unknown; (): no row knows
    links: tuple[tuple[LinkUse, ...], ...] = ()  # () unknown, in every row or for all

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def recorded_transfer_ns(self) -> Int64:
        """Recorded time on the wire of every row, -1 unknown."""
        return np.full(len(self), MISSING, np.int64) if self.transfer_ns is None else self.transfer_ns

    @property
    def nbytes(self) -> Int64:
        """Larger of the two buffers, -1 where neither is known."""
        return np.maximum(self.in_nbytes, self.out_nbytes)


@dataclass(frozen=True, slots=True)
class CoreCounters:
    """Counters of the cube cores beside :class:`KernelDetails`, one row each; -1 (NaN) unknown."""

    blocks: Int64  # cores that a kernel was spread over
    cube_ns: Int64  # time at work, mean over its cores
    cube_cycles: Int64  # the same in cycles, sum over its cores
    mac_ratio: Float64  # share of that time in which the multipliers worked
    hf32: Int8  # 1: FP32 inputs are multiplied with a shorter mantissa, at a higher rate


@dataclass(frozen=True, slots=True)
class KernelDetails:
    """What a kernel table tells of device events beyond their times; one row per event found in it, empty text unknown.

    Shapes, types and formats are lists as text, one entry per tensor, separated by ``;`` (``4096,7168;7168,2048``).
    """

    event: Int64  # index into the trace
    op_type: tuple[str, ...]  # "MatMulV3"
    core: tuple[str, ...]  # "AI_CORE", "MIX_AIC", "AI_VECTOR_CORE", "AI_CPU", …
    input_shapes: tuple[str, ...]
    input_dtypes: tuple[str, ...]
    input_formats: tuple[str, ...]
    output_shapes: tuple[str, ...]
    output_dtypes: tuple[str, ...]
    output_formats: tuple[str, ...]
    wait_ns: Int64  # since the task before on the device, -1 unknown
    cube_utilization_pct: Float64  # NaN unknown
    counters: CoreCounters | None = None  # None: no row has any

    def __len__(self) -> int:
        return len(self.event)


@dataclass(frozen=True, slots=True)
class StepTableRow:
    """Parts of one step as the profiler itself counted them; names as it gives them."""

    rank: int  # -1 for a row of a pipeline stage
    step: str
    parts_ms: tuple[tuple[str, float], ...]
    stage: tuple[int, ...] = ()  # the ranks of the stage; the row holds the largest value of each part


class SummaryTable(IntEnum):
    """What the rows of a summary are about."""

    OPERATORS = 0
    COMMUNICATION = 1
    HOST_CALLS = 2


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """Calls of one kind that a producer summed up; they stand in for events that are not there."""

    table: SummaryTable
    rank: int
    name: str
    detail: str  # of operators their core, of host calls the layer that offers them
    count: int
    total_ns: int
    min_ns: int  # -1 unknown, as the next
    max_ns: int


@dataclass(frozen=True, slots=True)
class MemoryPeak:
    """The most that a rank held of its device's memory, bytes; -1 unknown."""

    rank: int
    allocated_nbytes: int  # by the framework
    reserved_nbytes: int  # by the process


@dataclass(frozen=True, slots=True)
class Health:
    """What happened to the input on its way in. Nothing is dropped without a count here."""

    events: int = 0  # records seen in the files, whatever became of them
    dropped: dict[str, int] = field(default_factory=dict)  # reason → records that could not be used
    skipped: dict[str, int] = field(default_factory=dict)  # reason → records that are not ops (flows, counters, …)
    clipped: dict[str, int] = field(default_factory=dict)  # reason → values that were changed (negative durations, …)
    inferred: dict[str, int] = field(default_factory=dict)  # what was deduced rather than read
    kernels_without_launch: int = 0
    launches_without_kernel: int = 0
    warnings: tuple[str, ...] = ()
    cut_short: tuple[str, ...] = ()  # files that end in the middle

    def merged(self, other: Health) -> Health:
        """Both records added up; equal warnings are kept once."""

        def add(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
            return dict(Counter(a) + Counter(b))

        return Health(
            self.events + other.events,
            add(self.dropped, other.dropped),
            add(self.skipped, other.skipped),
            add(self.clipped, other.clipped),
            add(self.inferred, other.inferred),
            self.kernels_without_launch + other.kernels_without_launch,
            self.launches_without_kernel + other.launches_without_kernel,
            tuple(dict.fromkeys(self.warnings + other.warnings)),
            tuple(dict.fromkeys(self.cut_short + other.cut_short)),
        )


@dataclass(frozen=True, slots=True)
class Trace:
    """Events of one or more ranks. All columns have length n; see the module's docstring for order and units."""

    start_ns: Int64
    dur_ns: Int64
    rank: Int32
    lane: Int32  # index into lanes
    name: Int32  # index into names
    kind: Int8  # EventKind
    correlation: Int64  # joins runtime call and device work of one rank
    external_id: Int64  # "External id", as recorded
    sequence: Int64  # autograd sequence number
    stream: Int64  # stream named by the event's args (runtime, sync and device rows)
    wait_on_record: Int64  # correlation of the event record that a sync row waits on
    wait_on_stream: Int64
    nbytes: Int64  # bytes of copies and sets
    graph_node: Int64  # node id of device work launched by a graph
    comm: Int32  # index into collectives
    shape: Int32  # index into shapes ("Input Dims" as JSON text), -1 none
    dtype: Int32  # index into dtypes ("Input type" as JSON text), -1 none

    names: tuple[str, ...]
    shapes: tuple[str, ...]
    dtypes: tuple[str, ...]
    lanes: tuple[Lane, ...]
    groups: tuple[Group, ...]
    collectives: Collectives
    ranks: tuple[int, ...]
    world_size: int  # -1 when no file says
    device: str  # model name of the device, "" unknown
    epoch_ns: int  # Unix time of 0 on this trace's axis; 0 when the file's clock is not absolute
    format: str  # "kineto", "perfetto", …
    files: tuple[str, ...]
    health: Health
    metadata: dict[str, str] = field(default_factory=dict)  # producer facts worth showing (versions, options)
    details: KernelDetails | None = None  # of a kernel table beside the timeline
    step_table: tuple[StepTableRow, ...] = ()  # the profiler's own account of its steps, to be held against ours
    summaries: tuple[SummaryRow, ...] = ()  # of the producer; empty where its events are there
    memory: tuple[MemoryPeak, ...] = ()  # of the ranks that recorded it
    not_replayable: str = ""  # why its events, which can be looked at, cannot be replayed
    layout: dict[str, int] = field(default_factory=dict)  # sizes that the job recorded of itself, by Layout's words
    world_evidence: str = RECORDED  # how ``world_size`` is known

    def __post_init__(self) -> None:
        columns = self.columns()
        check_equal_length("Trace", **columns)
        for column in columns.values():
            freeze(column)

    def columns(self) -> dict[str, Any]:
        """The columns that have one row per event, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)[: self._n_columns()]}

    @staticmethod
    def _n_columns() -> int:
        return 17

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> Int64:
        """start + duration."""
        return self.start_ns + self.dur_ns

    @property
    def is_device(self) -> Bool:
        """True for kernels, copies and sets."""
        return np.isin(self.kind, DEVICE_KINDS)

    def end_of(self, event: int) -> int:
        """End of one event, ns; loops use it, since ``end_ns`` adds up whole columns."""
        return int(self.start_ns[event]) + int(self.dur_ns[event])

    def name_of(self, event: int) -> str:
        """Name of one event."""
        return self.names[int(self.name[event])]

    def to_frame(self) -> pd.DataFrame:
        """One row per event, names spelled out."""
        import pandas as pd  # noqa: PLC0415 - only notebook users pay for it

        return pd.DataFrame(
            {
                "rank": self.rank,
                "lane": [self.lanes[i].label for i in self.lane],
                "kind": [EventKind(k).name.lower() for k in self.kind],
                "name": [self.names[i] for i in self.name],
                "start_ns": self.start_ns,
                "dur_ns": self.dur_ns,
                "correlation": self.correlation,
            }
        )
