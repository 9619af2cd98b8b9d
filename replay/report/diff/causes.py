"""Groups of ops that changed together, ranked by how the step moves with them.

A group is the ops of one template, of one name (whatever the module), of one module role, of one kind of collective in
one kind of group, or of all collectives in one kind of group. The group with the largest change of own time is taken
first, the narrowest of those that hold nearly as much; its ops are then out, and so on. Own time is without waiting: a
rank that waits longer is never a cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int64
from replay.core.units import ns_to_ms
from replay.program.template_ids import row_ids
from replay.report.diff.counterfactual import Counterfactual
from replay.report.diff.types import Category, Cause
from replay.report.diff.unit_table import Template, UnitTable, is_sync

MOST_CAUSES = 12  # groups that are simulated, syncs aside
NEARLY = 0.9  # of the largest change: a narrower group that holds as much says more
ALIKE, MOSTLY = 0.25, 0.8  # of the factor; of the time
WORTH = 1e-4  # of the step: smaller groups are not looked at
OUTSIDE = "collectives that started late: waiting for ranks outside the input, or unexplained"
UNEXPLAINED = "delays that no dependency explains"
ON_RANK = 0.1  # of the change on the rank that changed most: less is not named


@dataclass(frozen=True, slots=True)
class _Level:
    """A way to group units: ``key`` is what a group of templates has in common, ``None`` outside of any group.

    ``whole``: a whole sort of work, named only where nearly all of it changed by the same factor (another clock).
    ``moves``: work of it may move between ranks, as the load of experts does: less on one is no less of a change.
    """

    key: Callable[[Template], tuple[str, ...] | None]
    words: Callable[[Template], str]
    whole: bool = False
    moves: bool = False


def _module(template: Template) -> str:
    return " ".join(word for word in (template.role, template.phase) if word)


def _template_words(template: Template) -> str:
    module = _module(template)
    return f"{template.label} ({module})" if module else template.label


def _group_of(template: Template) -> str:
    """``ep`` of ``all_to_all (ep)``."""
    found = re.search(r"\((\w+)\)$", template.label)
    return found.group(1) if found else ""


def _thread_of(template: Template) -> str:
    """``the main thread`` of ``host work between ... on the main thread``."""
    return template.label.rpartition(" on ")[2]


_IS_COLLECTIVE = (Category.COLLECTIVE,)
_LEVELS = (
    _Level(lambda t: (t.category.label, t.label, t.phase, t.role, str(t.stage)), _template_words, moves=True),
    _Level(lambda t: (t.category.label, t.label), lambda t: t.label),
    _Level(
        lambda t: (t.role,) if t.category is Category.KERNEL and t.role else None,
        lambda t: f"{t.role} kernels",
        moves=True,
    ),
    _Level(
        lambda t: (_group_of(t),) if t.category in _IS_COLLECTIVE else None,
        lambda t: f"{_group_of(t)} communication",
    ),
    _Level(
        lambda t: ("",) if t.category in _IS_COLLECTIVE else None, lambda _: "communication in all groups", whole=True
    ),
    _Level(lambda t: ("",) if t.category is Category.KERNEL else None, lambda _: "all kernels", whole=True),
    _Level(
        lambda t: (_thread_of(t),) if t.category is Category.HOST else None,
        lambda t: f"host work on {_thread_of(t)}",
        whole=True,
    ),
    _Level(lambda t: ("",) if t.category is Category.CALL else None, lambda _: "runtime calls", whole=True),
)


def find_causes(table: UnitTable, noise: Bool, counterfactual: Counterfactual, step_ns: int) -> tuple[Cause, ...]:
    """Causes by the size of their effect on the step, largest first."""
    left = (table.change_ns != 0) & ~noise
    chosen: list[tuple[str, Bool]] = []
    for template in np.unique(table.template[table.in_a != table.in_b]).tolist():
        if is_sync(table.templates[template]):
            units = (table.template == template) & (table.in_a != table.in_b)
            chosen.append((table.templates[template].label, units))
            left &= ~units
    grouped = [_groups(table, level) for level in _LEVELS]
    for _ in range(MOST_CAUSES):
        best = _largest(table, left, grouped)
        if best is None or _size(table, best[1]) < WORTH * step_ns:
            break
        chosen.append(best)
        left &= ~best[1]
    causes = [_cause(table, units, words, counterfactual.effect_ns(units)) for words, units in chosen]
    causes += [_delay(table, units, words, counterfactual) for words, units in delayed_units(table)]
    return tuple(sorted((c for c in causes if c.effect_ms or c.ops), key=lambda cause: -abs(cause.effect_ms)))


def delayed_units(table: UnitTable) -> tuple[tuple[str, Bool], ...]:
    """Units whose delay changed: members of collectives that are not in the input, and what nothing explains."""
    changed = table.in_a & table.in_b & (table.delay_before_ns != table.delay_after_ns)
    outside = table.category == Category.COLLECTIVE
    return (OUTSIDE, changed & outside), (UNEXPLAINED, changed & ~outside)


def _delay(table: UnitTable, units: Bool, words: str, counterfactual: Counterfactual) -> Cause:
    nothing = np.zeros_like(units)
    return Cause(
        what=words,
        category="delay",
        ranks=tuple(np.unique(table.rank[units]).tolist()),
        calls_before=int(units.sum()),
        calls_after=int(units.sum()),
        own_before_ms=ns_to_ms(int(table.delay_before_ns[units].sum())),
        own_after_ms=ns_to_ms(int(table.delay_after_ns[units].sum())),
        effect_ms=ns_to_ms(counterfactual.effect_ns(nothing, units)),
        ops=(),
    )


def _groups(table: UnitTable, level: _Level) -> tuple[_Level, Int64]:
    """Group of every unit on one level, -1 for none."""
    keys: dict[tuple[str, ...], int] = {}
    of_template = []
    for template in table.templates:
        key = level.key(template)
        of_template.append(-1 if key is None else keys.setdefault(key, len(keys)))
    group = np.array(of_template, np.int64)[table.template]
    return level, _uniform(table, group) if level.whole else group


def _uniform(table: UnitTable, group: Int64) -> Int64:
    """The groups in which most time belongs to templates whose factor is about the group's; -1 for all others."""
    kept = group.copy()
    for number in np.unique(group[group >= 0]).tolist():
        units = group == number
        before = np.bincount(table.template[units], weights=table.before_ns[units])
        change = np.bincount(table.template[units], weights=table.change_ns[units])
        known = before > 0
        factor = change.sum() / max(before.sum(), 1)
        alike = np.abs(change[known] / before[known] - factor) <= ALIKE * abs(factor)
        if before[known][alike].sum() < MOSTLY * before.sum():
            kept[units] = -1
    return kept


def _by_group(table: UnitTable, group: Int64, left: Bool, *, moves: bool) -> tuple[Int64, Int64]:
    """Groups of the units left, and the size of the change of each, summed over the ranks (``moves``: without sign)."""
    rows = np.flatnonzero(left & (group >= 0))
    on_rank = row_ids(group[rows], table.rank[rows])
    change = np.zeros(int(on_rank.max(initial=-1)) + 1, np.int64)
    np.add.at(change, on_rank, table.change_ns[rows])
    found, place = np.unique(group[rows], return_inverse=True)
    group_of = np.zeros(len(change), np.int64)
    group_of[on_rank] = place
    size = np.zeros(len(found), np.int64)
    np.add.at(size, group_of, np.abs(change) if moves else change)
    return found, np.abs(size)


def _largest(table: UnitTable, left: Bool, grouped: list[tuple[_Level, Int64]]) -> tuple[str, Bool] | None:
    """Words and units of the group with the largest change, the narrowest of those nearly as large."""
    candidates: list[tuple[int, _Level, Int64, int]] = []
    for level, group in grouped:
        found, size = _by_group(table, group, left, moves=level.moves)
        if len(found):
            best = int(size.argmax())
            candidates.append((int(size[best]), level, group, int(found[best])))
    if not candidates:
        return None
    enough = NEARLY * max(size for size, *_ in candidates)
    fitting = [(level, left & (group == number)) for size, level, group, number in candidates if size >= enough]
    level, units = min(fitting, key=lambda item: int(item[1].sum()))
    return level.words(table.templates[int(table.template[units][0])]), units


def _size(table: UnitTable, units: Bool) -> int:
    """Change of own time, summed over the ranks without sign, ns."""
    return int(np.abs(_change_by_rank(table, units)[1]).sum())


def _change_by_rank(table: UnitTable, units: Bool) -> tuple[Int64, Int64]:
    ranks, place = np.unique(table.rank[units], return_inverse=True)
    change = np.zeros(len(ranks), np.int64)
    np.add.at(change, place, table.change_ns[units])
    return ranks, change


def ranks_of(table: UnitTable, units: Bool) -> tuple[int, ...]:
    """Ranks that a change lies on."""
    ranks, change = _change_by_rank(table, units)
    largest = np.abs(change).max(initial=0)
    return tuple(ranks[np.abs(change) >= max(ON_RANK * largest, 1)].tolist())


def _cause(table: UnitTable, units: Bool, words: str, effect_ns: int) -> Cause:
    before, after = int(table.before_ns[units].sum()), int(table.after_ns[units].sum())
    calls = int((units & table.in_a).sum()), int((units & table.in_b).sum())
    categories = np.unique(table.category[units])
    named = dict.fromkeys(_template_words(table.templates[t]) for t in np.unique(table.template[units]).tolist())
    return Cause(
        what=f"{words} {_verb(calls, (before, after))}",
        category=Category(int(categories[0])).label,
        ranks=ranks_of(table, units) or tuple(np.unique(table.rank[units]).tolist()),
        calls_before=calls[0],
        calls_after=calls[1],
        own_before_ms=ns_to_ms(before),
        own_after_ms=ns_to_ms(after),
        effect_ms=ns_to_ms(effect_ns),
        ops=tuple(named),
    )


def _verb(calls: tuple[int, int], own: tuple[int, int]) -> str:
    """How a group changed."""
    if calls[0] == 0 or calls[1] == 0:
        return "added" if calls[0] == 0 else "removed"
    if own[0] <= 0:
        return "longer"
    return f"x{own[1] / own[0]:.3f}"
