"""Sections of the terminal report, each a plain function from a result to renderables."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from replay.core.words import listed
from replay.report.definitions import DEFINITIONS
from replay.report.result import ChangeRow, HealthFacts, Inspection, Measured, RunResult
from replay.report.text_tables import heading
from replay.report.words import counted, known, ms, nbytes_words, number, pct, ranks_words, short

TOP_CHANGES = 10
MANY_KEYS = 9  # from here on keys with one reason are counted, not listed
TOP_SENSITIVITIES = 3


def headline(result: RunResult) -> Iterable[RenderableType]:
    """Measured, replayed and predicted step, and what they rest on."""
    yield Text(f"measured   {ms(result.measured_step_ms)}", style="bold")
    yield Text(f"replayed   {ms(result.replayed_step_ms)}  (error {pct(result.replay_error_pct)})", style="bold")
    if result.predicted_step_ms is not None and result.predicted_interval_ms is not None:
        low, high = result.predicted_interval_ms
        yield Text(
            f"predicted  {ms(result.predicted_step_ms)}  (80 %: {ms(low)} to {ms(high)}), "
            f"speed-up x{result.speedup:.3f}",
            style="bold",
        )
    if result.profiled_step_ms is not None:
        yield Text(f"anchored to --measured-step; the trace's own step is {ms(result.profiled_step_ms)}")
    if result.forced:
        yield Text("--force: the baseline gate was overridden, the prediction is not backed by it", style="bold")


def held_fixed(result: RunResult) -> Iterable[RenderableType]:
    """The question, and what it leaves as it was."""
    if result.question:
        yield Text(f"asked: {' '.join(result.question)}")
    if result.layout.held_fixed:
        yield Text(f"held fixed: {', '.join(result.layout.held_fixed)}")


def layouts(result: Measured) -> Iterable[RenderableType]:
    """Sizes of the source, and where they move those of the target; how they are known."""
    source, target = result.layout.source, result.layout.target
    if not source:
        return
    yield heading("Layout")
    words = []
    for key, value in source.items():
        new = target.get(key, value)
        if value is not None or new is not None:
            words.append(f"{key} {known(value)}" if new == value else f"{key} {known(value)} -> {known(new)}")
    yield Text("  " + ", ".join(words))
    reasons: dict[str, list[str]] = {}
    for key, reason in result.layout.evidence.items():
        reasons.setdefault(reason, []).append(key)
    for reason, keys in reasons.items():
        yield Text(f"  {', '.join(keys) if len(keys) < MANY_KEYS else f'{len(keys)} keys'}: {reason}")


def throughput(result: RunResult) -> Iterable[RenderableType]:
    """Tokens a second, where batch and sequence are known."""
    tokens, per_device = (result.metrics.get(key) for key in ("tokens_per_s", "tokens_per_s_per_device"))
    if tokens is not None and per_device is not None:
        yield Text(f"tokens     {tokens:,.0f}/s, {per_device:,.0f}/s a device")


def evidence(result: RunResult) -> Iterable[RenderableType]:
    """Share of time by evidence grade."""
    if not result.evidence_share:
        return
    parts = [f"{grade} {pct(share)}" for grade, share in result.evidence_share.items() if share]
    yield heading("Evidence of op durations, share of time")
    yield Text("  " + ", ".join(parts))


def changes(result: RunResult) -> Iterable[RenderableType]:
    """Re-timed ops with formula and grade."""
    if not result.changes:
        return
    yield heading("Largest changes")
    for change in result.changes[:TOP_CHANGES]:
        yield change_words(change)


def change_words(change: ChangeRow) -> Text:
    """Name and grade; quantities, and where they move the ones after; the formula."""
    keys = dict.fromkeys((*change.before, *change.after))
    moved = ", ".join(_moved(key, change.before.get(key), change.after.get(key)) for key in keys)
    return Text(f"  {short(change.name, 80)} [{change.grade}]: {moved}\n    {change.formula}")


def _moved(key: str, before: float | int | None, after: float | int | None) -> str:
    show = nbytes_words if "nbytes" in key else number
    words = key.replace("_", " ")
    return f"{words} {show(before)}" if before == after else f"{words} {show(before)} -> {show(after)}"


def sensitivities(result: RunResult) -> Iterable[RenderableType]:
    """What moves the step most."""
    if not result.sensitivity:
        return
    yield heading("Largest sensitivities")
    effects: dict[str, list[str]] = {}
    for row in result.sensitivity:
        effects.setdefault(row.parameter, []).append(
            f"{row.change} {row.step_change_ms:+,.3f} ms ({row.step_change_pct:+.2f} %)"
        )
    for parameter, moves in list(effects.items())[:TOP_SENSITIVITIES]:
        yield Text(f"  {parameter}: {', '.join(moves)}")


def trust(result: Measured) -> Iterable[RenderableType]:
    """How well the step is reproduced, and what happened to the input."""
    yield heading("Trust")
    if result.replay_error_pct is not None:
        yield Text(
            f"  replay error {pct(result.replay_error_pct)}, start error p95 {pct(result.start_error_p95_pct)} "
            f"of the step, residual on the critical path {pct(result.residual_pct)}"
        )
    if isinstance(result, RunResult) and result.lift_error_pct is not None:
        yield Text(f"  lift error {pct(result.lift_error_pct)}, device time unassigned {pct(result.unassigned_pct)}")
    yield from _health(result.health)


def _health(health: HealthFacts) -> Iterable[RenderableType]:
    edges = "" if health.inferred_edges is None else f", {health.inferred_edges:,} inferred edges"
    yield Text(
        f"  {health.events:,} events, {health.dropped:,} dropped, {health.clipped:,} clipped{edges}, "
        f"{health.kernels_without_launch:,} kernels without launch"
    )
    for reason, counts in health.detail.items():
        yield Text(f"    {reason}: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))
    if health.blocked_share_pct:
        shares = ", ".join(f"{name} {pct(share)}" for name, share in health.blocked_share_pct.items())
        yield Text(f"  host blocked, share of the step: {shares}")
    if len(health.clock_offset_us) > 1:
        offset_rank, (offset, _) = max(health.clock_offset_us.items(), key=lambda item: abs(item[1][0]))
        error_rank, (_, error) = max(health.clock_offset_us.items(), key=lambda item: item[1][1])
        yield Text(
            f"  clocks: largest offset {offset:+,.1f} us (rank {offset_rank}), largest error {error:,.1f} us "
            f"(rank {error_rank})"
        )


def warnings(result: Measured) -> Iterable[RenderableType]:
    """Everything worth a second look, once."""
    warnings = dict.fromkeys((*result.health.warnings, *result.warnings))
    if warnings:
        yield heading("Warnings")
    for warning in warnings:
        yield Text(f"  - {warning}")


def interval_basis(result: RunResult) -> Iterable[RenderableType]:
    """Parts of the interval, and the changes that the report left out."""
    if result.interval_basis:
        yield heading("What the 80 % interval is made of")
    for line in result.interval_basis:
        yield Text(f"  - {line}")
    if len(result.changes) > TOP_CHANGES:
        yield heading("All other changes")
        for change in result.changes[TOP_CHANGES:]:
            yield change_words(change)


def pass_order(result: RunResult) -> Iterable[RenderableType]:
    """What each pipeline stage runs, in order."""
    if result.pass_order:
        yield heading("Order of passes (F forward, B backward; micro-batch.chunk)")
    for stage, order in result.pass_order.items():
        yield Text(f"  stage {stage}: {order}")


def definitions(result: RunResult) -> Iterable[RenderableType]:
    """What the words mean."""
    yield heading("What the words mean")
    for word, meaning in DEFINITIONS.items():
        yield Text(f"  {word}: {meaning}")


def input_facts(result: Inspection) -> Iterable[RenderableType]:
    """What was read."""
    facts = result.input
    device = facts.device or "device not named"
    world = "world size unknown" if facts.world_size is None else f"world of {facts.world_size}"
    yield Text(
        f"{facts.format}: {counted(facts.files, 'file')}, {device}, {ranks_words(facts.ranks)}, {world}", style="bold"
    )
    if facts.steps:
        yield Text(f"steps: {listed(facts.steps)}; used: {facts.step_used}")
    if result.nothing_to_replay:
        yield Text(f"nothing to replay: {result.nothing_to_replay}", style="bold")


def measured_step(result: Inspection) -> Iterable[RenderableType]:
    """The step and its spread."""
    if result.measured_step_ms is None:
        return
    spread = "" if result.measured_step_spread_pct is None else f" (spread {pct(result.measured_step_spread_pct)})"
    replayed = "" if result.replayed_step_ms is None else f", replayed {ms(result.replayed_step_ms)}"
    yield Text(f"step: measured {ms(result.measured_step_ms)}{spread}{replayed}")


def model(result: Inspection) -> Iterable[RenderableType]:
    """Architecture numbers, as far as known."""
    if result.model:
        yield heading("Model")
        yield Text("  " + ", ".join(f"{key} {value}" for key, value in result.model.items()))


def questions(result: Inspection) -> Iterable[RenderableType]:
    """What can be asked, and what is missing for the rest."""
    if not result.questions:
        return
    yield heading("What can be asked of it")
    for topic in result.questions:
        yield Text(f"  {topic.option}: {'yes' if topic.answerable else 'no'}, {topic.reason}")
