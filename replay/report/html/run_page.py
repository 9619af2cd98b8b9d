"""The report of a run: the measured step, and where something was asked the predicted one."""

from __future__ import annotations

from collections.abc import Sequence

from replay.report.html.bars import stacked
from replay.report.html.colours import LEGEND
from replay.report.html.page import Page, Section, Table, render
from replay.report.html.timeline import timelines
from replay.report.result import ChangeRow, CollectiveRow, RunResult
from replay.report.slices import Run
from replay.report.words import counted, known, ms, nbytes_words, number, pct, ranks_words, short

TOP_CHANGES = 25
SIDE_BY_SIDE = ("measured", "replayed", "predicted")


def page(result: RunResult, runs: Sequence[Run]) -> str:
    """The whole file."""
    return render(
        Page(
            title=f"replay: {', '.join(result.input.files)}" if len(result.input.files) < 4 else
            f"replay: {result.input.files[0]} and {len(result.input.files) - 1} more files",
            headline=_headline(result),
            facts=tuple(_facts(result)),
            sections=(
                _breakdown(result),
                _timelines(result, runs),
                _changes(result),
                _collectives(result),
                _sensitivity(result),
                _ranks(result),
                _layout(result),
                _trust(result),
                Section("Warnings", lines=tuple(dict.fromkeys((*result.health.warnings, *result.warnings)))),
            ),
        )
    )  # fmt: skip


def _headline(result: RunResult) -> str:
    if result.predicted_step_ms is None:
        return f"Measured {ms(result.measured_step_ms)}, replayed {ms(result.replayed_step_ms)}"
    return f"{ms(result.measured_step_ms)} → {ms(result.predicted_step_ms)} predicted, speed-up {result.speedup:.3f}"


def _facts(result: RunResult) -> list[str]:
    facts = result.input
    device = facts.device or "device not named"
    lines = [
        f"{facts.format}: {counted(facts.files, 'file')}, {device}, {ranks_words(facts.ranks)}; step {facts.step_used}"
    ]
    if result.question:
        lines.append(f"asked: {' '.join(result.question)}")
    if result.predicted_interval_ms:
        low, high = result.predicted_interval_ms
        lines.append(f"80 % interval {ms(low)} to {ms(high)}")
    if result.layout.held_fixed:
        lines.append(f"held fixed: {', '.join(result.layout.held_fixed)}")
    lines.append(
        f"replay error {pct(result.replay_error_pct)}, start error p95 {pct(result.start_error_p95_pct)} of the step"
    )
    if result.forced:
        lines.append("--force: the baseline gate was overridden, the prediction is not backed by it")
    return lines


def _breakdown(result: RunResult) -> Section:
    rows = {name: result.breakdown[name] for name in SIDE_BY_SIDE if result.breakdown.get(name)}
    ranks = ", ".join(f"{name}: rank {row.get('rank')}" for name, row in rows.items())
    notes = (f"Slowest rank ({ranks}); at any instant one state, so the bars are as long as the step.",)
    return Section("Where the step goes", notes, (stacked(rows),) if rows else ())


def _ranks(result: RunResult) -> Section:
    rows = {f"rank {rank}": row for rank, row in result.breakdown_by_rank.items()}
    return Section("Measured, by rank", (), (stacked(rows),) if len(rows) > 1 else ())


def _timelines(result: RunResult, runs: Sequence[Run]) -> Section:
    """Measured and predicted where something was predicted, else measured and replayed."""
    shown = [run for run in runs if run.label != "replayed"] if len(runs) > 2 else list(runs)
    if not shown:
        return Section("Timelines")
    slowest = [row.get("rank") for row in result.breakdown.values()]
    present = dict.fromkeys(lane.rank for run in shown for lane in run.graph.lanes)
    ranks = dict.fromkeys([rank for rank in slowest if rank in present] + list(present))
    drawn = timelines(shown, [int(rank) for rank in ranks if rank is not None])
    words = " and ".join(run.label for run in shown)
    notes = (f"{words}, from the step's begin. Drag to zoom, wheel to zoom, hover for names.",)
    return Section("Timelines", (*notes, *drawn.notes), drawn.figures, legend=LEGEND)


def _changes(result: RunResult) -> Section:
    rows = tuple((short(row.name, 120), row.grade, _moved(row), row.formula) for row in result.changes[:TOP_CHANGES])
    more = len(result.changes) - TOP_CHANGES
    notes = (f"{more} smaller ones are left out.",) if more > 0 else ()
    return Section("Largest changes", notes, table=Table(("op", "evidence", "before → after", "formula"), rows, left=4))


def _moved(row: ChangeRow) -> str:
    words = []
    for key in dict.fromkeys((*row.before, *row.after)):
        before, after = row.before.get(key), row.after.get(key)
        show = nbytes_words if "nbytes" in key else number
        moved = show(before) if before == after else f"{show(before)} → {show(after)}"
        words.append(f"{key.replace('_', ' ')} {moved}")
    return ", ".join(words)


def _collectives(result: RunResult) -> Section:
    rows = tuple(_collective(row) for row in result.collectives)
    columns = ("kind", "group", "ranks", "calls", "bytes", "transfer")
    return Section("Collectives, summed over the ranks given", table=Table(columns, rows, left=2))


def _collective(row: CollectiveRow) -> tuple[str, ...]:
    moved = row.calls_after is not None

    def both(before: str, after: str) -> str:
        return before if not moved or before == after else f"{before} → {after}"

    return (
        row.kind,
        short(row.group, 60),
        both(number(row.size_before), number(row.size_after)),
        both(number(row.calls_before), number(row.calls_after)),
        both(nbytes_words(row.nbytes_before), nbytes_words(row.nbytes_after)),
        both(ms(row.transfer_ms_before), ms(row.transfer_ms_after)),
    )


def _sensitivity(result: RunResult) -> Section:
    rows = tuple(
        (row.parameter, row.change, f"{row.step_change_ms:+.3f} ms", f"{row.step_change_pct:+.2f} %")
        for row in result.sensitivity[:8]
    )
    return Section("Largest sensitivities", table=Table(("parameter", "change", "step", "share"), rows, left=2))


def _layout(result: RunResult) -> Section:
    source, target = result.layout.source, result.layout.target
    rows = tuple(
        (key, known(value), known(target.get(key, value)), result.layout.evidence.get(key, ""))
        for key, value in source.items()
        if value is not None or target.get(key) is not None
    )
    return Section("Layout", table=Table(("", "source", "target", "how it is known"), rows, left=4))


def _trust(result: RunResult) -> Section:
    health = result.health
    lines = [
        f"{grade} evidence: {pct(share)} of device time" for grade, share in result.evidence_share.items() if share
    ]
    lines += [f"interval: {basis}" for basis in result.interval_basis]
    if result.lift_error_pct is not None:
        lines.append(f"lift error {pct(result.lift_error_pct)}, device time unassigned {pct(result.unassigned_pct)}")
    lines.append(f"residual on the critical path {pct(result.residual_pct)}")
    lines.append(
        f"{health.events:,} events, {health.dropped:,} dropped, {health.clipped:,} clipped, "
        f"{health.kernels_without_launch:,} kernels without launch"
    )
    return Section("Evidence and trust", lines=tuple(lines))
