"""Waits put into the step that lacks them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from replay.graph.types import Graph, OpKind, Rule
from replay.report.diff.edges import with_waits_of
from replay.simulate.engine import simulate
from tests.synthetic import Op, graph_of

KERNEL, HOST, CALL = 0, 1, 2  # units


def launching() -> Graph:
    """Host work, then the kernel that it launches."""
    host = Op("host", 10, kind=OpKind.HOST, lane="thread")
    return graph_of([host, Op("kernel", 30, after=[0], rule=Rule.LAUNCH)])


def waiting() -> Graph:
    """A kernel, a call that waits for it, then host work."""
    call = Op("sync", 1, kind=OpKind.CALL, lane="thread")
    host = Op("host", 10, kind=OpKind.HOST, lane="thread", after=[1, 0], rule=Rule.HOST_ORDER)
    graph = graph_of([Op("kernel", 30), call, host])
    of_kernel = graph.edges.source == 0
    rule = np.where(of_kernel, Rule.HOST_SYNC, graph.edges.rule).astype(np.int8)
    return replace(graph, edges=replace(graph.edges, rule=rule))


def test_a_wait_goes_where_the_order_allows_it() -> None:
    """Kernel and host work side by side: with the wait of the other step the host begins after the kernel."""
    apart = graph_of([Op("kernel", 30), Op("host", 10, kind=OpKind.HOST, lane="thread")])
    missing = np.array([False, False, True])
    edited = with_waits_of(apart, waiting(), (np.array([KERNEL, HOST]), np.array([KERNEL, CALL, HOST])), missing)
    assert simulate(edited).start_ns.tolist() == [0, 30]


def test_no_op_waits_for_what_follows_it() -> None:
    """Here the host work launches the kernel that it waits for in the other step."""
    units = (np.array([HOST, KERNEL]), np.array([KERNEL, CALL, HOST]))
    edited = with_waits_of(launching(), waiting(), units, np.array([False, False, True]))
    assert simulate(edited).step_ns == 40
