"""Graph: ops of one step and the edges that release them.

An op starts at the latest of its incoming edges and of ``ready_ns``; it ends ``duration_ns`` later. Everything that
orders ops is an edge, stream order and host order included, so the engine needs no other notion. Waiting is never an
op: a blocking call is its entry cost, and the op after it has an edge from what was waited for. A collective member is
two ops: its *arrival* (zero length, on its lane) and its *transfer*, released by the arrivals of all members; the time
between the two is its wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from replay.core.columns import Bool, Float64, Int8, Int32, Int64, check_equal_length, freeze, offsets_from_lengths
from replay.trace import CollectiveKind, Group, Lane

if TYPE_CHECKING:
    import pandas as pd


class OpKind(IntEnum):
    """What an op occupies."""

    HOST = 0  # host work between two interaction points
    CALL = 1  # a runtime call's own cost (launch, entry of a sync, …)
    COMPUTE = 2  # device kernel; on a rank without a device an operator of its host threads
    ARRIVAL = 3  # a collective member is ready; zero length
    TRANSFER = 4  # the collective moves data (all members present)
    MEMCPY = 5
    MEMSET = 6
    MARK = 7  # zero-length bookkeeping (step begin, joins)


DEVICE_OPS = (OpKind.COMPUTE, OpKind.ARRIVAL, OpKind.TRANSFER, OpKind.MEMCPY, OpKind.MEMSET)


class Rule(IntEnum):
    """Which dependency rule made an edge; one file of :mod:`replay.graph` each."""

    HOST_ORDER = 0
    STREAM_ORDER = 1
    LAUNCH = 2
    EVENT = 3  # stream waits for an event
    HOST_SYNC = 4  # host waits for device work
    HANDOVER = 5  # one host thread waits for another
    COLLECTIVE = 6  # a transfer waits for its members' arrivals
    P2P = 7
    QUEUE = 8  # a launch waits for room in the launch queue
    GRAPH = 9  # inside a CUDA/ACL graph
    SCHEDULE = 10  # order given by a pipeline schedule
    DATA = 11  # producer to consumer across layers or stages
    OCCUPANCY = 12  # a kernel of another stream held the device
    SPIN = 13  # host polls for a flag that device work sets


@dataclass(frozen=True, slots=True)
class CommTable:
    """Communication of a graph, one row per (collective, member); ``Graph.comm`` points here."""

    kind: Int8  # CollectiveKind
    group: Int32  # index into Graph.groups, -1 unknown
    nbytes: Int64  # payload of this member, -1 unknown
    match: Int64  # rows with equal value are one collective
    size: Int32  # members the group has, -1 unknown
    seen: Int32  # members found in the trace
    transfer_low_ns: Int64  # bracket of the transfer time by R3 (low = high when measured with all members)
    transfer_high_ns: Int64
    links: Mapping[str, Float64] = field(default_factory=dict)  # recorded kind of link → its share of each row's time

    def __len__(self) -> int:
        return len(self.kind)

    @staticmethod
    def empty() -> CommTable:
        """No communication at all."""
        i64 = np.zeros(0, np.int64)
        i32 = np.zeros(0, np.int32)
        return CommTable(np.zeros(0, np.int8), i32, i64, i64, i32, i32, i64, i64)


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges sorted by destination: those into op ``i`` are rows ``offsets[i]:offsets[i + 1]``.

    Released at ``(start if from_start else end)[source] + lag_ns``.
    """

    source: Int32
    lag_ns: Int64
    from_start: Bool
    rule: Int8  # Rule
    recorded: Bool  # False: inferred (R4)
    offsets: Int64

    def __len__(self) -> int:
        return len(self.source)

    @property
    def target(self) -> Int32:
        """Destination op of every edge."""
        n = len(self.offsets) - 1
        return np.repeat(np.arange(n, dtype=np.int32), np.diff(self.offsets))

    @staticmethod
    def build(
        n_ops: int, source: Int64, target: Int64, lag_ns: Int64, from_start: Bool, rule: Int8, recorded: Bool
    ) -> Edges:
        """Sort edge columns by destination (stable, so the given order breaks ties)."""
        order = np.argsort(target, kind="stable")
        lengths = np.bincount(target.astype(np.int64), minlength=n_ops)
        return Edges(
            source[order].astype(np.int32),
            lag_ns[order].astype(np.int64),
            from_start[order].astype(np.bool_),
            rule[order].astype(np.int8),
            recorded[order].astype(np.bool_),
            offsets_from_lengths(lengths),
        )


@dataclass(frozen=True, slots=True)
class KernelType:
    """What a kernel is beside its name, as a kernel table calls it; empty unknown."""

    op_type: str  # "MatMulV2"
    core: str  # "AI_CORE", "MIX_AIC", "AI_VECTOR_CORE", "AI_CPU", …


@dataclass(frozen=True, slots=True)
class GraphHealth:
    """What building the graph had to assume."""

    step_label: str = ""  # which step, and how it was found
    steps: tuple[str, ...] = ()  # every step found, in order
    spans_ns: tuple[int, ...] = ()  # R0 span of each
    period_ns: int = -1  # start-to-start period where three or more markers exist
    dropped_edges: int = 0  # inferred edges that contradicted the measured order
    broken_cycles: int = 0
    clock_offset_ns: dict[int, tuple[int, int]] = field(default_factory=dict)  # rank → offset, error
    blocked_share: dict[str, float] = field(default_factory=dict)  # share of step in blocked launches, syncs, copies
    launch_latency_ns: int = -1
    unrecorded_ns: int = 0  # device time inside graph launches in which the profiler recorded no node
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """One step. Op columns have length n; times are ns from the step's begin."""

    duration_ns: Int64
    residual_ns: Int64  # delay of the measured start that no edge explains (R5); only used when asked for
    ready_ns: Int64  # earliest start (lanes still busy with work from before the step)
    measured_start_ns: Int64  # -1 for synthesised ops
    measured_end_ns: Int64
    lane: Int32
    rank: Int32
    kind: Int8  # OpKind
    name: Int32
    event: Int64  # index of the trace event, -1 none
    comm: Int32  # row of comms, -1 none
    grade: Int8  # evidence grade of the duration

    edges: Edges
    comms: CommTable
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    groups: tuple[Group, ...]
    measured_step_ns: int
    health: GraphHealth
    kernels: Mapping[str, KernelType] = field(default_factory=dict)  # by name of op, where a kernel table tells

    def __post_init__(self) -> None:
        columns = {
            name: getattr(self, name)
            for name in ("duration_ns", "residual_ns", "ready_ns", "measured_start_ns", "measured_end_ns", "lane",
                         "rank", "kind", "name", "event", "comm", "grade")
        }  # fmt: skip
        n = check_equal_length("Graph", **columns)
        if len(self.edges.offsets) != n + 1:
            raise ValueError(f"Graph has {n} ops but edge offsets for {len(self.edges.offsets) - 1}")
        for column in columns.values():
            freeze(column)

    def __len__(self) -> int:
        return len(self.duration_ns)

    @property
    def device_time_ns(self) -> Float64:
        """Duration of device ops, 0 for host ops: the weight of every share of device time."""
        return np.where(np.isin(self.kind, DEVICE_OPS), self.duration_ns, 0).astype(np.float64)

    def with_durations(self, duration_ns: Int64, grade: Int8 | None = None) -> Graph:
        """The same graph with other durations (and evidence grades)."""
        return replace(self, duration_ns=duration_ns, grade=self.grade if grade is None else grade)

    def name_of(self, op: int) -> str:
        """Name of one op."""
        return self.names[int(self.name[op])]

    def describe(self, op: int) -> str:
        """Rank, lane and name of an op, for messages."""
        return f"rank {self.rank[op]}, {self.lanes[self.lane[op]].label}: {self.name_of(op)}"

    def to_frame(self) -> pd.DataFrame:
        """One row per op, names spelled out."""
        import pandas as pd  # noqa: PLC0415 - only notebook users pay for it

        return pd.DataFrame(
            {
                "rank": self.rank,
                "lane": [self.lanes[i].label for i in self.lane],
                "kind": [OpKind(k).name.lower() for k in self.kind],
                "name": [self.names[i] for i in self.name],
                "collective": ["" if c < 0 else CollectiveKind(self.comms.kind[c]).name.lower() for c in self.comm],
                "duration_ns": self.duration_ns,
                "residual_ns": self.residual_ns,
                "measured_start_ns": self.measured_start_ns,
            }
        )
