"""The terminal report: headline first, then what was held fixed, where the time goes, and how far to trust it.

Every section is a plain function from a result to renderables; :func:`render_run` and :func:`render_inspection` put
them in order. Colour and box drawing appear on a terminal only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TextIO

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from replay.report.breakdown import State
from replay.report.console import console
from replay.report.definitions import DEFINITIONS
from replay.report.result import ChangeRow, CollectiveRow, HealthFacts, Inspection, Measured, RunResult

TOP_CHANGES = 10
MANY_KEYS = 9  # from here on keys with one reason are counted, not listed
LARGE = 1e7  # from here on numbers are written with an exponent
TOP_SENSITIVITIES = 3

Section = Callable[[RunResult], Iterable[RenderableType]]


def render_run(result: RunResult, out: TextIO, *, explain: bool = False, quiet: bool = False) -> None:
    """Write the report of a run; ``quiet`` keeps the headline, ``explain`` adds every change and the definitions."""
    sections: list[Section] = [_headline]
    if not quiet:
        sections += [
            _held_fixed,
            _layouts,
            _breakdown,
            _evidence,
            _changes,
            _stragglers,
            _collectives,
            _chunk_costs,
            _sensitivities,
        ]
        sections += [_trust, _warnings]
    if explain:
        sections += [_interval_basis, _definitions]
    console(out).print(Group(*(item for section in sections for item in section(result))))


def render_inspection(result: Inspection, out: TextIO, *, quiet: bool = False) -> None:
    """Write what an input holds, its statistics and what can be asked of it; ``quiet`` keeps the first lines."""
    items = [*_input(result), *_measured(result)]
    if not quiet:
        items += [*_layouts(result), *_model(result), *_breakdown(result), *_top_ops(result), *_collectives(result)]
        items += [*_chunk_costs(result), *_trust(result), *_questions(result), *_warnings(result)]
    console(out).print(Group(*items))


def _ms(value: float | int | None) -> str:
    return "-" if value is None else f"{value:,.3f} ms" if abs(value) < 100 else f"{value:,.1f} ms"


def _pct(value: float | int | None) -> str:
    return "-" if value is None else f"{value:.2f} %"


def _bytes(value: float | int | None) -> str:
    if value is None:
        return "-"
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if value >= 10**power:
            return f"{value / 10**power:,.2f} {prefix}B"
    return f"{value:.0f} B"


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _table(*columns: str, left: int = 1) -> Table:
    """A borderless table: the first ``left`` columns hold words, the others numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < left else "right", overflow="fold", no_wrap=index >= left)
    return table


def _headline(result: RunResult) -> Iterable[RenderableType]:
    yield Text(f"measured   {_ms(result.measured_step_ms)}", style="bold")
    yield Text(f"replayed   {_ms(result.replayed_step_ms)}  (error {_pct(result.replay_error_pct)})", style="bold")
    if result.predicted_step_ms is not None and result.predicted_interval_ms is not None:
        low, high = result.predicted_interval_ms
        yield Text(
            f"predicted  {_ms(result.predicted_step_ms)}  (80 %: {_ms(low)} to {_ms(high)}), "
            f"speed-up x{result.speedup:.3f}",
            style="bold",
        )
    if result.profiled_step_ms is not None:
        yield Text(f"anchored to --measured-step; the trace's own step is {_ms(result.profiled_step_ms)}")
    if result.forced:
        yield Text("--force: the baseline gate was overridden, the prediction is not backed by it", style="bold")


def _held_fixed(result: RunResult) -> Iterable[RenderableType]:
    if result.question:
        yield Text(f"asked: {' '.join(result.question)}")
    if result.layout.held_fixed:
        yield Text(f"held fixed: {', '.join(result.layout.held_fixed)}")


def _layouts(result: Measured) -> Iterable[RenderableType]:
    source, target = result.layout.source, result.layout.target
    if not source:
        return
    yield _heading("Layout")
    words = []
    for key, value in source.items():
        new = target.get(key, value)
        if value is not None or new is not None:
            words.append(f"{key} {_known(value)}" if new == value else f"{key} {_known(value)} -> {_known(new)}")
    yield Text("  " + ", ".join(words))
    reasons: dict[str, list[str]] = {}
    for key, reason in result.layout.evidence.items():
        reasons.setdefault(reason, []).append(key)
    for reason, keys in reasons.items():
        yield Text(f"  {', '.join(keys) if len(keys) < MANY_KEYS else f'{len(keys)} keys'}: {reason}")


def _known(value: int | str | None) -> str:
    return "?" if value is None else str(value)


def _breakdown(result: Measured) -> Iterable[RenderableType]:
    columns = [name for name in ("measured", "replayed", "predicted") if result.breakdown.get(name)]
    if not columns:
        return
    rank = result.breakdown[columns[0]].get("rank")
    yield _heading(f"Where the step goes (slowest rank{'' if rank is None else f': {rank}'}), ms")
    table = _table("", *columns)
    for key in (*(state.label for state in State), "overlapped_communication"):
        values = [result.breakdown[name].get(key) for name in columns]
        if any(values):
            table.add_row(key.replace("_", " "), *("-" if v is None else f"{v:,.3f}" for v in values))
    yield table


def _evidence(result: RunResult) -> Iterable[RenderableType]:
    if not result.evidence_share:
        return
    parts = [f"{grade} {_pct(share)}" for grade, share in result.evidence_share.items() if share]
    yield _heading("Evidence of op durations, share of time")
    yield Text("  " + ", ".join(parts))


def _changes(result: RunResult) -> Iterable[RenderableType]:
    if not result.changes:
        return
    yield _heading("Largest changes")
    for change in result.changes[:TOP_CHANGES]:
        yield _change(change)


def _change(change: ChangeRow) -> Text:
    """Name and grade; quantities, and where they move the ones after; the formula."""
    keys = dict.fromkeys((*change.before, *change.after))
    moved = ", ".join(_moved(key, change.before.get(key), change.after.get(key)) for key in keys)
    return Text(f"  {_short(change.name, 80)} [{change.grade}]: {moved}\n    {change.formula}")


def _moved(key: str, before: float | int | None, after: float | int | None) -> str:
    show = _bytes if "nbytes" in key else _number
    words = key.replace("_", " ")
    return f"{words} {show(before)}" if before == after else f"{words} {show(before)} -> {show(after)}"


def _number(value: float | int | None) -> str:
    if value is None:
        return "-"
    if abs(value) >= LARGE:
        return f"{value:.4g}"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"


def _short(name: str, limit: int = 48) -> str:
    """Kernel names run to kilobytes: keep the beginning."""
    return name if len(name) <= limit else name[: limit - 3] + "..."


def _stragglers(result: RunResult) -> Iterable[RenderableType]:
    if not result.stragglers:
        return
    yield _heading("Slowdown by stragglers, step / step without them")
    for what, value in result.stragglers.items():
        if isinstance(value, Mapping):
            yield Text(f"  by {what}: " + ", ".join(f"{key} x{number:.3f}" for key, number in value.items()))
        else:
            yield Text(f"  {what}: x{value:.3f}")


def _collectives(result: Measured) -> Iterable[RenderableType]:
    if not result.collectives:
        return
    yield _heading("Collectives, all ranks given")
    after = any(row.calls_after is not None for row in result.collectives)
    table = _table("kind", "group", "ranks", "nodes", "calls", "bytes", "transfer", left=2)
    for row in result.collectives:
        table.add_row(row.kind, escape(_short(row.group, 40)), *_collective_cells(row, after=after))
    yield table


def _collective_cells(row: CollectiveRow, *, after: bool) -> Iterable[str]:
    """Values, and where they change the ones after: ``512 -> 1024``."""
    pairs: tuple[tuple[Callable[[int | None], str], int | None, int | None], ...] = (
        (_count_of, row.size_before, row.size_after),
        (_count_of, row.nodes_before, row.nodes_after),
        (_count_of, row.calls_before, row.calls_after),
        (_bytes, row.nbytes_before, row.nbytes_after),
    )
    for show, before, now in pairs:
        yield show(before) if not after or before == now else f"{show(before)} -> {show(now)}"
    moved = after and row.transfer_ms_before != row.transfer_ms_after
    yield _ms(row.transfer_ms_before) + (f" -> {_ms(row.transfer_ms_after)}" if moved else "")


def _count_of(value: int | None) -> str:
    return "-" if value is None else str(value)


def _chunk_costs(result: Measured) -> Iterable[RenderableType]:
    if not result.chunk_costs:
        return
    yield _heading("Chunk costs of the source")
    table = _table("stage", "chunk", "phase", "mean", "spread", "passes", left=3)
    for row in result.chunk_costs:
        cells = (str(row.stage), str(row.chunk), row.phase, _ms(row.mean_ms), _ms(row.spread_ms), str(row.count))
        table.add_row(*cells)
    yield table


def _sensitivities(result: RunResult) -> Iterable[RenderableType]:
    if not result.sensitivity:
        return
    yield _heading("Largest sensitivities")
    for row in result.sensitivity[:TOP_SENSITIVITIES]:
        yield Text(f"  {row.parameter} {row.change}: {row.step_change_ms:+.3f} ms ({row.step_change_pct:+.2f} %)")


def _trust(result: Measured) -> Iterable[RenderableType]:
    yield _heading("Trust")
    if result.replay_error_pct is not None:
        yield Text(
            f"  replay error {_pct(result.replay_error_pct)}, start error p95 {_pct(result.start_error_p95_pct)} "
            f"of the step, residual on the critical path {_pct(result.residual_pct)}"
        )
    if isinstance(result, RunResult) and result.lift_error_pct is not None:
        yield Text(f"  lift error {_pct(result.lift_error_pct)}, device time unassigned {_pct(result.unassigned_pct)}")
    yield from _health(result.health)


def _health(health: HealthFacts) -> Iterable[RenderableType]:
    edges = "" if health.inferred_edges is None else f", {health.inferred_edges} inferred edges"
    yield Text(
        f"  {health.events} events, {health.dropped} dropped, {health.clipped} clipped{edges}, "
        f"{health.kernels_without_launch} kernels without launch"
    )
    for reason, counts in health.detail.items():
        yield Text(f"    {reason}: " + ", ".join(f"{name} {count}" for name, count in counts.items()))
    if health.blocked_share_pct:
        shares = ", ".join(f"{name} {_pct(share)}" for name, share in health.blocked_share_pct.items())
        yield Text(f"  host blocked, share of the step: {shares}")
    if len(health.clock_offset_us) > 1:
        offset_rank, (offset, _) = max(health.clock_offset_us.items(), key=lambda item: abs(item[1][0]))
        error_rank, (_, error) = max(health.clock_offset_us.items(), key=lambda item: item[1][1])
        yield Text(
            f"  clocks: largest offset {offset:+.1f} us (rank {offset_rank}), largest error {error:.1f} us "
            f"(rank {error_rank})"
        )


def _warnings(result: Measured) -> Iterable[RenderableType]:
    warnings = dict.fromkeys((*result.health.warnings, *result.warnings))
    if warnings:
        yield _heading("Warnings")
    for warning in warnings:
        yield Text(f"  - {warning}")


def _interval_basis(result: RunResult) -> Iterable[RenderableType]:
    if result.interval_basis:
        yield _heading("What the 80 % interval is made of")
    for line in result.interval_basis:
        yield Text(f"  - {line}")
    if len(result.changes) > TOP_CHANGES:
        yield _heading("All other changes")
        for change in result.changes[TOP_CHANGES:]:
            yield _change(change)


def _definitions(result: RunResult) -> Iterable[RenderableType]:
    yield _heading("What the words mean")
    for word, meaning in DEFINITIONS.items():
        yield Text(f"  {word}: {meaning}")


def _input(result: Inspection) -> Iterable[RenderableType]:
    facts = result.input
    device = facts.device or "device not named"
    world = "world size unknown" if facts.world_size is None else f"world of {facts.world_size}"
    yield Text(f"{facts.format}: {_count(facts.files, 'file')}, {device}, {_ranks(facts.ranks)}, {world}", style="bold")
    if facts.steps:
        yield Text(f"steps: {_listed(facts.steps)}; used: {facts.step_used}")
    if result.nothing_to_replay:
        yield Text(f"nothing to replay: {result.nothing_to_replay}", style="bold")


def _count(items: Sequence[object], noun: str) -> str:
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {_listed([str(rank) for rank in ranks])}"


def _listed(words: Sequence[str], limit: int = 8) -> str:
    return ", ".join(words) if len(words) <= limit else f"{', '.join(words[:limit])}, ... ({len(words)} in all)"


def _measured(result: Inspection) -> Iterable[RenderableType]:
    if result.measured_step_ms is None:
        return
    spread = "" if result.measured_step_spread_pct is None else f" (spread {_pct(result.measured_step_spread_pct)})"
    replayed = "" if result.replayed_step_ms is None else f", replayed {_ms(result.replayed_step_ms)}"
    yield Text(f"step: measured {_ms(result.measured_step_ms)}{spread}{replayed}")


def _model(result: Inspection) -> Iterable[RenderableType]:
    if result.model:
        yield _heading("Model")
        yield Text("  " + ", ".join(f"{key} {value}" for key, value in result.model.items()))


def _top_ops(result: Inspection) -> Iterable[RenderableType]:
    if result.launch_coverage_pct is not None:
        yield Text(f"\nlaunches whose device work was recorded: {_pct(result.launch_coverage_pct)}")
    if not result.top_ops:
        return
    yield _heading("Device ops by time")
    table = _table("op", "calls", "time", "share")
    for op in result.top_ops:
        table.add_row(escape(_short(op.name, 72)), str(op.calls), _ms(op.total_ms), _pct(op.share_pct))
    yield table


def _questions(result: Inspection) -> Iterable[RenderableType]:
    if not result.questions:
        return
    yield _heading("What can be asked of it")
    for topic in result.questions:
        yield Text(f"  {topic.option}: {'yes' if topic.answerable else 'no'}, {topic.reason}")
