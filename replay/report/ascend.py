"""Statistics as Ascend users know them: operators by type and core, collectives and links, host calls, step parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hwprofiles import HardwareProfile
from replay.core.columns import Int64
from replay.core.evidence import Grade
from replay.core.units import NS_PER_MS, NS_PER_US, percent
from replay.graph.calls import CANN_LAYER
from replay.report.ascend_step import StepTime, step_times
from replay.report.cube import CubeFacts, GemmRow, cube_facts
from replay.trace import EventKind, Group, LinkUse, SummaryRow, SummaryTable, Trace

FORMAT = "ascend"
_LEVELS = {"AscendCL": "acl"}  # other layers are called as they are, in lower case


@dataclass(frozen=True, slots=True)
class Durations:
    """Count and durations of what falls into one row; share is of the table's total."""

    count: int
    total_ms: float
    min_us: float
    avg_us: float
    max_us: float
    share_pct: float


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One row of ``op_statistic.csv``, over all ranks; kernels without a table are listed by their name."""

    op_type: str
    core: str  # "AI_CORE", "MIX_AIC", "AI_VECTOR_CORE", …; empty unknown
    durations: Durations


@dataclass(frozen=True, slots=True)
class CommunicationRow:
    """Collectives of one operator and group, over all ranks; null where the input does not tell bytes or transfer."""

    operator: str
    group: str
    description: str  # what the job calls the group ("tp", "default_group"); empty unknown
    durations: Durations
    transfer_ms: float | None  # on the wire
    wait_ms: float | None  # the rest
    nbytes: int | None
    algorithm: str  # phases of HCCL's algorithms ("MESH-RING"), several with commas; empty unknown


@dataclass(frozen=True, slots=True)
class LinkRow:
    """What all collectives together moved over one kind of link, as ``communication.json`` sums it up over all planes.

    Tasks of several planes run at once, so the bandwidth is that of one task at a time.
    """

    transport: str  # "HCCS", "SIO", "PCIE", "RDMA"
    collectives: int  # members that used it
    nbytes: int
    transit_ms: float
    bandwidth_gb_per_s: float  # 10^9 bytes


@dataclass(frozen=True, slots=True)
class ApiRow:
    """One row of ``api_statistic.csv``, over all ranks: calls that CANN recorded on the host."""

    level: str  # layer that names the call: "acl", "node", "hccl", "model", "runtime"
    api: str
    durations: Durations


@dataclass(frozen=True, slots=True)
class StepRow:
    """Parts of a step, ms, by the definitions of ``step_trace_time.csv``: counted here, and as recorded there."""

    rank: int  # -1 for a row of a pipeline stage, which holds the largest value of each part
    step: str
    counted_ms: Mapping[str, float]
    recorded_ms: Mapping[str, float]
    stage: tuple[int, ...] = ()  # its ranks


@dataclass(frozen=True, slots=True)
class AscendFacts:
    """Statistics of an Ascend profile; longest first."""

    grade: str  # of every number in these tables
    operators: tuple[OperatorRow, ...]
    communication: tuple[CommunicationRow, ...]
    links: tuple[LinkRow, ...]
    host_api: tuple[ApiRow, ...]
    steps: tuple[StepRow, ...]
    gemm: tuple[GemmRow, ...] = ()  # matrix products by shape, with grades of their own where the cost model speaks
    cube: CubeFacts | None = None  # null where the kernel table has no matrix products


def ascend_facts(trace: Trace, profile: HardwareProfile | None = None) -> AscendFacts | None:
    """Statistics of an Ascend trace, ``None`` for any other; ``profile`` is of its device, where that is known."""
    if trace.format != FORMAT:
        return None
    tables = _operators(trace), _communication(trace), _links(trace), _host_api(trace), _steps(trace)
    return AscendFacts(Grade.MEASURED.label, *tables, *(cube_facts(trace, profile) or ((), None)))


def _operators(trace: Trace) -> tuple[OperatorRow, ...]:
    by_key: dict[tuple[str, str], list[int]] = defaultdict(list)
    details = trace.details
    typed = (
        dict(zip(details.event.tolist(), zip(details.op_type, details.core, strict=True), strict=True))
        if details
        else {}
    )
    for event in np.flatnonzero(trace.is_device & (trace.comm < 0)).tolist():
        if event in typed or not typed:  # copies have no row in the table, as in Ascend's own statistics
            by_key[typed.get(event, (trace.name_of(event), ""))].append(event)
    if not by_key:
        return tuple(OperatorRow(*key, durations) for key, durations in _summed(trace, SummaryTable.OPERATORS))
    total = int(sum(trace.dur_ns[events].sum() for events in by_key.values()))
    rows = [OperatorRow(*key, _durations(trace.dur_ns[events], total)) for key, events in by_key.items()]
    return tuple(sorted(rows, key=lambda row: -row.durations.total_ms))


def _communication(trace: Trace) -> tuple[CommunicationRow, ...]:
    by_key: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    events = np.flatnonzero(trace.comm >= 0)
    for event in events.tolist():
        code = int(trace.collectives.group[trace.comm[event]])
        group = trace.groups[code] if code >= 0 else Group("")
        by_key[trace.name_of(event), group.name, group.description].append(event)
    if not by_key:
        sums = _summed(trace, SummaryTable.COMMUNICATION)
        return tuple(CommunicationRow(name, "", "", durations, None, None, None, "") for (name, _), durations in sums)
    total = int(trace.dur_ns[events].sum())
    rows = []
    for key, own in by_key.items():
        transfer = _known_sum(trace.collectives.recorded_transfer_ns[trace.comm[own]])
        nbytes = _known_sum(trace.collectives.nbytes[trace.comm[own]])
        wait = None if transfer is None else (int(trace.dur_ns[own].sum()) - transfer) / NS_PER_MS
        on_wire = None if transfer is None else transfer / NS_PER_MS
        chosen = ", ".join(sorted({trace.collectives.algorithm[row] for row in trace.comm[own].tolist()} - {""}))
        rows.append(CommunicationRow(*key, _durations(trace.dur_ns[own], total), on_wire, wait, nbytes, chosen))
    return tuple(sorted(rows, key=lambda row: -row.durations.total_ms))


def _links(trace: Trace) -> tuple[LinkRow, ...]:
    by_transport: dict[str, list[LinkUse]] = defaultdict(list)
    for use in (use for uses in trace.collectives.links for use in uses):
        by_transport[use.transport].append(use)
    rows = []
    for transport, uses in by_transport.items():
        nbytes, time_ns = sum(use.nbytes for use in uses), sum(use.time_ns for use in uses)
        rows.append(LinkRow(transport, len(uses), nbytes, time_ns / NS_PER_MS, nbytes / time_ns))
    return tuple(sorted(rows, key=lambda row: -row.transit_ms))


def _host_api(trace: Trace) -> tuple[ApiRow, ...]:
    layers = [CANN_LAYER.match(name) for name in trace.names]
    in_cann = np.array([layer is not None for layer in layers] or [False], np.bool_)
    events = np.flatnonzero((trace.kind == EventKind.RUNTIME) & in_cann[trace.name])
    if not len(events):
        sums = _summed(trace, SummaryTable.HOST_CALLS)
        return tuple(ApiRow(level, api, durations) for (api, level), durations in sums)
    codes, row_of = np.unique(trace.name[events], return_inverse=True)
    total = int(trace.dur_ns[events].sum())
    rows = []
    for at, code in enumerate(codes.tolist()):
        layer, _, api = trace.names[code].partition("@")
        durations = _durations(trace.dur_ns[events[row_of == at]], total)
        rows.append(ApiRow(_LEVELS.get(layer, layer.lower()), api, durations))
    return tuple(sorted(rows, key=lambda row: -row.durations.total_ms))


def _summed(trace: Trace, table: SummaryTable) -> list[tuple[tuple[str, str], Durations]]:
    """Rows of the profiler's own summaries over all ranks, by name and core or layer, longest first."""
    by_key: dict[tuple[str, str], list[SummaryRow]] = defaultdict(list)
    for row in trace.summaries:
        if row.table == table:
            by_key[row.name, row.detail].append(row)
    total = sum(row.total_ns for rows in by_key.values() for row in rows)
    found = []
    for key, rows in by_key.items():
        calls, own = sum(row.count for row in rows), sum(row.total_ns for row in rows)
        mean = own / calls / NS_PER_US
        low = min((row.min_ns / NS_PER_US for row in rows if row.min_ns >= 0), default=mean)
        high = max((row.max_ns / NS_PER_US for row in rows if row.max_ns >= 0), default=mean)
        found.append((key, Durations(calls, own / NS_PER_MS, low, mean, high, percent(own, total))))
    return sorted(found, key=lambda item: -item[1].total_ms)


def _known_sum(values: Int64) -> int | None:
    return int(values.sum()) if (values >= 0).all() else None


def _durations(dur_ns: Int64, total_ns: int) -> Durations:
    low, mean, high = (float(value) / NS_PER_US for value in (dur_ns.min(), dur_ns.mean(), dur_ns.max()))
    own = int(dur_ns.sum())
    return Durations(len(dur_ns), own / NS_PER_MS, low, mean, high, percent(own, total_ns))


def _steps(trace: Trace) -> tuple[StepRow, ...]:
    counted = [] if trace.not_replayable else list(step_times(trace))
    recorded = {(row.rank, row.stage, _number(row.step)): dict(row.parts_ms) for row in trace.step_table}
    ranks = [own.rank for own in counted]
    rows = []
    for own in counted:
        keys = [(own.rank, (), _number(own.step))]
        keys += [(own.rank, (), "")] if ranks.count(own.rank) == 1 else []  # a recording without steps is one
        found = next((recorded.pop(key) for key in keys if key in recorded), {})
        rows.append(StepRow(own.rank, own.step, _parts(own), found))
    rest = [StepRow(rank, step, {}, parts, stage) for (rank, stage, step), parts in recorded.items()]
    return (*rows, *rest)


def _number(step: str) -> str:
    """Number of a step in either spelling: ``ProfilerStep#50``, ``50``."""
    return step.rpartition("#")[2]


def _parts(own: StepTime) -> dict[str, float]:
    values = (own.computing_ns, own.not_overlapped_ns, own.overlapped_ns, own.communication_ns, own.free_ns)
    return dict(zip(PARTS, (value / NS_PER_MS for value in values), strict=True))


PARTS: Sequence[str] = ("Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free")
