"""Build the Graph of one step: select the step, let every rule add its ops and edges, learn lags, take residuals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.core.columns import Int64
from replay.core.errors import RefusedError
from replay.core.units import NS_PER_US, ns_to_ms, percent
from replay.graph import clocks, collectives
from replay.graph.calls import SYNCS, CallKind
from replay.graph.contradictions import break_cycles, drop_contradictions
from replay.graph.device_graphs import unrecorded_leads, unrecorded_ns
from replay.graph.edge_list import EdgeList
from replay.graph.edges import add_leads, collect, learn_lags
from replay.graph.kernel_types import kernel_types
from replay.graph.lags import released_ns
from replay.graph.late_ends import with_prompt_ends
from replay.graph.launch_join import Launches, join_launches
from replay.graph.number import Numbered, RankParts, number, rank_parts
from replay.graph.occupancy import occupancy
from replay.graph.selection import select, spans_ns
from replay.graph.step import Steps, choose, find_steps
from replay.graph.syncs import CLOCK_TOLERANCE_NS
from replay.graph.types import Edges, Graph, GraphHealth, Rule
from replay.graph.waits import CallCosts, call_costs
from replay.trace import Trace


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Which step to build: its number, and the range that marks steps; ``None`` means found automatically (R0)."""

    step: int | None = None
    marker: str | None = None


def build(trace: Trace, options: BuildOptions = BuildOptions()) -> Graph:
    """Graph of one step of ``trace``. Raises ``TraceError`` for an unknown step, ``RefusedError`` for an empty one."""
    if trace.not_replayable:
        raise RefusedError(trace.not_replayable)
    launches = join_launches(trace)
    trace = with_prompt_ends(trace, launches)
    steps = find_steps(trace, launches, options.marker)
    spans = spans_ns(trace, launches, steps.steps)
    chosen = choose(trace, steps, options.step, spans)
    costs = call_costs(trace, launches)
    selected = select(trace, launches, steps.steps[chosen])
    parts = tuple(rank_parts(trace, launches, costs, step) for step in selected)
    clock = _align(trace, parts)
    offsets = {rank: offset for rank, (offset, _) in clock.items()}
    matched = collectives.match(trace, _comm_events(trace, parts), offsets)
    windows = _windows(steps)
    split = collectives.split(trace, matched, collectives.ordinals(trace, windows))
    ops = number(trace, parts, offsets, matched, split)
    if not len(ops):
        raise RefusedError(f"nothing to replay in {steps.labels[chosen]}: it holds neither host calls nor device work")
    found, lost = collect(trace, launches, costs, parts, ops, split)
    kept, dropped = drop_contradictions(found, ops.measured)
    leads = unrecorded_leads(trace, launches, windows)
    learned = learn_lags(kept, ops)
    unrecorded = unrecorded_ns(learned, (ns for event, ns in leads.items() if event in ops.first))
    known = add_leads(learned, ops, leads)
    edges, broken = break_cycles(EdgeList.concat([known, occupancy(known, ops)]), ops.measured)
    health = GraphHealth(
        step_label=f"{steps.labels[chosen]} ({steps.how})",
        steps=steps.labels,
        spans_ns=tuple(map(int, spans)),
        period_ns=steps.period_ns(),
        dropped_edges=dropped + lost + sum(part.syncs.dropped for part in parts),
        broken_cycles=broken,
        clock_offset_ns=clock,
        blocked_share=_blocked_share(trace, launches, costs, parts, ops.end_ns),
        launch_latency_ns=_typical_lag(edges, Rule.LAUNCH),
        unrecorded_ns=unrecorded,
        warnings=(
            *_warnings(steps, parts, unrecorded, ops.end_ns),
            *_before_launch(trace, launches, parts),
            *_lost(collectives.lost_members(trace, matched)),
        ),
    )
    return _graph(trace, ops, edges, health)


def _graph(trace: Trace, ops: Numbered, edges: EdgeList, health: GraphHealth) -> Graph:
    """Freeze; the residual of an op is its measured start less the latest release (R5)."""
    n = len(ops)
    release = np.full(n, np.iinfo(np.int64).min)
    np.maximum.at(release, edges.target, released_ns(edges, ops.measured))
    free = release == np.iinfo(np.int64).min
    ready = np.where(free, ops.measured.start_ns, ops.ready_ns)
    residual = ops.measured.start_ns - np.maximum(release, ready)
    sorted_edges = Edges.build(
        n, edges.source, edges.target, edges.lag_ns, edges.from_start, edges.rule, edges.recorded
    )
    return Graph(
        duration_ns=ops.duration_ns,
        residual_ns=residual,
        ready_ns=ready,
        measured_start_ns=ops.measured.start_ns,
        measured_end_ns=ops.measured.end_ns,
        lane=ops.lane,
        rank=ops.rank,
        kind=ops.kind,
        name=ops.name,
        event=ops.event,
        comm=ops.comm,
        grade=ops.grade,
        edges=sorted_edges,
        comms=ops.comms,
        names=ops.names,
        lanes=trace.lanes,
        groups=trace.groups,
        measured_step_ns=ops.end_ns,
        health=health,
        kernels=kernel_types(trace),
    )


def _typical_lag(edges: EdgeList, rule: Rule) -> int:
    lags = edges.lag_ns[edges.rule == rule]
    return int(np.median(lags)) if len(lags) else -1


def _comm_events(trace: Trace, parts: tuple[RankParts, ...]) -> Int64:
    events = [part.step.device[trace.comm[part.step.device] >= 0] for part in parts]
    return np.concatenate(events) if events else np.zeros(0, np.int64)


def _align(trace: Trace, parts: tuple[RankParts, ...]) -> dict[int, tuple[int, int]]:
    """Clock offset and error of every rank; backlog is left out, because its partners may lie in another step."""
    if len(parts) < 2:
        return {part.step.rank: (0, 0) for part in parts}
    events = [part.step.device[(trace.comm[part.step.device] >= 0) & ~part.step.backlog] for part in parts]
    offsets = clocks.align(trace, collectives.match(trace, np.concatenate(events), {}))
    return {part.step.rank: offsets.get(part.step.rank, (0, -1)) for part in parts}


def _windows(steps: Steps) -> list[tuple[int, int, int]]:
    """(rank, begin, end) of every step; a step lasts until the next one begins."""
    windows = []
    for step, following in zip(steps.steps, (*steps.steps[1:], None), strict=True):
        for rank, begin in step.begin_ns.items():
            end = following.begin_ns.get(rank, step.end_ns[rank]) if following else np.iinfo(np.int64).max
            windows.append((rank, begin, int(end)))
    return windows


def _blocked_share(
    trace: Trace, launches: Launches, costs: CallCosts, parts: tuple[RankParts, ...], step_ns: int
) -> dict[str, float]:
    """Share of the step (mean over ranks) that host threads spent blocked, by kind of call."""
    totals = {"launch": 0.0, "sync": 0.0, "copy": 0.0}
    for part in parts:
        calls = part.step.calls[costs.blocked[part.step.calls]]
        waited = np.maximum(trace.dur_ns[calls] - costs.entry_ns[calls], 0)
        kind = launches.call_kind[calls]
        totals["sync"] += float(waited[np.isin(kind, SYNCS)].sum())
        totals["copy"] += float(waited[kind == CallKind.COPY].sum())
        totals["launch"] += float(waited[np.isin(kind, (CallKind.LAUNCH, CallKind.GRAPH_LAUNCH))].sum())
    scale = max(step_ns, 1) * max(len(parts), 1)
    return {name: value / scale for name, value in totals.items()}


def _warnings(steps: Steps, parts: tuple[RankParts, ...], unrecorded: int, step_ns: int) -> tuple[str, ...]:
    warnings = []
    if "busiest" in steps.how or "period" in steps.how:
        warnings.append(f"no step marker was found; the step is {steps.how}: name one with --step-marker")
    orphans = sum(part.step.orphans for part in parts)
    if orphans:
        warnings.append(
            f"{orphans} device ops of the step have no launch call in the input (launched before the recording began, "
            "or lost by the profiler); they keep their stream order only"
        )
    if unrecorded:
        warnings.append(
            f"{ns_to_ms(unrecorded):.1f} ms ({percent(unrecorded, step_ns * len(parts)):.0f} % of the step) pass in "
            "CUDA graphs without a recorded node (the profiler dropped nodes); it is kept as the graphs' own time"
        )
    return tuple(warnings)


def _before_launch(trace: Trace, launches: Launches, parts: tuple[RankParts, ...]) -> tuple[str, ...]:
    """A warning where device work starts before the call that launches it by more than clocks of one file differ."""
    device = np.concatenate([part.step.device for part in parts])
    device = device[launches.call[device] >= 0]
    ahead = trace.start_ns[launches.call[device]] - trace.start_ns[device]
    early = int((ahead > CLOCK_TOLERANCE_NS).sum())
    if not early:
        return ()
    warning = (
        f"{early} of {len(device)} launched device ops of the step start before their launch call, by up to "
        f"{int(ahead.max()) / NS_PER_US:.1f} us: the clocks of host and device do not agree, and the replay, which "
        "launches first, is late by as much where the host leads"
    )
    return (warning,)


def _lost(members: int) -> tuple[str, ...]:
    """A warning where ranks of one group show different numbers of its collectives."""
    if not members:
        return ()
    warning = (
        f"{members} members of collectives of the step are missing on some of their ranks (lost by the profiler, or "
        "outside of its window); without recorded sequence numbers the later ones are matched with the wrong partners"
    )
    return (warning,)
