"""Sections of the terminal report that only training logs have, each from an inspection to renderables."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text

from replay.core.units import GIB
from replay.report.log_facts import FlopsFacts, TimerRow
from replay.report.result import Inspection
from replay.report.text_tables import heading, new_table

TOP_TIMERS = 16


def steady_lines(result: Inspection) -> Iterable[RenderableType]:
    """What the step was taken from, and what was left out."""
    log = result.log
    if log is None or not log.steady_lines:
        return
    left_out = {
        "warm-up": log.warmup_lines,
        "after a checkpoint": log.checkpoint_lines,
        "after an evaluation": log.evaluation_lines,
        "with skipped updates": log.skipped_update_lines,
    }
    counts = ", ".join(f"{count} {what}" for what, count in left_out.items() if count)
    runs = f"; run {(log.run_used or 0) + 1} of {log.runs}" if log.runs > 1 else ""
    yield Text(f"steady step: median of {log.steady_lines} lines, spread half their 10-90 % range{runs}")
    if counts:
        yield Text(f"  lines marked: {counts}")


def throughput(result: Inspection) -> Iterable[RenderableType]:
    """Tokens/s, our count of FLOP, and the log's own figures with the formula they imply."""
    log, metrics = result.log, result.metrics
    if log is None or not log.steady_lines:
        return
    yield heading("Throughput of the steady step")
    if (tokens := metrics["tokens_per_s"]) is not None:
        share = metrics["tokens_per_s_per_device"]
        yield Text(f"  {tokens:,.0f} tokens/s" + ("" if share is None else f", {share:,.1f} a device"))
    if log.logged_tokens_per_s_per_device is not None:
        yield Text(f"  as logged: {log.logged_tokens_per_s_per_device:,.1f} tokens/s a device")
    yield from _flops(log.flops)
    if log.logged_tflops_per_device is None:
        return
    logged = f"  as logged: {log.logged_tflops_per_device:,.1f} TFLOP/s a device"
    if log.logged_formula is None:
        yield Text(f"{logged}, a formula that is not known")
        return
    formula = log.logged_formula
    yield Text(f"{logged}; its formula is that of {formula.name}: {formula.counts} (off by {formula.ratio - 1:+.2%})")
    if formula.same:
        yield Text(f"    the same number for this model: {'; '.join(formula.same)}")


def _flops(flops: FlopsFacts) -> Iterable[RenderableType]:
    if flops.lacking:
        yield Text(f"  FLOP not counted: {', '.join(flops.lacking)} not known (--model, --from)")
    if flops.tflops_per_device is not None:
        yield Text(f"  {flops.tflops_per_device:,.1f} TFLOP/s a device, our count ({flops.convention})")
    if flops.mfu is not None and flops.peak_flop_per_s is not None:
        others = {"the whole attention matrix": flops.mfu_whole_attention, "recomputation": flops.hfu}
        shares = "".join(f"; with {what} {_share(value)}" for what, value in others.items() if value != flops.mfu)
        yield Text(
            f"  MFU {_share(flops.mfu)} of {flops.peak_flop_per_s / 1e12:,.0f} TFLOP/s ({flops.peak_source}){shares}"
        )
    elif not flops.lacking:
        yield Text("  MFU: the log does not name the device; give --hardware")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def memory(result: Inspection) -> Iterable[RenderableType]:
    """Allocator reports, parameters and the log's own estimate."""
    log, memory = result.log, result.memory
    if log is None or (memory["peak_gib"] is None and not log.theoretical and log.parameters_largest_rank is None):
        return
    yield heading("Memory")
    if memory["peak_gib"] is not None:
        reserved = memory.get("peak_reserved_gib")
        more = "" if reserved is None else f", {reserved:.2f} GiB reserved"
        yield Text(f"  peak {memory['peak_gib']:.2f} GiB allocated{more}")
    if len(memory["per_stage_gib"]) > 1:
        stages = ", ".join("-" if peak is None else f"{peak:.2f}" for peak in memory["per_stage_gib"])
        yield Text(f"  by pipeline stage, GiB: {stages}")
    if log.parameters_largest_rank is not None:
        yield Text(f"  {log.parameters_largest_rank:,} parameters on the largest rank")
    for name, value in log.theoretical.items():
        shown = f"{value / GIB:,.2f} GiB" if name.endswith("nbytes") else f"{value / 1e9:,.2f} billion"
        yield Text(f"  the log's own estimate, {name.removesuffix(' nbytes')}: {shown}")


def timers(result: Inspection) -> Iterable[RenderableType]:
    """Timers over the steady iterations, largest first."""
    log = result.log
    if log is None or not log.timers:
        return
    whose = "over the ranks" if log.timers_across_ranks else "of the rank that prints"
    yield heading(f"Where the timers say the time goes ({whose}; a timer may contain others), ms")
    values = ("min", "max", "mean") if log.timers_across_ranks else ("mean",)
    table = new_table("timer", *values, "share of step")
    for row in log.timers[:TOP_TIMERS]:
        table.add_row(*_timer_cells(row, across_ranks=log.timers_across_ranks))
    yield table


def _timer_cells(row: TimerRow, *, across_ranks: bool) -> Iterable[str]:
    yield escape(row.name)
    if across_ranks:
        yield f"{row.min_ms:,.2f}"
        yield f"{row.max_ms:,.2f}"
    yield "-" if row.mean_ms is None else f"{row.mean_ms:,.2f}"
    yield f"{row.share_pct:.1f} %"


def health(result: Inspection) -> Iterable[RenderableType]:
    """Lines read, and what could not be used."""
    facts = result.health
    yield heading("Trust")
    yield Text(f"  {facts.events:,} lines, {facts.dropped} dropped, {facts.clipped} cut")
    for reason, counts in facts.detail.items():
        yield Text(f"    {reason}: " + ", ".join(f"{name} {count}" for name, count in counts.items()))
