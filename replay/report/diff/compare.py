"""Compare two steps."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from replay.core.columns import Bool, Int64
from replay.core.units import ns_to_ms, percent
from replay.graph.types import Graph, OpKind
from replay.report.critical_path import contributions, critical_path
from replay.report.diff.causes import delayed_units, find_causes, ranks_of
from replay.report.diff.counterfactual import Counterfactual
from replay.report.diff.means import compare_means, op_means
from replay.report.diff.noise import SIGMAS, Noise, find_noise
from replay.report.diff.pairing import Units, pair
from replay.report.diff.parts import common_rank, difference, of_rank
from replay.report.diff.types import Category, Difference, Execution, OpDifference, PathRow, Side, WaitChange
from replay.report.diff.unit_table import UnitTable, unit_table
from replay.report.diff.words import plain
from replay.report.members import transfer_of

MOST_OPS = 200  # rows of the answer, by size
PATH_ROWS = 20
LEAST_IN_COMMON = 0.5  # of either step's kernel time; H100 against MI300X: 0.23
_OTHER_KERNELS = (
    "less than half of the kernel time of either step is of kernels that the other has (other devices, or other "
    "programs): states are compared, and ops by name, without causes"
)


def compare(a: Side, b: Side) -> Difference:
    """Where step ``b`` differs from step ``a``, as far as both sources know."""
    if a.execution is None or b.execution is None:
        return _compare_parts(a, b, _without_timelines(a, b))
    return _compare_ops(a, b, a.execution, b.execution)


def _compare_parts(a: Side, b: Side, why: str) -> Difference:
    """States, and ops by their names: all that can be said where ops have no counterparts."""
    gap = b.step_ns - a.step_ns
    return Difference(
        a=a,
        b=b,
        difference_ns=gap,
        parts_ns=difference(a.parts_ns, b.parts_ns, gap),
        parts_by_rank_ns={},
        rank=b.rank,
        ranks=(),
        ops=_by_name(a, b),
        within_spread=_within_spread(a, b),
        only_a=_only(a, b),
        only_b=_only(b, a),
        notes=(*_layout_changes(a, b), why),
    )


def _compare_ops(a: Side, b: Side, before: Execution, after: Execution) -> Difference:
    ranks, notes = _common_ranks(before, after)
    gap = b.step_ns - a.step_ns
    units = pair(before.run.graph, after.run.graph, ranks)
    table = unit_table(units, before, after, {rank_b: rank_a for rank_a, rank_b in ranks.items()})
    if _little_in_common(table, before.run.graph, after.run.graph):
        return _compare_parts(a, b, _OTHER_KERNELS)
    noise = find_noise(table)
    counterfactual = Counterfactual(before, after, units, table)
    changed, only_one = table.change_ns != 0, table.in_a != table.in_b
    signal = (changed & ~noise.noise) | only_one
    late = np.logical_or.reduce([units for _, units in delayed_units(table)])
    counterfactual.settle(changed | only_one, late, gap)
    causes = find_causes(table, noise.noise, counterfactual, max(a.step_ns, b.step_ns))
    chosen = common_rank(a, b, ranks)
    pair_of_parts = (
        (of_rank(before.breakdown, chosen[0]), of_rank(after.breakdown, chosen[1]))
        if chosen
        else (a.parts_ns, b.parts_ns)
    )
    return Difference(
        a=a,
        b=b,
        difference_ns=gap,
        parts_ns=difference(*pair_of_parts, gap),
        parts_by_rank_ns={
            rank_a: difference(of_rank(before.breakdown, rank_a), of_rank(after.breakdown, rank_b), gap)
            for rank_a, rank_b in ranks.items()
        },
        rank=chosen[0] if chosen else None,
        ranks=tuple(ranks),
        causes=causes,
        explained_ms=ns_to_ms(counterfactual.together_ns(signal, late, gap)),
        ops=_op_rows(table, noise, len(ranks) * max(a.step_ns, 1)),
        waits=_waits(units, table, before, after),
        critical_path=_paths(before, after),
        noise_ms=ns_to_ms(counterfactual.effect_ns(noise.noise & changed)),
        within_spread=_within_spread(a, b),
        only_a=_only(a, b),
        only_b=_only(b, a),
        notes=(*_layout_changes(a, b), *notes, *_lost_lanes(units)),
    )


def _little_in_common(table: UnitTable, a: Graph, b: Graph) -> bool:
    """Both steps run kernels, and less than half of the kernel time of either has a counterpart."""
    both = bool((a.kind == OpKind.COMPUTE).any() and (b.kind == OpKind.COMPUTE).any())
    kernels = table.category == Category.KERNEL
    shared = kernels & table.in_a & table.in_b
    little = (
        bool(time[shared].sum() < LEAST_IN_COMMON * time[kernels].sum()) for time in (table.before_ns, table.after_ns)
    )
    return both and (not shared.any() or all(little))


def _by_name(a: Side, b: Side) -> tuple[OpDifference, ...]:
    """Ops by name alone, where a side has no timeline to pair them along."""
    before, after = (op_means(side.execution.run.graph) if side.execution else side.ops for side in (a, b))
    return compare_means(before, after, ns_to_ms(max(a.step_ns, 1)))[:MOST_OPS] if before and after else ()


def _without_timelines(a: Side, b: Side) -> str:
    lacking = next(side for side in (a, b) if side.execution is None)
    if lacking.ops:
        return f"a {lacking.source} keeps no timeline: ops are compared by name, as means over ranks, without causes"
    return f"a {lacking.source} keeps no ops, so ops are not compared"


def _layout_changes(a: Side, b: Side) -> tuple[str, ...]:
    """Sizes that both sides know and that differ."""
    moved = [
        f"{key} {value} -> {b.layout[key]}"
        for key, value in a.layout.items()
        if value is not None and b.layout.get(key) not in (None, value)
    ]
    return (f"the layouts differ: {', '.join(moved)}",) if moved else ()


def _common_ranks(a: Execution, b: Execution) -> tuple[dict[int, int], tuple[str, ...]]:
    """Ranks of ``a`` with their counterparts; in order where the two steps name no rank in common."""
    ranks_a, ranks_b = a.breakdown.ranks, b.breakdown.ranks
    common = [rank for rank in ranks_a if rank in ranks_b]
    if not common:
        matched = dict(zip(ranks_a, ranks_b, strict=False))
        words = ", ".join(f"{rank_a} with {rank_b}" for rank_a, rank_b in list(matched.items())[:4])
        return matched, (f"the steps have no rank in common; compared in order: rank {words}",)
    notes = []
    for name, mine in (("a", ranks_a), ("b", ranks_b)):
        if len(mine) > len(common):
            notes.append(f"{len(mine) - len(common)} ranks are only in {name} and are not compared")
    return {rank: rank for rank in common}, tuple(notes)


def _lost_lanes(units: Units) -> tuple[str, ...]:
    lost = units.unmatched_lanes
    return (f"lanes of one side only, not compared op by op: {', '.join(lost[:4])}",) if lost else ()


def _op_rows(table: UnitTable, noise: Noise, whole_ns: int) -> tuple[OpDifference, ...]:
    """Templates by the size of their change, largest first."""
    shape = len(table.templates)
    change = np.bincount(table.template, weights=np.abs(table.change_ns), minlength=shape)
    rows = []
    for code in np.argsort(-change, kind="stable")[:MOST_OPS].tolist():
        units = table.template == code
        if change[code] > 0:
            rows.append(_op_row(table, noise, units, whole_ns))
    return tuple(sorted(rows, key=lambda row: (row.noise, -abs(row.difference_ms))))


def _op_row(table: UnitTable, noise: Noise, units: Bool, whole_ns: int) -> OpDifference:
    template = table.templates[int(table.template[units][0])]
    before, after = int(table.before_ns[units].sum()), int(table.after_ns[units].sum())
    changed = units & (table.change_ns != 0)
    spread = noise.spread[units]
    known = spread[~np.isnan(spread)]
    return OpDifference(
        op=template.label,
        category=template.category.label,
        phase=template.phase,
        role=template.role,
        stages=(template.stage,) if template.stage >= 0 else (),
        ranks=ranks_of(table, units),
        calls_before=int((units & table.in_a).sum()),
        calls_after=int((units & table.in_b).sum()),
        total_before_ms=ns_to_ms(before),
        total_after_ms=ns_to_ms(after),
        difference_ms=ns_to_ms(after - before),
        share_pct=percent(after - before, whole_ns),
        noise=bool(noise.noise[changed].all()),
        spread_pct=100 * float(np.median(known)) if len(known) else None,
    )


def _waits(units: Units, table: UnitTable, a: Execution, b: Execution) -> tuple[WaitChange, ...]:
    """Change of waiting by collective, whatever its module, largest first."""
    before, after = _wait_ns(units.of_a, table, a), _wait_ns(units.of_b, table, b)
    moved = table.in_a & table.in_b & (before != after)
    by_label: dict[str, list[int]] = {}
    for code in np.unique(table.template[moved]).tolist():
        by_label.setdefault(table.templates[code].label, []).append(code)
    rows = []
    for label, codes in by_label.items():
        mine = moved & np.isin(table.template, codes)
        was, now = int(before[mine].sum()), int(after[mine].sum())
        ranks = tuple(np.unique(table.rank[mine]).tolist())
        rows.append(WaitChange(label, ranks, ns_to_ms(was), ns_to_ms(now), ns_to_ms(now - was)))
    return tuple(sorted(rows, key=lambda row: -abs(row.difference_ms)))


def _wait_ns(unit_of: Int64, table: UnitTable, execution: Execution) -> Int64:
    """Per unit the time from an arrival to its transfer."""
    timeline = execution.run.timeline
    transfer = transfer_of(execution.run.graph)
    arrivals = np.flatnonzero((transfer >= 0) & (unit_of >= 0))
    wait = np.zeros(len(table.template), np.int64)
    waited = timeline.start_ns[transfer[arrivals]] - timeline.start_ns[arrivals]
    np.add.at(wait, unit_of[arrivals], np.maximum(waited, 0))
    return wait


def _paths(a: Execution, b: Execution) -> tuple[PathRow, ...]:
    """Both critical paths by name, largest change first."""
    sides = []
    for execution in (a, b):
        path = critical_path(execution.run.graph, execution.faithful)
        times: dict[str, int] = {}
        for part in contributions(path, execution.run.graph, "name"):
            times[plain(part.label)] = times.get(plain(part.label), 0) + part.time_ns
        sides.append(times)
    labels = dict.fromkeys((*sides[0], *sides[1]))
    rows = [PathRow(label, ns_to_ms(sides[0].get(label, 0)), ns_to_ms(sides[1].get(label, 0))) for label in labels]
    return tuple(sorted(rows, key=lambda row: -abs(row.after_ms - row.before_ms))[:PATH_ROWS])


def _within_spread(a: Side, b: Side) -> bool | None:
    """Is the difference smaller than two standard deviations of the difference of two single steps?"""
    spreads = [side.spread_pct for side in (a, b)]
    known = [spread for spread in spreads if spread is not None]
    if not known:
        return None
    sigma = [side.step_ns * (spread if spread is not None else max(known)) / 100
             for side, spread in zip((a, b), spreads, strict=True)]  # fmt: skip
    return abs(b.step_ns - a.step_ns) <= SIGMAS * math.hypot(*sigma)


def _only(side: Side, other: Side) -> tuple[str, ...]:
    """What one side knows and the other does not, as words."""
    facts: tuple[tuple[str, object, object], ...] = (
        ("a timeline", side.execution, other.execution),
        ("where the step goes, by state", side.parts_ns, other.parts_ns),
        ("the spread of its steps", side.spread_pct, other.spread_pct),
        ("the layout", side.layout, other.layout),
    )
    known = [words for words, mine, theirs in facts if _is_known(mine) and not _is_known(theirs)]
    return (*known, *_only_numbers(side.numbers, other.numbers))


def _is_known(fact: object) -> bool:
    return fact is not None and fact != {}


def _only_numbers(mine: Mapping[str, object], theirs: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(
        name.replace("_", " ") for name, value in mine.items() if value is not None and theirs.get(name) is None
    )
