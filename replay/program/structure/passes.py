"""Forward and backward passes from the autograd engine, and the optimizer from its ranges and operators.

One run of the engine is one backward pass, and the operators that made its nodes are the forward pass it goes back
through: both are known without any range, and in any order of passes. What a thread does between two passes belongs to
the forward pass that it ends or prepares, or to the optimizer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import numpy as np

from replay.core.columns import Bool
from replay.program.open_ranges import FIELDS
from replay.program.ranges import read_range
from replay.program.structure._autograd import Autograd
from replay.program.structure._evidence import Evidence, Finding
from replay.program.structure._sequence import told_by_group
from replay.program.structure._spans import Span, Timeline
from replay.program.types import Phase

ORDER = 20
PHASE = FIELDS.index("phase")

BY_NAME = (
    (
        re.compile(
            r"multi_tensor_(?:adam|sgd|lamb|novograd|adagrad|l2norm|scale)|_fused_(?:adamw?|sgd|adagrad|lamb)_?(?:\b|$)"
            r"|_foreach_(?:addcdiv|addcmul|lerp|norm)|_amp_(?:foreach_non_finite_check_and_unscale|update_scale)_"
            r"|npu_(?:apply_|bert_apply_|fused_)\w*(?:adam|lamb|sgd|momentum)"
        ),
        Phase.OPTIMIZER,
    ),
    (re.compile(r"^torch[.:]+distributed[.:]+(?:ddp\.)?reducer::"), Phase.SYNC),
)
"""Operators of optimizers (``torch/optim``, ``torch/amp/grad_scaler.py``, torch_npu, Apex ``multi_tensor_apply``) and
of DistributedDataParallel's reducer (``torch/csrc/distributed/c10d/reducer.cpp``)."""


def find(evidence: Evidence) -> Finding:
    """Phase and pass of every op that the main thread or the engine of its rank issued."""
    engine, finding = evidence.engine, evidence.nothing()
    if not engine.home:
        return finding
    untold = ~told_by_group(evidence)
    most = 0
    for rank, home in engine.home.items():
        spans = _spans(evidence, engine, rank)
        most = max(most, sum(span.phase is Phase.FORWARD and span.number >= 0 for span in spans))
        _label(evidence, (rank, home), spans, untold, finding)
    sentence = f"autograd: up to {most} forward passes a rank, each known by the backward nodes it made"
    return Finding(finding.states, finding.passes, (sentence,) if most else ())


def _label(evidence: Evidence, of: tuple[int, int], spans: list[Span], untold: Bool, finding: Finding) -> None:
    """Write phases and passes of one (rank, home thread) by time; the engine's own threads do nothing but its runs.

    Of the home thread's ops only the ``untold``, those of which no group says more.
    """
    rank, home = of
    places, engine = evidence.places, evidence.engine
    runs = Timeline.of([span for span in spans if span.phase == Phase.BACKWARD])
    lane = evidence.trace.lane[evidence.calls.event[engine.nodes]]
    here = np.flatnonzero((places.rank == rank) & (places.lane == home) & untold)
    finding.states[here, PHASE], finding.passes[here] = Timeline.of(spans).at(places.time_ns[here])
    there = np.flatnonzero((places.rank == rank) & np.isin(places.lane, lane) & (places.lane != home))
    finding.states[there, PHASE], finding.passes[there] = runs.latest(places.time_ns[there])


def _spans(evidence: Evidence, engine: Autograd, rank: int) -> list[Span]:
    """What is certain about a rank's step: runs of the engine, the forward passes behind them, the optimizer."""
    window = evidence.places.window_ns(rank)
    if window is None:
        return []

    def numbered(spans: list[Span]) -> list[Span]:
        inside = [span for span in sorted(spans) if span.end_ns > window[0] and span.start_ns <= window[1]]
        return [span._replace(number=inside.index(span) if span in inside else -1) for span in spans]

    backward, forward = _passes(evidence, engine, rank)
    return [*numbered(backward), *numbered(forward), *_marked(evidence, engine, rank)]


def _passes(evidence: Evidence, engine: Autograd, rank: int) -> tuple[list[Span], list[Span]]:
    """Backward spans, one a run, and the spans of the operators behind each.

    Operators that several runs go back through (weights cast once for all micro-batches) count for the first. A run
    that adds little of its own goes back through a pass a second time, and is part of that backward pass.
    """
    trace, calls = evidence.trace, evidence.calls
    own = np.flatnonzero(trace.rank[calls.event[engine.nodes]] == rank)
    backward: list[Span] = []
    forward: list[Span] = []
    claimed = np.zeros(len(calls), np.bool_)
    own = own[np.argsort(engine.run[own], kind="stable")]
    for rows in np.split(own, np.flatnonzero(np.diff(engine.run[own])) + 1):
        nodes, makers = calls.event[engine.nodes[rows]], engine.made_by[rows]
        makers = makers[makers >= 0]
        fresh = makers[~claimed[makers]]
        run = Span(int(trace.start_ns[nodes].min()), int(trace.end_ns[nodes].max()), Phase.BACKWARD)
        if backward and 2 * len(fresh) < len(makers):
            backward[-1] = backward[-1]._replace(end_ns=run.end_ns)
            continue
        backward.append(run)
        claimed[fresh] = True
        if len(fresh):
            events = calls.event[fresh]
            forward.append(Span(int(trace.start_ns[events].min()), int(trace.end_ns[events].max()), Phase.FORWARD))
    return backward, forward


def _marked(evidence: Evidence, engine: Autograd, rank: int) -> Iterator[Span]:
    """Outermost ranges and operators on the main thread that name the optimizer or gradient synchronisation."""
    trace, calls = evidence.trace, evidence.calls
    of_name = np.array([phase_of(name) for name in trace.names], np.int64)[calls.names(trace)]
    outside = (engine.node < 0) & (trace.lane[calls.event] == engine.home[rank])
    outer = calls.outermost((of_name != Phase.NONE) & outside)
    for call in np.flatnonzero(outer == np.arange(len(calls))).tolist():
        event = int(calls.event[call])
        yield Span(int(trace.start_ns[event]), trace.end_of(event), Phase(int(of_name[call])))


@cache
def phase_of(name: str) -> Phase:
    """OPTIMIZER or SYNC where a range or an operator names it, else NONE."""
    stated = read_range(name).phase
    if stated in (Phase.OPTIMIZER, Phase.SYNC):
        return stated
    return next((phase for pattern, phase in BY_NAME if pattern.search(name)), Phase.NONE)
