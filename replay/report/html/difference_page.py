"""The report of a comparison."""

from __future__ import annotations

from replay.core.units import ns_to_ms, percent
from replay.report.diff.text import LEAST_MS, intervals
from replay.report.diff.types import Cause, Difference, Side
from replay.report.html.bars import signed, stacked
from replay.report.html.colours import LEGEND
from replay.report.html.page import Page, Section, Table, render
from replay.report.html.timeline import timelines
from replay.report.words import ms, number, pct, short

TOP_CAUSES = 12
TOP_OPS = 25
TOP_WAITS = 10


def page(found: Difference) -> str:
    """The whole file."""
    gap = ns_to_ms(found.difference_ns)
    return render(
        Page(
            title=f"replay diff: {found.a.name} against {found.b.name}",
            headline=_headline(found, gap),
            facts=tuple(_facts(found)),
            sections=(
                _causes(found),
                _parts(found),
                _timelines(found),
                _ops(found),
                _waits(found),
                _paths(found),
                _numbers(found),
                Section("To keep in mind", lines=tuple(_caveats(found))),
            ),
        )
    )


def _headline(found: Difference, gap: float) -> str:
    share = f" ({percent(gap, ns_to_ms(found.a.step_ns)):+.2f} %)" if found.a.step_ns else ""
    return f"{ms(ns_to_ms(found.a.step_ns))} → {ms(ns_to_ms(found.b.step_ns))}: {gap:+,.3f} ms{share}"


def _facts(found: Difference) -> list[str]:
    facts = [f"{label}: {_named(side)}" for label, side in (("a", found.a), ("b", found.b))]
    facts += intervals(found)
    if found.within_spread:
        facts.append("The difference is inside the measured spread of the steps.")
    if found.causes and found.causes[0].effect_ms:
        facts.append(f"Largest cause: {found.causes[0].what}{_where(found.causes[0], found)}")
    return facts


def _named(side: Side) -> str:
    spread = "spread of the steps not known" if side.spread_pct is None else f"steps spread {pct(side.spread_pct)}"
    return ", ".join(filter(None, (f"{side.source} {side.name}", side.step_used, spread)))


def _where(cause: Cause, found: Difference) -> str:
    if len(found.ranks) < 2 or len(cause.ranks) == len(found.ranks):
        return ""
    return f" (rank {_listed(cause.ranks)})"


def _listed(ranks: tuple[int, ...]) -> str:
    return ", ".join(str(rank) for rank in ranks[:8]) + (", …" if len(ranks) > 8 else "")


def _causes(found: Difference) -> Section:
    rows = tuple(
        (
            cause.what, cause.category, _listed(cause.ranks), _change(cause.calls_before, cause.calls_after),
            ms(cause.own_before_ms), ms(cause.own_after_ms), f"{cause.effect_ms:+,.3f} ms",
        )
        for cause in found.causes[:TOP_CAUSES]
        if abs(cause.effect_ms) >= LEAST_MS
    )  # fmt: skip
    notes: tuple[str, ...] = ("Effect: how the step moves when this alone changes, by simulation.",)
    if found.explained_ms is not None:
        rest = ns_to_ms(found.difference_ns) - found.explained_ms - found.noise_ms
        together = f"All together {found.explained_ms:+,.3f} ms"
        noise = f"noise inside the spread of repeated ops {found.noise_ms:+,.3f} ms"
        notes += (f"{together}; {noise}; not explained {rest:+,.3f} ms.",)
    columns = ("what changed", "kind", "ranks", "calls", "own time before", "after", "effect on the step")
    return Section("Causes", notes, table=Table(columns, rows, left=3))


def _change(before: int, after: int) -> str:
    return number(before) if before == after else f"{number(before)} → {number(after)}"


def _parts(found: Difference) -> Section:
    parts = {key: ns_to_ms(ns) for key, ns in found.parts_ns.items()}
    sides = {
        label: {key: ns_to_ms(ns) for key, ns in side.parts_ns.items()}
        for label, side in (("a", found.a), ("b", found.b))
        if side.parts_ns
    }
    plots = ([signed(parts)] if any(parts.values()) else []) + ([stacked(sides)] if sides else [])
    rank = "" if found.rank is None else f" of rank {found.rank}"
    slowest = ", ".join(
        f"{label}: rank {side.rank}" for label, side in (("a", found.a), ("b", found.b)) if side.parts_ns
    )
    notes = (f"The parts{rank} sum to the difference. Below: each side's slowest rank ({slowest}).",) if sides else ()
    return Section("Where the difference lies", notes, tuple(plots))


def _timelines(found: Difference) -> Section:
    runs = [side.execution.run for side in (found.a, found.b) if side.execution]
    if not runs:
        return Section("Timelines")
    first = [rank for cause in found.causes[:3] for rank in cause.ranks if len(cause.ranks) < len(found.ranks)]
    ranks = tuple(dict.fromkeys((*([found.rank] if found.rank is not None else []), *first, *found.ranks)))
    ranks = ranks or tuple(dict.fromkeys(lane.rank for lane in runs[0].graph.lanes))
    drawn = timelines(runs, ranks)
    notes = ("Both steps begin at zero. Drag to zoom, wheel to zoom, hover for names.",)
    return Section("Timelines", (*notes, *drawn.notes), drawn.figures, legend=LEGEND)


def _ops(found: Difference) -> Section:
    rows = tuple(
        (
            short(row.op, 160), " ".join(filter(None, (row.role, row.phase))), _listed(row.ranks),
            _change(row.calls_before, row.calls_after), ms(row.total_before_ms), ms(row.total_after_ms),
            f"{row.difference_ms:+,.3f} ms", f"{row.share_pct:+.2f} %",
        )
        for row in found.ops[:TOP_OPS]
        if not row.noise
    )  # fmt: skip
    noise = sum(row.noise for row in found.ops)
    notes = (f"{noise} more sorts of op moved inside the spread of their repeats.",) if noise else ()
    columns = ("op", "in", "ranks", "calls", "before", "after", "b - a", "of the step")
    over = "summed over the ranks compared" if found.ranks else "mean over ranks"
    return Section(f"Ops that differ most, {over}", notes, table=Table(columns, rows, left=3))


def _waits(found: Difference) -> Section:
    rows = tuple(
        (row.op, _listed(row.ranks), ms(row.before_ms), ms(row.after_ms), f"{row.difference_ms:+,.3f} ms")
        for row in found.waits[:TOP_WAITS]
    )
    notes = ("Who waits is late because of others: these follow from the causes.",)
    return Section("Consequences: waiting inside collectives", notes, table=Table(
        ("collective", "ranks", "before", "after", "b - a"), rows, left=2
    ))  # fmt: skip


def _paths(found: Difference) -> Section:
    rows = tuple(
        (row.label, ms(row.before_ms), ms(row.after_ms), f"{row.after_ms - row.before_ms:+,.3f} ms")
        for row in found.critical_path
    )
    return Section("Critical paths side by side", table=Table(("op", "a", "b", "b - a"), rows))


def _numbers(found: Difference) -> Section:
    rows = tuple(
        (key.replace("_", " "), number(value), number(found.b.numbers[key]))
        for key, value in found.a.numbers.items()
        if value is not None and found.b.numbers.get(key) is not None
    )
    return Section("What both sides know", table=Table(("", "a", "b"), rows))


def _caveats(found: Difference) -> list[str]:
    lines = [f"only a knows {fact}" for fact in found.only_a] + [f"only b knows {fact}" for fact in found.only_b]
    lines += found.notes
    lines += [f"{label}: {text}" for label, side in (("a", found.a), ("b", found.b)) for text in side.warnings]
    return list(dict.fromkeys(lines))
