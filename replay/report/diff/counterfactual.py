"""How the step moves when some ops take the times of the other step: two simulations, no sum of durations."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from replay.core.columns import Bool, Int64
from replay.graph.types import Graph, Rule
from replay.report.diff.pairing import Units
from replay.report.diff.types import Execution
from replay.report.diff.unit_table import UnitTable
from replay.simulate.engine import Plan, plan, simulate

_NEVER_NS = -(2**40)  # 18 minutes: an edge with this lag releases nothing


class Counterfactual:
    """Both steps, ready to be simulated with the units of the other."""

    def __init__(self, a: Execution, b: Execution, units: Units, table: UnitTable) -> None:
        before, after = (table.before_ns, table.delay_before_ns), (table.after_ns, table.delay_after_ns)
        self._a = _Scenario(a, units.of_a, _Times(*before, *after), table.in_b)
        self._b = _Scenario(b, units.of_b, _Times(*after, *before), table.in_a)

    def effect_ns(self, chosen: Bool, delayed: Bool | None = None) -> int:
        """Mean of changing ``chosen`` first (in the first step) and last (all else already as in the second).

        A change on one of two equally long paths moves the step only together with the other; the mean gives each its
        half. Ops that the first step lacks can only be changed last.
        The delays before the ops of ``delayed`` change too.
        """
        delays = np.zeros_like(chosen) if delayed is None else delayed
        first, last = self._a.moved_ns(chosen, delays), -self._b.moved_ns(chosen, delays)
        if (chosen & ~self._a.present).any():
            return last
        return (first + last) // 2 if not (chosen & ~self._b.present).any() else first


@dataclass(frozen=True, slots=True)
class _Times:
    """Per unit: own time and delay in a step, and what the other step has in their place."""

    own_ns: Int64
    delay_ns: Int64
    other_own_ns: Int64
    other_delay_ns: Int64


class _Scenario:
    """One step and what the other one has in its place."""

    def __init__(self, execution: Execution, unit_of: Int64, times: _Times, in_other: Bool) -> None:
        self._graph = execution.run.graph
        self._plan: Plan = plan(self._graph)
        self._unit_of, self._times, self._in_other = unit_of, times, in_other
        self._step_ns = execution.faithful.step_ns
        ops = np.flatnonzero(unit_of >= 0)
        self.present = np.bincount(unit_of[ops], minlength=len(in_other)).astype(np.bool_)
        self._is_first = np.zeros(len(unit_of), np.bool_)
        self._is_first[ops[np.unique(unit_of[ops], return_index=True)[1]]] = True

    def moved_ns(self, chosen: Bool, delayed: Bool) -> int:
        """Simulated step with the chosen units as in the other step, less the step as it is."""
        here, late = ((self._unit_of >= 0) & units[self._unit_of] for units in (chosen, delayed))
        if not here.any() and not late.any():
            return 0
        edited = self._without_waits(here & ~self._in_other[self._unit_of])
        edited = replace(edited, duration_ns=self._durations(here), residual_ns=self._delays(late))
        return simulate(edited, residuals=True, plan=self._plan).step_ns - self._step_ns

    def _durations(self, here: Bool) -> Int64:
        """Time of each chosen unit in the other step, spread over its ops here as their own time is."""
        duration = self._graph.duration_ns.copy()
        unit = self._unit_of[here]
        own, other = self._times.own_ns[unit], self._times.other_own_ns[unit]
        share = np.where(own > 0, duration[here] / np.maximum(own, 1), self._is_first[here])
        duration[here] = np.rint(other * share).astype(np.int64)
        return duration

    def _delays(self, late: Bool) -> Int64:
        """Residuals with the difference of the two delays added before the first op of each unit."""
        residual = self._graph.residual_ns.copy()
        ops = np.flatnonzero(late & self._is_first)
        unit = self._unit_of[ops]
        residual[ops] += self._times.other_delay_ns[unit] - self._times.delay_ns[unit]
        return residual

    def _without_waits(self, gone: Bool) -> Graph:
        """The graph in which ops that the other step lacks hold up nothing: what they waited for releases nobody."""
        edges = self._graph.edges
        after = np.zeros(len(self._graph), np.bool_)
        after[edges.target[gone[edges.source] & (edges.rule == Rule.HOST_ORDER)]] = True
        waits = (edges.rule == Rule.HOST_SYNC) & (after | gone)[edges.target]
        if not waits.any():
            return self._graph
        lag = edges.lag_ns.copy()
        lag[waits] = _NEVER_NS
        return replace(self._graph, edges=replace(edges, lag_ns=lag))
