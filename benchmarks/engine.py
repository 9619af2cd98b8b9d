"""Engine speed: ops per second of the kernels on one core, and the ratio to the plain-Python reference, in one run.

    python benchmarks/engine.py [OPS]

The graph looks like a training step: lanes in order, every device op launched by a host op, now and then a join over
all lanes. The reference runs a thousandth of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from replay.core.columns import Bool, Int8, Int64
from replay.graph.types import CommTable, Edges, Graph, GraphHealth, OpKind, Rule
from replay.simulate import reference
from replay.simulate.engine import plan, simulate
from replay.trace import Lane

_LANES = 64  # 32 ranks with a host thread and a stream each
_JOIN_EVERY = 500  # ops of a lane between two joins


def step_like(n: int) -> Graph:
    """A graph of about ``n`` ops: even lanes are hosts, each feeding the odd lane after it."""
    depth = n // _LANES
    op = np.arange(depth * _LANES, dtype=np.int64)  # op = lane · depth + position: lanes are contiguous, as in a trace
    lane, position = op // depth, op % depth
    chain = op[position > 0]
    fed = op[lane % 2 == 1]
    joins = [(op[position == at - 1], np.full(_LANES, at)) for at in range(_JOIN_EVERY, depth, _JOIN_EVERY)]
    source = np.concatenate([chain - 1, fed - depth, *(before for before, _ in joins)])
    target = np.concatenate([chain, fed, *(after for _, after in joins)])
    duration = np.random.default_rng(0).integers(1_000, 100_000, len(op))
    return _graph(duration, lane, source, target)


def _graph(duration: Int64, lane: Int64, source: Int64, target: Int64) -> Graph:
    n, m = len(duration), len(source)
    zeros = np.zeros(n, np.int64)
    rule: Int8 = np.full(m, Rule.STREAM_ORDER, np.int8)
    yes: Bool = np.ones(m, np.bool_)
    return Graph(
        duration_ns=duration,
        residual_ns=zeros,
        ready_ns=zeros,
        measured_start_ns=zeros,
        measured_end_ns=duration,
        lane=lane.astype(np.int32),
        rank=(lane // 2).astype(np.int32),
        kind=np.full(n, OpKind.COMPUTE, np.int8),
        name=np.zeros(n, np.int32),
        event=zeros - 1,
        comm=np.full(n, -1, np.int32),
        grade=np.zeros(n, np.int8),
        edges=Edges.build(n, source, target, np.zeros(m, np.int64), ~yes, rule, yes),
        comms=CommTable.empty(),
        names=("op",),
        lanes=tuple(Lane(i // 2, i % 2 == 1, f"lane {i}") for i in range(_LANES)),
        groups=(),
        measured_step_ns=0,
        health=GraphHealth(),
    )


def best_of(function: Callable[[], object], repeats: int = 5) -> float:
    """Shortest wall time in seconds."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    """Print the figures."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    graph, small = step_like(n), step_like(max(n // 1000, 10 * _LANES))
    simulate(graph)  # compiles, or loads the compiled kernels
    order = plan(graph)
    planned = best_of(lambda: plan(graph))
    run = best_of(lambda: simulate(graph, plan=order))
    plain = best_of(lambda: reference.simulate(small), 3)
    ours, theirs = len(graph) / (planned + run), len(small) / plain
    print(f"ops {len(graph):,}  edges {len(graph.edges):,}")
    print(f"plan {planned * 1e3:.1f} ms  simulate {run * 1e3:.1f} ms")
    print(f"engine, plan included: {ours / 1e6:.1f} million ops/s; a planned graph: {len(graph) / run / 1e6:.1f}")
    print(f"reference: {theirs / 1e6:.3f} million ops/s; ratio {ours / theirs:.0f}")


if __name__ == "__main__":
    main()
