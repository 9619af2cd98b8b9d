"""Units as columns: what each one is, on which rank, and what it cost in either step, waiting excluded."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int64, freeze
from replay.graph.calls import SYNCS, call_kind
from replay.graph.types import Graph, OpKind, Rule
from replay.report.diff.pairing import Units
from replay.report.diff.types import Category, Execution
from replay.report.diff.words import OpWords

CATEGORY = {
    OpKind.COMPUTE: Category.KERNEL,
    OpKind.ARRIVAL: Category.COLLECTIVE,
    OpKind.TRANSFER: Category.COLLECTIVE,
    OpKind.MEMCPY: Category.COPY,
    OpKind.MEMSET: Category.COPY,
    OpKind.HOST: Category.HOST,
    OpKind.CALL: Category.CALL,
    OpKind.MARK: Category.CALL,
}


@dataclass(frozen=True, slots=True)
class Template:
    """What equal units are called."""

    category: Category
    label: str
    phase: str
    role: str
    stage: int  # -1 unknown


@dataclass(frozen=True, slots=True)
class UnitTable:
    """One row per unit; ranks are those of the first step."""

    template: Int64  # index into templates
    rank: Int64
    before_ns: Int64
    after_ns: Int64
    delay_before_ns: Int64  # residuals: what no dependency explains, or members that are not in the input
    delay_after_ns: Int64
    in_a: Bool
    in_b: Bool
    templates: tuple[Template, ...]

    def __post_init__(self) -> None:
        for column in (self.template, self.rank, self.before_ns, self.after_ns, self.delay_before_ns,
                       self.delay_after_ns, self.in_a, self.in_b):  # fmt: skip
            freeze(column)

    @property
    def change_ns(self) -> Int64:
        """After less before."""
        return self.after_ns - self.before_ns

    @property
    def category(self) -> Int64:
        """Category of every unit."""
        return np.array([template.category for template in self.templates], np.int64)[self.template]


def unit_table(units: Units, a: Execution, b: Execution, rank_of_b: dict[int, int]) -> UnitTable:
    """Columns of ``units``; a unit takes its words from the first step where that has it."""
    first_a, first_b = units.first(units.of_a), units.first(units.of_b)
    interner: dict[Template, int] = {}
    template = np.zeros(units.count, np.int64)
    rank = np.zeros(units.count, np.int64)
    for execution, chosen, first in ((a, first_a >= 0, first_a), (b, first_a < 0, first_b)):
        namer = _Namer(execution)
        ranks = execution.run.graph.rank
        for unit in np.flatnonzero(chosen & (first >= 0)).tolist():
            op = int(first[unit])
            template[unit] = interner.setdefault(namer.template(op), len(interner))
            rank[unit] = ranks[op] if execution is a else rank_of_b[int(ranks[op])]
    return UnitTable(
        template,
        rank,
        _summed(a.run.graph.duration_ns, units.of_a, units.count),
        _summed(b.run.graph.duration_ns, units.of_b, units.count),
        _summed(_delays(a.run.graph), units.of_a, units.count),
        _summed(_delays(b.run.graph), units.of_b, units.count),
        first_a >= 0,
        first_b >= 0,
        tuple(interner),
    )


def is_sync(template: Template) -> bool:
    """True for calls that wait for device work."""
    return template.category == Category.CALL and call_kind(template.label) in SYNCS


def _delays(graph: Graph) -> Int64:
    """Residual of every op; a transfer's also holds how long it waited for members that are not in the input."""
    edges, delay = graph.edges, graph.residual_ns.copy()
    target = edges.target
    row = graph.comm[target]
    own = (edges.rule == Rule.COLLECTIVE) & (row >= 0) & (graph.comm[edges.source] == row)
    np.add.at(delay, target[own], edges.lag_ns[own])
    return delay


def _summed(column: Int64, unit_of: Int64, count: int) -> Int64:
    total = np.zeros(count, np.int64)
    known = unit_of >= 0
    np.add.at(total, unit_of[known], column[known])
    return total


class _Namer:
    """Templates of one graph's ops."""

    def __init__(self, execution: Execution) -> None:
        self._graph = execution.run.graph
        self._facts, self._stage = execution.facts, execution.stage
        self._words = OpWords(self._graph)
        self._before, self._after = _neighbours(self._graph)
        self._threads = _thread_words(self._graph)

    def template(self, op: int) -> Template:
        """Template of one op (of a host op: of the work around it)."""
        category = CATEGORY[OpKind(int(self._graph.kind[op]))]
        label = self._host_label(op) if category is Category.HOST else self._label(op)
        stage = self._stage.get(int(self._graph.rank[op]), -1)
        if category is Category.HOST:
            return Template(category, label, "", "", stage)
        return Template(category, label, self._facts.phase[op], self._facts.role[op], stage)

    def _label(self, op: int) -> str:
        return (self._facts.name[op] if self._facts.name else "") or self._words.label(op)

    def _host_label(self, op: int) -> str:
        before, after = int(self._before[op]), int(self._after[op])
        begin = self._words.label(before) if before >= 0 else "the step's begin"
        end = self._words.label(after) if after >= 0 else "the step's end"
        return f"host work between {begin} and {end} on {self._threads[int(self._graph.lane[op])]}"


def _neighbours(graph: Graph) -> tuple[Int64, Int64]:
    """Per op the nearest op of its lane before and after it that is neither host work nor a mark; -1 for none."""
    order = np.lexsort((np.arange(len(graph)), graph.measured_start_ns, graph.lane))
    anchor = ~np.isin(graph.kind[order], (OpKind.HOST, OpKind.MARK, OpKind.TRANSFER))
    lane = graph.lane[order]
    places = np.arange(len(order))
    last = np.maximum.accumulate(np.where(anchor, places, -1))
    following = np.minimum.accumulate(np.where(anchor, places, len(order))[::-1])[::-1]
    before, after = np.full(len(graph), -1, np.int64), np.full(len(graph), -1, np.int64)
    for found, into in ((last, before), (following, after)):
        inside = (found >= 0) & (found < len(order))
        same = inside & (lane[np.clip(found, 0, max(len(order) - 1, 0))] == lane)
        into[order[same]] = order[found[same]]
    return before, after


def _bare(label: str) -> str:
    """``python`` of ``thread 1074 (python3.11)``: no number, which differs between runs."""
    inner = re.search(r"\((.+)\)", label)
    return re.sub(r"[\d.]+", "", inner.group(1) if inner else label).strip()


def _thread_words(graph: Graph) -> dict[int, str]:
    """Threads by what they do: numbers differ between runs. The one with most calls of a rank is its main thread."""
    host = np.flatnonzero(np.isin(graph.kind, (OpKind.HOST, OpKind.CALL)))
    calls = np.bincount(graph.lane[host], minlength=len(graph.lanes))
    words, busiest = dict[int, str](), dict[int, int]()
    for lane in np.argsort(-calls, kind="stable").tolist():
        rank, label = graph.lanes[lane].rank, graph.lanes[lane].label
        if "autograd" in label:
            words[lane] = "the autograd thread"
        elif busiest.setdefault(rank, lane) == lane:
            words[lane] = "the main thread"
        else:
            words[lane] = f"another thread ({_bare(label)})"
    return words
