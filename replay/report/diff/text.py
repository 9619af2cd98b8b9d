"""The terminal report of a comparison: the difference, what caused it, where it went, what stayed inside the spread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from replay.core.units import ns_to_ms, percent
from replay.report.console import console
from replay.report.diff.types import Cause, Difference, Side
from replay.report.text_tables import heading, new_table
from replay.report.words import ms, number, pct, short

TOP_CAUSES = 8
TOP_OPS = 12
TOP_WAITS = 5
TOP_PATH = 8
LEAST_MS = 0.0005  # smaller effects read as zero


def render(found: Difference, out: TextIO, *, quiet: bool = False) -> None:
    """Write the report; ``quiet`` keeps the headline and the first cause."""
    body = () if quiet else (_parts, _by_rank, _ops, _waits, _paths, _numbers, _knowledge)
    sections = (_headline, _causes, *body)
    console(out).print(Group(*(item for section in sections for item in section(found))))


def _headline(found: Difference) -> Iterable[RenderableType]:
    gap = ns_to_ms(found.difference_ns)
    share = pct(percent(gap, ns_to_ms(found.a.step_ns))) if found.a.step_ns else "-"
    yield Text(
        f"step: a {ms(ns_to_ms(found.a.step_ns))}, b {ms(ns_to_ms(found.b.step_ns))}; b - a {gap:+,.3f} ms ({share})",
        style="bold",
    )
    for label, side in (("a", found.a), ("b", found.b)):
        yield Text(f"{label}: {_named(side)}")
    yield from (Text(line, style="bold") for line in intervals(found))
    if found.within_spread is None:
        yield Text("spread of the steps: not known, neither side holds three of them")
    elif found.within_spread:
        yield Text(
            "the difference is inside the measured spread of the steps: noise until more steps say otherwise",
            style="bold",
        )


def intervals(found: Difference) -> Iterable[str]:
    """Where the other step lies by the interval of a prediction."""
    for label, side, other, step in (("a", found.a, "b", found.b), ("b", found.b, "a", found.a)):
        if side.interval_ns:
            low, high = side.interval_ns
            where = "inside" if low <= step.step_ns <= high else "outside"
            yield f"{other} lies {where} the 80 % interval of {label}: {ms(ns_to_ms(low))} to {ms(ns_to_ms(high))}"


def _named(side: Side) -> str:
    spread = "" if side.spread_pct is None else f", steps spread {pct(side.spread_pct)}"
    used = f", {side.step_used}" if side.step_used else ""
    return f"{side.source} {side.name}{used}{spread}"


def _causes(found: Difference) -> Iterable[RenderableType]:
    shown = [cause for cause in found.causes[:TOP_CAUSES] if abs(cause.effect_ms) >= LEAST_MS]
    if not shown:
        return
    yield heading("What changed, and how the step moves with that change alone")
    for index, cause in enumerate(shown, 1):
        yield Text(f"  {index}. {cause.effect_ms:+,.3f} ms  {cause.what}{_where(cause, found)}")
        yield Text(f"     {cause_words(cause)}", style="dim")
    if found.explained_ms is not None:
        rest = ns_to_ms(found.difference_ns) - found.explained_ms - found.noise_ms
        yield Text(
            f"  all together {found.explained_ms:+,.3f} ms; inside the spread of repeated ops (noise) "
            f"{found.noise_ms:+,.3f} ms; not explained {rest:+,.3f} ms"
        )


def _where(cause: Cause, found: Difference) -> str:
    if len(found.ranks) < 2 or len(cause.ranks) == len(found.ranks):
        return ""
    return f", {_ranks(cause.ranks)}"


def _ranks(ranks: tuple[int, ...]) -> str:
    words = ", ".join(str(rank) for rank in ranks[:6]) + (", ..." if len(ranks) > 6 else "")
    return f"rank {words}" if len(ranks) == 1 else f"ranks {words}"


def cause_words(cause: Cause) -> str:
    """Own time and calls of a cause."""
    calls = number(cause.calls_before)
    if cause.calls_before != cause.calls_after:
        calls = f"{calls} -> {number(cause.calls_after)}"
    own = f"{ms(cause.own_before_ms)} -> {ms(cause.own_after_ms)}"
    members = f"; {len(cause.ops)} sorts of op" if len(cause.ops) > 1 else ""
    return f"{cause.category}, {calls} calls, own time {own}{members}"


def _parts(found: Difference) -> Iterable[RenderableType]:
    rank = "" if found.rank is None else f", rank {found.rank}"
    yield heading(f"Where the difference lies{rank}, ms (the parts sum to it)")
    table = new_table("", "b - a")
    for key, ns in found.parts_ns.items():
        if ns:
            table.add_row(key.replace("_", " "), f"{ns_to_ms(ns):+,.6f}")
    table.add_row("difference", f"{ns_to_ms(found.difference_ns):+,.6f}")
    yield table


def _by_rank(found: Difference) -> Iterable[RenderableType]:
    rows = found.parts_by_rank_ns
    if len(rows) < 2:
        return
    states = [key for key in next(iter(rows.values())) if any(parts.get(key) for parts in rows.values())]
    if not states:
        return
    yield heading("The same by rank, ms")
    table = new_table("rank", *(state.replace("_", " ") for state in states), left=0)
    for rank, parts in rows.items():
        table.add_row(str(rank), *(f"{ns_to_ms(parts.get(key, 0)):+,.1f}" for key in states))
    yield table


def _ops(found: Difference) -> Iterable[RenderableType]:
    shown = [row for row in found.ops if not row.noise][:TOP_OPS]
    if shown:
        yield heading(f"Ops that differ most, {'summed over the ranks compared' if found.ranks else 'mean over ranks'}")
        table = new_table("op", "in", "ranks", "calls", "before", "after", "b - a", "of the step", left=3)
        for row in shown:
            calls = number(row.calls_before)
            calls = calls if row.calls_before == row.calls_after else f"{calls} -> {number(row.calls_after)}"
            module = " ".join(word for word in (row.role, row.phase) if word)
            ranks = "all" if len(row.ranks) == len(found.ranks) else _ranks(row.ranks).partition(" ")[2]
            table.add_row(
                escape(short(row.op, 100)), module, ranks, calls, ms(row.total_before_ms), ms(row.total_after_ms),
                f"{row.difference_ms:+,.3f} ms", f"{row.share_pct:+.2f} %",
            )  # fmt: skip
        yield table
    quiet = sum(row.noise for row in found.ops)
    if quiet:
        yield Text(f"  {quiet} more sorts of op moved inside the spread of their repeats")


def _waits(found: Difference) -> Iterable[RenderableType]:
    if not found.waits:
        return
    yield heading("Consequences: waiting inside collectives, summed over the ranks compared")
    table = new_table("collective", "ranks", "before", "after", "b - a", left=2)
    for row in found.waits[:TOP_WAITS]:
        ranks = _ranks(row.ranks).partition(" ")[2]
        table.add_row(row.op, ranks, ms(row.before_ms), ms(row.after_ms), f"{row.difference_ms:+,.3f} ms")
    yield table


def _paths(found: Difference) -> Iterable[RenderableType]:
    if not found.critical_path:
        return
    yield heading("Critical paths side by side, largest change first")
    table = new_table("op", "a", "b", "b - a")
    for row in found.critical_path[:TOP_PATH]:
        change = f"{row.after_ms - row.before_ms:+,.3f} ms"
        table.add_row(escape(row.label), ms(row.before_ms), ms(row.after_ms), change)
    yield table


def _numbers(found: Difference) -> Iterable[RenderableType]:
    both = [(key, found.a.numbers[key], found.b.numbers.get(key)) for key in found.a.numbers]
    known = [(key, a, b) for key, a, b in both if a is not None and b is not None]
    if not known:
        return
    yield heading("What both sides know")
    table = new_table("", "a", "b")
    for key, a, b in known:
        table.add_row(key.replace("_", " "), number(a), number(b))
    yield table


def _knowledge(found: Difference) -> Iterable[RenderableType]:
    lines = [f"only a knows {fact}" for fact in found.only_a] + [f"only b knows {fact}" for fact in found.only_b]
    lines += found.notes
    lines += [f"{name}: {text}" for name, side in (("a", found.a), ("b", found.b)) for text in side.warnings]
    if lines:
        yield heading("To keep in mind")
    for line in dict.fromkeys(lines):
        yield Text(f"  - {line}")
