"""Ops of a step by name as means over its ranks: what a saved prediction keeps, and is compared by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from replay.core.units import ns_to_ms, percent
from replay.graph.types import Graph, OpKind
from replay.report.diff.types import Category, OpDifference
from replay.report.diff.unit_table import CATEGORY
from replay.report.diff.words import OpWords
from replay.report.result import OpMean

_COUNTED = (OpKind.COMPUTE, OpKind.TRANSFER, OpKind.MEMCPY, OpKind.MEMSET, OpKind.HOST, OpKind.CALL)
_AS_ONE = {OpKind.HOST: "host work", OpKind.CALL: "runtime calls"}  # threads and launches: one row each


def op_means(graph: Graph) -> tuple[OpMean, ...]:
    """Calls and time a rank of every op, by category and name, largest time first."""
    words, ranks = OpWords(graph), max(len(np.unique(graph.rank)), 1)
    totals: dict[tuple[Category, str], list[int]] = {}
    counted = np.flatnonzero(np.isin(graph.kind, _COUNTED))
    for op, kind, duration in zip(
        counted.tolist(), graph.kind[counted].tolist(), graph.duration_ns[counted].tolist(), strict=True
    ):
        label = _AS_ONE.get(kind) or words.label(op)
        total = totals.setdefault((CATEGORY[OpKind(kind)], label), [0, 0])
        total[0] += 1
        total[1] += duration
    rows = (
        OpMean(label, category.label, calls / ranks, ns_to_ms(ns) / ranks)
        for (category, label), (calls, ns) in totals.items()
    )
    return tuple(sorted(rows, key=lambda row: -row.ms_a_rank))


def compare_means(a: Sequence[OpMean], b: Sequence[OpMean], step_ms: float) -> tuple[OpDifference, ...]:
    """Rows by the size of their change. One execution each says nothing of a spread."""
    before, after = _by_key(a), _by_key(b)
    rows = []
    for key in dict.fromkeys((*before, *after)):
        (calls_before, old), (calls_after, new) = before.get(key, (0.0, 0.0)), after.get(key, (0.0, 0.0))
        rows.append(
            OpDifference(
                op=key[1],
                category=key[0],
                phase="",
                role="",
                stages=(),
                ranks=(),
                calls_before=round(calls_before),
                calls_after=round(calls_after),
                total_before_ms=old,
                total_after_ms=new,
                difference_ms=new - old,
                share_pct=percent(new - old, step_ms),
                noise=False,
                spread_pct=None,
            )
        )
    changed = [row for row in rows if row.difference_ms or row.calls_before != row.calls_after]
    return tuple(sorted(changed, key=lambda row: -abs(row.difference_ms)))


def _by_key(rows: Iterable[OpMean]) -> dict[tuple[str, str], tuple[float, float]]:
    return {(row.category, row.op): (row.calls_a_rank, row.ms_a_rank) for row in rows}
