"""How the step moves when some ops take the times of the other step: simulations, never sums of durations."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from replay.core.columns import Bool, Int64
from replay.graph.types import Graph
from replay.report.diff.edges import with_waits_of, without_waits
from replay.report.diff.pairing import Units
from replay.report.diff.types import Category, Execution
from replay.report.diff.unit_table import UnitTable
from replay.simulate.engine import Plan, plan, simulate

AGREE = 0.05  # of the difference: a direction that comes this close reproduces it


class Counterfactual:
    """Both steps, ready to be simulated with what the other one has.

    A change can be made first (in the first step) or last (undone in the second). On one of two equally long paths it
    moves the step only together with the other change: the mean gives each its half. Dependencies that were inferred
    from measured order may hold in one step only: where one direction alone reproduces the difference, it counts.
    """

    def __init__(self, a: Execution, b: Execution, units: Units, table: UnitTable) -> None:
        graphs = (a.run.graph, b.run.graph)
        before, after = (table.before_ns, table.delay_before_ns), (table.after_ns, table.delay_after_ns)
        self._a = _Scenario(a, _Place(graphs, (units.of_a, units.of_b)), _Times(*before, *after), table.in_a)
        self._b = _Scenario(b, _Place(graphs[::-1], (units.of_b, units.of_a)), _Times(*after, *before), table.in_b)
        self._calls = table.category == Category.CALL
        self._first_weight = 0.5

    def settle(self, changed: Bool, delayed: Bool, difference_ns: int) -> None:
        """Take one direction alone where all changes together reproduce the measured difference only in it."""
        first, last = self._a.moved_ns(changed, delayed), -self._b.moved_ns(changed, delayed)
        right = [abs(moved - difference_ns) <= AGREE * abs(difference_ns) for moved in (first, last)]
        if right[0] != right[1]:
            self._first_weight = float(right[0])

    def together_ns(self, chosen: Bool, delayed: Bool, difference_ns: int) -> int:
        """Move of the step with many changes at once, in the direction that comes closer to the measured difference."""
        moves = (self._a.moved_ns(chosen, delayed), -self._b.moved_ns(chosen, delayed))
        return min(moves, key=lambda moved: abs(moved - difference_ns))

    def effect_ns(self, chosen: Bool, delayed: Bool | None = None) -> int:
        """Move of the step with ``chosen`` units, and the delays before those of ``delayed``.

        Work that only one step has is changed there; calls that wait can be put into the other step too.
        """
        delays = np.zeros_like(chosen) if delayed is None else delayed
        weight = self._first_weight
        lacking = [bool((chosen & ~side.present & ~self._calls).any()) for side in (self._a, self._b)]
        if lacking[0] != lacking[1]:
            weight = float(lacking[1])
        first = self._a.moved_ns(chosen, delays) if weight > 0 else 0
        last = -self._b.moved_ns(chosen, delays) if weight < 1 else 0
        return round(weight * first + (1 - weight) * last)


@dataclass(frozen=True, slots=True)
class _Place:
    """Graph and units of a step, and of the other one."""

    graphs: tuple[Graph, Graph]
    unit_of: tuple[Int64, Int64]


@dataclass(frozen=True, slots=True)
class _Times:
    """Per unit: own time and delay in a step, and what the other step has in their place."""

    own_ns: Int64
    delay_ns: Int64
    other_own_ns: Int64
    other_delay_ns: Int64


class _Scenario:
    """One step and what the other one has in its place."""

    def __init__(self, execution: Execution, place: _Place, times: _Times, present: Bool) -> None:
        self._graph, self._place, self._times, self.present = execution.run.graph, place, times, present
        self._plan: Plan = plan(self._graph)
        self._unit_of = place.unit_of[0]
        self._step_ns = execution.faithful.step_ns
        ops = np.flatnonzero(self._unit_of >= 0)
        self._is_first = np.zeros(len(self._unit_of), np.bool_)
        self._is_first[ops[np.unique(self._unit_of[ops], return_index=True)[1]]] = True
        self._in_other = np.zeros(len(present), np.bool_)
        self._in_other[place.unit_of[1][place.unit_of[1] >= 0]] = True

    def moved_ns(self, chosen: Bool, delayed: Bool) -> int:
        """Simulated step with the chosen units as in the other step, less the step as it is."""
        here, late = ((self._unit_of >= 0) & units[self._unit_of] for units in (chosen, delayed))
        missing = chosen & ~self.present
        if not here.any() and not late.any() and not missing.any():
            return 0
        graph = without_waits(self._graph, here & ~self._in_other[self._unit_of])
        edited = with_waits_of(graph, self._place.graphs[1], self._place.unit_of, missing)
        order = self._plan if len(edited.edges) == len(self._graph.edges) else None
        edited = replace(edited, duration_ns=self._durations(here), residual_ns=self._delays(late))
        return simulate(edited, residuals=True, plan=order).step_ns - self._step_ns

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
