"""All edges of the step: the rules' findings, in terms of numbered ops, with the lags that are properties of a pair."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from replay.core.columns import Int64
from replay.core.units import NS_PER_US
from replay.graph.calls import CallKind
from replay.graph.collectives import Split
from replay.graph.edge_list import EdgeList
from replay.graph.events import stream_waits
from replay.graph.lags import LONGEST_NS, learn_lag, released_ns
from replay.graph.launch_join import Launches
from replay.graph.launches import launch_edges, launch_latencies_ns
from replay.graph.number import Numbered, RankParts
from replay.graph.streams import stream_order
from replay.graph.types import OpKind, Rule
from replay.graph.waits import CallCosts
from replay.trace import Trace

_LONGEST_GAP_NS = 100 * NS_PER_US  # between queued ops of one stream: devices need a few microseconds


def collect(
    trace: Trace, launches: Launches, costs: CallCosts, parts: tuple[RankParts, ...], ops: Numbered, split: Split
) -> tuple[EdgeList, int]:
    """Edges of every rule, and how many inferred stream waits had no consistent source."""
    lists: list[EdgeList] = []
    dropped = 0
    latency_ns = launch_latencies_ns(trace, launches)
    for part in parts:
        lists += [_host_order(part, ops), *_handovers(part, ops), *_streams(trace, launches, part, ops)]
        lists += launch_edges(trace, launches, costs, part, ops, latency_ns)
        lists.append(_graph_branches(trace, launches, part, ops))
        lists += [_syncs(part, ops), _spins(part, ops), _transfers(part, ops), _queue(part, ops)]
        waits = stream_waits(trace, launches, part.step, part.streams)
        lists.append(
            EdgeList.of(
                Rule.EVENT, _ops(ops.last, waits.source), _ops(ops.first, waits.target), recorded=waits.recorded
            )
        )
        dropped += waits.dropped
    return EdgeList.concat([*lists, *_collectives(ops, split)]), dropped


def learn_lags(edges: EdgeList, ops: Numbered) -> EdgeList:
    """Give every rule that has one its lag, learned from the trace (R5); two rounds, since lags depend on each other.

    Host order, launches, device-graph gaps, overlaps and collectives keep the lags they came with.
    """
    enters = ops.kind[edges.target] == OpKind.ARRIVAL
    classes = [
        ((edges.rule == Rule.STREAM_ORDER) & (edges.lag_ns >= 0), _LONGEST_GAP_NS),
        ((edges.rule == Rule.EVENT) & ~enters, LONGEST_NS),
        (edges.rule == Rule.HOST_SYNC, LONGEST_NS),
        (edges.rule == Rule.QUEUE, LONGEST_NS),
    ]
    for _ in range(2):
        for members, longest in classes:
            cleared = edges.with_lag(members, 0)
            edges = edges.with_lag(members, learn_lag(cleared, ops.measured, members, longest))
    entry = (edges.rule == Rule.EVENT) & enters
    return edges.with_lag(entry, _entry_cost(edges.with_lag(entry, 0), ops))


def _entry_cost(edges: EdgeList, ops: Numbered) -> int:
    """Cost of entering a collective (R5): median time from the release of its last member to that member's arrival.

    The transfer begins with the last arrival, so what its stragglers of the moment add counts, not what a typical
    member needs; collectives whose last arrival came earlier than its release say nothing.
    """
    arrival = np.flatnonzero(ops.kind == OpKind.ARRIVAL)
    release = np.full(len(ops), np.iinfo(np.int64).min)
    np.maximum.at(release, edges.target, released_ns(edges, ops.measured))
    match = ops.comms.match[ops.comm[arrival]]
    keys, member_of = np.unique(match, return_inverse=True)
    released, arrived = np.full(len(keys), np.iinfo(np.int64).min), np.full(len(keys), np.iinfo(np.int64).min)
    np.maximum.at(released, member_of, release[arrival])
    np.maximum.at(arrived, member_of, ops.measured.start_ns[arrival])
    delay = (arrived - released)[released >= 0]
    delay = delay[delay >= 0]
    return min(int(np.median(delay)), LONGEST_NS) if len(delay) else 0


def add_leads(edges: EdgeList, ops: Numbered, leads: dict[int, int]) -> EdgeList:
    """Delay the releases of a graph's first recorded node by the unrecorded work before it; see device_graphs."""
    lead = np.zeros(len(ops), np.int64)
    for event, lead_ns in leads.items():
        if event in ops.first:
            lead[ops.first[event]] = lead_ns
    released_by = np.isin(edges.rule, (Rule.STREAM_ORDER, Rule.LAUNCH, Rule.GRAPH, Rule.EVENT))
    return edges.plus_lag(np.where(released_by, lead[edges.target], 0))


def _ops(of_event: dict[int, int], events: Int64) -> list[int]:
    return [of_event[int(event)] for event in events]


def _host_order(part: RankParts, ops: Numbered) -> EdgeList:
    base = ops.host_base[part.step.rank]
    previous = np.array(part.host.previous, np.int64)
    target = np.flatnonzero(previous >= 0)
    return EdgeList.of(Rule.HOST_ORDER, previous[target] + base, target + base)


def _handovers(part: RankParts, ops: Numbered) -> list[EdgeList]:
    base = ops.host_base[part.step.rank]
    return [
        EdgeList.of(Rule.HANDOVER, [base + a for a, _ in pairs], [base + b for _, b in pairs], recorded=recorded)
        for pairs, recorded in ((part.host.handovers, False), (part.host.queued, True))
    ]


def _streams(trace: Trace, launches: Launches, part: RankParts, ops: Numbered) -> list[EdgeList]:
    source, target, lag, in_graph = stream_order(trace, launches, part.device)
    return [
        EdgeList.of(rule, _ops(ops.last, source[mine]), _ops(ops.first, target[mine]), lag_ns=lag[mine])
        for rule, mine in ((Rule.STREAM_ORDER, ~in_graph), (Rule.GRAPH, in_graph))
    ]


def _graph_branches(trace: Trace, launches: Launches, part: RankParts, ops: Numbered) -> EdgeList:
    """First op of every further stream of a graph launch starts a measured time after the graph's first op."""
    root: dict[int, int] = {}
    streams: set[tuple[int, int]] = set()
    rows: list[tuple[int, int, int]] = []
    by_graph = launches.call_kind[launches.call[part.step.device]] == CallKind.GRAPH_LAUNCH
    for event in map(int, part.step.device[by_graph & (launches.call[part.step.device] >= 0)]):
        call = int(launches.call[event])
        key = (call, int(trace.lane[event]))
        if call in root and key not in streams:
            first = root[call]
            rows.append((ops.first[first], ops.first[event], int(trace.start_ns[event] - trace.start_ns[first])))
        root.setdefault(call, event)
        streams.add(key)
    return EdgeList.of(
        Rule.GRAPH, [r[0] for r in rows], [r[1] for r in rows], lag_ns=np.array([r[2] for r in rows], np.int64),
        from_start=True,
    )  # fmt: skip


def _syncs(part: RankParts, ops: Numbered) -> EdgeList:
    rows = [
        (ops.last[int(source)], ops.after_call[int(call)], bool(recorded))
        for call, source, recorded in zip(part.syncs.call, part.syncs.source, part.syncs.recorded, strict=True)
        if int(call) in ops.after_call
    ]
    return EdgeList.of(
        Rule.HOST_SYNC, [r[0] for r in rows], [r[1] for r in rows], recorded=np.array([r[2] for r in rows], np.bool_)
    )


def _spins(part: RankParts, ops: Numbered) -> EdgeList:
    base = ops.host_base[part.step.rank]
    return EdgeList.of(
        Rule.SPIN,
        [ops.last[spin.event] for spin, _ in part.host.spins],
        [base + op for _, op in part.host.spins],
        lag_ns=np.array([spin.lag_ns for spin, _ in part.host.spins], np.int64),
        recorded=False,
    )


def _transfers(part: RankParts, ops: Numbered) -> EdgeList:
    """Host threads wait for transfers that other threads of the host carry out."""
    base = ops.host_base[part.step.rank]
    rows = [(ops.last[event], base + op) for wait, op in part.host.transfers for event in wait.events]
    rows += [(ops.last[event], ops.after_call[call]) for call, event in part.host.in_calls if call in ops.after_call]
    return EdgeList.of(Rule.HOST_SYNC, [r[0] for r in rows], [r[1] for r in rows], recorded=False)


def _queue(part: RankParts, ops: Numbered) -> EdgeList:
    rows = [
        (ops.last[int(source)], ops.call_op[int(call)])
        for call, source in zip(part.queue.call, part.queue.released_by, strict=True)
        if int(call) in ops.call_op and int(source) in ops.last
    ]
    return EdgeList.of(Rule.QUEUE, [r[0] for r in rows], [r[1] for r in rows], recorded=False)


def _collectives(ops: Numbered, split: Split) -> list[EdgeList]:
    """From the arrivals of all members to the transfer of each, the lateness of unseen peers as lag.

    Members of large collectives meet in one op, so that edges grow with the members and not with their square.
    """
    transfer = np.flatnonzero(ops.kind == OpKind.TRANSFER)
    arrival = transfer - 1
    row = ops.comm[transfer]
    late = split.lateness_ns[row]
    own = EdgeList.of(Rule.COLLECTIVE, arrival, transfer, lag_ns=late)
    arrives: dict[int, list[int]] = defaultdict(list)
    for member, match in enumerate(ops.comms.match[row]):
        arrives[int(match)].append(member)
    pairs: list[tuple[int, int, int]] = []
    for i in map(int, np.flatnonzero(split.rendezvous[row])):
        match, target, lag = int(ops.comms.match[row[i]]), int(transfer[i]), int(late[i])
        if match in ops.meeting:
            pairs.append((ops.meeting[match], target, lag))
        else:
            pairs += [(int(arrival[j]), target, lag) for j in arrives[match] if j != i]
    pairs += [(int(arrival[j]), op, 0) for match, op in ops.meeting.items() for j in arrives[match]]
    columns = np.array(pairs, np.int64).reshape(-1, 3)
    return [own, EdgeList.of(Rule.COLLECTIVE, columns[:, 0], columns[:, 1], lag_ns=columns[:, 2])]
