"""Cases and summaries as words, the same in the terminal and in HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.report.validation.summary import (
    Summary,
    by_device,
    counted,
    grouped,
    summarise,
    unprofiled,
)
from replay.report.validation.types import CaseRow, Validation
from replay.report.words import ms

SUMMARY_COLUMNS = ("device", "cases", "in all", "refused", "mean |error|", "worst", "bias", "in interval")
CASE_COLUMNS = ("case", "device", "change", "predicted", "measured", "error", "80 % interval", "inside")


def headline(found: Validation) -> str:
    """The whole file in one line."""
    total = summarise(counted(found.rows))
    if total.bias_pct is None:
        return f"{len(found.rows)} cases, none predicted"
    return (
        f"{total.pairs} cases: mean |error| {total.mean_abs_pct:.2f} %, worst {total.worst_pct:.2f} %, bias "
        f"{total.bias_pct:+.2f} %, {pct(total.coverage_pct)} inside the 80 % interval, {total.refused} refused"
    )


def summary_rows(found: Validation) -> Iterator[tuple[str, ...]]:
    """Every device: all cases, then by split, by change, and what is summed apart."""
    for device, rows in by_device(found.rows).items():
        joined = counted(rows)
        yield _summary_row(device, "all", summarise(joined))
        for what, groups in (
            ("split", grouped(joined, lambda row: row.split)),
            ("change of", grouped(joined, lambda row: row.change)),
            ("apart: change of", grouped(rows, lambda row: row.apart)),
        ):
            for name, members in groups.items():
                yield _summary_row("", f"{what} {name}", summarise(members))


def overhead_lines(found: Validation) -> Iterator[str]:
    """Predictions against unprofiled steps."""
    for device, rows in by_device(found.rows).items():
        told = unprofiled(counted(rows))
        if told is None:
            continue
        yield (
            f"{device}: the profiler adds {told.overhead_pct:+.2f} % to the measured steps; against unprofiled ones, "
            f"{_errors('predictions as they stand', told.mean_abs_pct, told.bias_pct, told.pairs)}"
        )
        if told.corrected_bias_pct is not None:
            what = f"{device}: predictions less the overhead of their source's own step"
            yield _errors(what, told.corrected_mean_abs_pct, told.corrected_bias_pct, told.corrected_pairs)


def _errors(what: str, mean_abs_pct: float | None, bias_pct: float, count: int) -> str:
    return f"{what}: mean |error| {pct(mean_abs_pct)}, bias {pct(bias_pct, sign=True)} ({count} cases)"


def case_row(row: CaseRow) -> tuple[str, ...]:
    """The cells of a case."""
    interval = " to ".join(ms(end) for end in row.interval_ms) if row.interval_ms else "-"
    inside = {True: "yes", False: "no", None: "-"}[row.in_interval]
    return (
        row.name,
        row.device,
        row.change,
        "refused" if row.refused else ms(row.predicted_step_ms),
        ms(row.measured_step_ms),
        pct(row.error_pct, sign=True),
        interval,
        inside,
    )


def refusals(rows: Sequence[CaseRow]) -> dict[str, list[str]]:
    """Names of refused cases by reason, in order of first appearance."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.refused:
            found.setdefault(row.refused, []).append(row.name)
    return found


def pct(value: float | None, *, sign: bool = False) -> str:
    """Percent with two decimals, or a dash."""
    return "-" if value is None else f"{value:{'+' if sign else ''}.2f} %"


def _summary_row(device: str, what: str, of: Summary) -> tuple[str, ...]:
    return (
        device,
        what,
        str(of.pairs),
        str(of.refused),
        pct(of.mean_abs_pct),
        pct(of.worst_pct),
        pct(of.bias_pct, sign=True),
        "-" if of.coverage_pct is None else f"{of.coverage_pct:.0f} %",
    )
