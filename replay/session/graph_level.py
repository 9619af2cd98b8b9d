"""Questions that leave the program as it is: ops and links of the measured graph take other times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from replay.core.evidence import Grade
from replay.core.units import ns_to_ms
from replay.graph.types import Graph
from replay.program.retiming import Retiming
from replay.report.result import ChangeRow
from replay.session import hardware
from replay.session.baseline import Baseline
from replay.session.brackets import lateness_part, retiming_part
from replay.session.interval import Part
from replay.session.prediction import Prediction
from replay.session.question import Facts, Question
from replay.simulate.engine import simulate
from replay.whatif import link, scale, stall


def edit(graph: Graph, question: Question) -> Graph:
    """``graph`` with every ``--scale``, ``--link`` and ``--stall`` applied in the order given."""
    for pattern, factor in question.scale:
        graph = scale.apply(graph, pattern, factor)
    for tier, factor in question.link:
        graph = link.apply(graph, tier, factor)
    for rank, stall_ms in question.stall:
        graph = stall.apply(graph, rank, stall_ms)
    return graph


def predict(baseline: Baseline, question: Question, facts: Facts) -> Prediction:
    """The measured graph, on the device asked for, edited and executed again in the same order."""
    moved = hardware.retiming(baseline.graph, baseline.trace, question, facts)
    edited = edit(moved.apply(baseline.graph) if moved else baseline.graph, question)
    timeline = simulate(edited, residuals=True, plan=baseline.plan)
    ratio = timeline.step_ns / baseline.faithful.step_ns
    return Prediction(
        graph=edited,
        timeline=timeline,
        ratio=ratio,
        parts=(lateness_part(baseline.graph, edited, baseline.faithful.step_ns, ratio), *_retimed(edited, moved)),
        changes=_rows(baseline.graph, edited, question, moved),
        warnings=(*(moved.warnings if moved else ()), *held_notes(baseline.graph, question)),
    )


def held_notes(graph: Graph, question: Question) -> Iterator[str]:
    """What faster links leave as it is, in words."""
    for tier, factor in question.link:
        if kernels := link.held(graph, tier, factor):
            yield (
                f"--link {tier}={factor:g}: {kernels} kernels compute and communicate in one and keep their time: "
                "nothing tells which part is longer; --scale @fused=FACTOR changes them"
            )


def _retimed(edited: Graph, moved: Retiming | None) -> tuple[Part, ...]:
    """What is not known about another device, as a part of the interval."""
    return (retiming_part(edited, moved, np.arange(len(edited))),) if moved else ()


def _rows(before: Graph, after: Graph, question: Question, moved: Retiming | None) -> tuple[ChangeRow, ...]:
    """By class of op for another device, else by name."""
    if moved is None:
        return changes(before, after, " ".join(question.options()))
    return tuple(ChangeRow(c.name, c.before, c.after, c.formula, c.grade.label) for c in moved.changes)


def changes(before: Graph, after: Graph, formula: str) -> tuple[ChangeRow, ...]:
    """Ops of one name whose summed duration moved, largest change first; both graphs have the same ops."""
    moved = np.flatnonzero(after.duration_ns != before.duration_ns)
    size = len(before.names)
    old = np.bincount(before.name[moved], weights=before.duration_ns[moved], minlength=size)
    new = np.bincount(before.name[moved], weights=after.duration_ns[moved], minlength=size)
    calls = np.bincount(before.name[moved], minlength=size)
    weakest = np.zeros(size, np.int64)
    np.maximum.at(weakest, before.name[moved], after.grade[moved].astype(np.int64))
    order = [int(code) for code in np.argsort(-np.abs(new - old), kind="stable") if calls[code]]
    return tuple(
        ChangeRow(
            before.names[code],
            {"calls": int(calls[code]), "total_ms": ns_to_ms(old[code])},
            {"calls": int(calls[code]), "total_ms": ns_to_ms(new[code])},
            formula,
            Grade(int(weakest[code])).label,
        )
        for code in order
    )
