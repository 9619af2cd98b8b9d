"""R0: which part of the trace is one step, and how that was found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from replay.core.columns import Bool, Int64
from replay.core.errors import RefusedError, TraceError
from replay.graph.launch_join import Launches
from replay.graph.periodicity import periodic_begins
from replay.trace import EventKind, Trace

_PROFILER_STEP = re.compile(r"ProfilerStep#?(\d+)")
_OPTIMIZER = re.compile(r"Optimizer\.step#", re.IGNORECASE)
_COVERED = 0.98  # of a step's launches must have their device work in the file


@dataclass(frozen=True, slots=True)
class Step:
    """Host window of one step per rank; times on the trace's axis."""

    label: str
    begin_ns: dict[int, int]  # rank → first host op
    end_ns: dict[int, int]  # rank → end of the marker on the host


@dataclass(frozen=True, slots=True)
class Steps:
    """All steps found, in order of time, and the sentence that says how."""

    steps: tuple[Step, ...]
    how: str

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in order."""
        return tuple(step.label for step in self.steps)

    def period_ns(self) -> int:
        """Median start-to-start distance where three or more steps exist, else -1."""
        if len(self.steps) < 3:
            return -1
        begins = np.array([min(step.begin_ns.values()) for step in self.steps])
        return int(np.median(np.diff(begins)))


def find_steps(trace: Trace, launches: Launches, marker: str | None = None) -> Steps:
    """Steps of a trace: the marker's ranges, ProfilerStep or optimizer ranges, repetition, else the busiest window.

    Raises :class:`TraceError` when ``marker`` names no range, :class:`RefusedError` when there is nothing to replay.
    """
    annotation = np.isin(trace.kind, (EventKind.ANNOTATION, EventKind.CPU_OP))
    if marker is not None:
        named = _matching(trace, annotation, lambda name: name == marker or name.split("#")[0] == marker)
        if not named.any():
            raise TraceError(f"no range named {marker!r}; ranges that repeat: {_repeating(trace)}")
        return Steps(_from_ranges(trace, named), f"ranges named {marker!r}")
    profiler = _matching(trace, annotation, lambda name: _PROFILER_STEP.match(name) is not None)
    if profiler.any():
        return Steps(_from_ranges(trace, profiler), "ProfilerStep ranges")
    optimizer = _matching(trace, annotation, lambda name: _OPTIMIZER.match(name) is not None)
    between = _between_ends(trace, optimizer)
    if between:
        return Steps(between, "between the ends of optimizer ranges (no ProfilerStep range)")
    periods = _periods(trace, launches)
    if periods:
        return Steps(periods, "the period at which device work repeats (no step marker, no repeated optimizer)")
    return Steps((_busiest_window(trace),), "the busiest contiguous window (no marker, nothing that repeats)")


def _matching(trace: Trace, candidates: Bool, accept: Callable[[str], bool]) -> Bool:
    wanted = np.fromiter((accept(name) for name in trace.names), np.bool_, len(trace.names))
    return np.asarray(candidates & wanted[trace.name]) if len(trace.names) else candidates


def _repeating(trace: Trace) -> str:
    """The most frequent ranges that the program named, else its operators."""
    named = trace.kind == EventKind.ANNOTATION
    codes, counts = np.unique(trace.name[named if named.any() else trace.kind == EventKind.CPU_OP], return_counts=True)
    often = [trace.names[c] for c in codes[np.argsort(-counts)][:5]]
    return ", ".join(often) if often else "none"


def _from_ranges(trace: Trace, chosen: Bool) -> tuple[Step, ...]:
    """One step per label; a label repeated on one rank is numbered by occurrence."""
    seen: dict[tuple[int, str], int] = {}
    begin: dict[str, dict[int, int]] = {}
    end: dict[str, dict[int, int]] = {}
    last_end: dict[int, int] = {}
    for event in map(int, np.flatnonzero(chosen)):
        rank, name = int(trace.rank[event]), trace.name_of(event)
        start, stop = int(trace.start_ns[event]), int(trace.start_ns[event] + trace.dur_ns[event])
        if start < last_end.get(rank, start):  # the same range again, nested or doubled on another thread
            continue
        last_end[rank] = stop
        count = seen[rank, name] = seen.get((rank, name), 0) + 1
        label = name if count == 1 else f"{name} ({count})"
        begin.setdefault(label, {})[rank] = start
        end.setdefault(label, {})[rank] = stop
    everywhere = max(len(ranks) for ranks in begin.values())
    steps = [Step(label, begin[label], end[label]) for label in begin if len(begin[label]) == everywhere]
    return tuple(sorted(steps, key=lambda step: min(step.begin_ns.values())))


def _between_ends(trace: Trace, optimizer: Bool) -> tuple[Step, ...]:
    per_rank: dict[int, list[int]] = {}
    for rank in trace.ranks:
        rows = np.flatnonzero(optimizer & (trace.rank == rank))
        per_rank[rank] = sorted(int(trace.start_ns[row] + trace.dur_ns[row]) for row in rows)
    count = min((len(ends) for ends in per_rank.values()), default=0)
    return tuple(
        Step(
            f"step {i}",
            {rank: ends[i] for rank, ends in per_rank.items()},
            {rank: ends[i + 1] for rank, ends in per_rank.items()},
        )
        for i in range(count - 1)
    )


def _periods(trace: Trace, launches: Launches) -> tuple[Step, ...]:
    """Steps by repetition; none unless every rank with device work repeats equally often."""
    begins = {int(rank): periodic_begins(trace, launches, int(rank)) for rank in np.unique(trace.rank[trace.is_device])}
    counts = {len(times) for times in begins.values()}
    if len(counts) != 1 or counts == {0}:
        return ()
    return tuple(
        Step(f"period {i}", {r: t[i] for r, t in begins.items()}, {r: t[i + 1] for r, t in begins.items()})
        for i in range(counts.pop() - 1)
    )


def _busiest_window(trace: Trace) -> Step:
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    host = np.isin(trace.kind, (EventKind.CPU_OP, EventKind.ANNOTATION, EventKind.RUNTIME))
    for rank in trace.ranks:
        rows = np.flatnonzero((trace.rank == rank) & trace.is_device)
        rows = rows if len(rows) else np.flatnonzero((trace.rank == rank) & host)
        if not len(rows):
            continue
        start, stop = trace.start_ns[rows], trace.end_ns[rows]
        first, last = _busiest_cluster(start, stop)
        members = rows[(start >= first) & (stop <= last)]
        begin[rank], end[rank] = _launch_window(trace, rank, members, int(first), int(last))
    if not begin:
        raise RefusedError("nothing to replay: the input holds neither device work nor host operators")
    return Step("whole window", begin, end)


def _busiest_cluster(start: Int64, stop: Int64) -> tuple[int, int]:
    """Bounds of the cluster of intervals with most busy time; a gap over 20 % of the span separates clusters."""
    order = np.argsort(start, kind="stable")
    start, stop = start[order], np.maximum.accumulate(stop[order])
    gap = (stop[-1] - start[0]) // 5
    cut = np.flatnonzero(start[1:] - stop[:-1] > gap) + 1
    bounds = np.concatenate(([0], cut, [len(start)]))
    busy = [int(stop[b - 1] - start[a]) for a, b in pairwise(bounds)]
    best = int(np.argmax(busy))
    return int(start[bounds[best]]), int(stop[bounds[best + 1] - 1])


def _launch_window(trace: Trace, rank: int, members: Int64, first: int, last: int) -> tuple[int, int]:
    """Host window that launches the given device events: their calls, and the host ops that lead up to them."""
    host = (trace.rank == rank) & np.isin(trace.kind, (EventKind.CPU_OP, EventKind.ANNOTATION, EventKind.RUNTIME))
    calls = np.flatnonzero(
        host & (trace.kind == EventKind.RUNTIME) & np.isin(trace.correlation, trace.correlation[members])
    )
    if not len(calls):
        return first, last
    begin = int(trace.start_ns[calls].min())
    inside = host & (trace.start_ns <= begin) & (trace.end_ns > begin)
    if inside.any():
        begin = int(trace.start_ns[inside].min())
    ends = trace.end_ns[host & (trace.start_ns >= begin) & (trace.start_ns <= last)]
    return begin, int(max(ends.max(initial=0), trace.end_ns[calls].max()))


def launch_counts(trace: Trace, steps: Steps) -> list[tuple[int, int]]:
    """Per step: launch calls made in it, and how many of them have their device work in the file."""
    pattern = re.compile(r"LaunchKernel|MemcpyAsync|^Node@launch$")
    is_launch = np.fromiter((pattern.search(name) is not None for name in trace.names), np.bool_, len(trace.names))
    runtime = np.flatnonzero((trace.kind == EventKind.RUNTIME) & (trace.correlation >= 0))
    calls = runtime[is_launch[trace.name[runtime]]]
    device = np.flatnonzero(trace.is_device)
    present = np.zeros(len(calls), np.bool_)
    for rank in trace.ranks:
        mine = trace.rank[calls] == rank
        present[mine] = np.isin(trace.correlation[calls[mine]], trace.correlation[device[trace.rank[device] == rank]])
    ranks, start = trace.rank[calls], trace.start_ns[calls]
    counts = []
    for step in steps.steps:
        inside = np.zeros(len(calls), np.bool_)
        for rank, begin in step.begin_ns.items():
            inside |= (ranks == rank) & (start >= begin) & (start < step.end_ns[rank])
        counts.append((int(inside.sum()), int(present[inside].sum())))
    return counts


def choose(trace: Trace, steps: Steps, number: int | None, spans_ns: Int64) -> int:
    """Index of the step to replay: the one numbered ``number``, else the one of median span among complete ones.

    ``number`` is the number in the label (``ProfilerStep#12`` → 12).
    """
    if number is not None:
        for i, label in enumerate(steps.labels):
            match = re.search(r"(\d+)", label)
            if match and int(match.group(1)) == number:
                return i
        raise TraceError(f"no step {number}; the input has {', '.join(steps.labels)}")
    usable = _complete(trace, steps) or list(range(len(steps.steps)))
    order = sorted(usable, key=lambda i: (int(spans_ns[i]), i))
    return order[(len(order) - 1) // 2]


def _complete(trace: Trace, steps: Steps) -> list[int]:
    """Steps that launch at least half of what the fullest one does, and whose device work is nearly all in the file.

    Profilers open a last, empty range when they stop, and drop device work at the edges of their window.
    """
    counts = launch_counts(trace, steps)
    most = max(launches for launches, _ in counts)
    return [i for i, (n, present) in enumerate(counts) if 2 * n >= most and present >= _COVERED * n]
