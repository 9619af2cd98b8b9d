"""Errors of many cases in a few numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from replay.report.validation.types import CaseRow

REFUSED_PCT = 100.0  # a refused case in the mean: no answer is no small error


@dataclass(frozen=True, slots=True)
class Summary:
    """``None`` where there is no case to tell.

    ``mean_abs_pct`` counts a refused case as 100 %; ``worst_pct`` (of the absolute errors), ``bias_pct`` (signed mean;
    positive: predicted too slow) and ``coverage_pct`` (measured steps inside the 80 % interval) are of those predicted.
    """

    pairs: int
    mean_abs_pct: float | None
    worst_pct: float | None
    bias_pct: float | None
    coverage_pct: float | None
    refused: int


@dataclass(frozen=True, slots=True)
class Unprofiled:
    """Against steps without the profiler: what it adds, and errors with and without what it added to the source."""

    pairs: int
    overhead_pct: float
    mean_abs_pct: float
    bias_pct: float
    corrected_pairs: int
    corrected_mean_abs_pct: float | None
    corrected_bias_pct: float | None


def summarise(rows: Iterable[CaseRow]) -> Summary:
    """The numbers of ``rows``."""
    known = list(rows)
    errors = [row.error_pct for row in known if row.error_pct is not None]
    inside = [row.in_interval for row in known if row.in_interval is not None]
    refused = len(known) - len(errors)
    absolute = [abs(error) for error in errors]
    return Summary(
        pairs=len(known),
        mean_abs_pct=fmean(absolute + [REFUSED_PCT] * refused) if known else None,
        worst_pct=max(absolute, default=None),
        bias_pct=fmean(errors) if errors else None,
        coverage_pct=100 * fmean(inside) if inside else None,
        refused=refused,
    )


def unprofiled(rows: Iterable[CaseRow]) -> Unprofiled | None:
    """The comparison with unprofiled steps; ``None`` where no case has one."""
    known = [row for row in rows if row.unprofiled_error_pct is not None]
    if not known:
        return None
    errors = _numbers(row.unprofiled_error_pct for row in known)
    corrected = _numbers(row.corrected_error_pct for row in known)
    return Unprofiled(
        pairs=len(known),
        overhead_pct=fmean(_numbers(row.overhead_pct for row in known)),
        mean_abs_pct=fmean(abs(error) for error in errors),
        bias_pct=fmean(errors),
        corrected_pairs=len(corrected),
        corrected_mean_abs_pct=fmean(abs(error) for error in corrected) if corrected else None,
        corrected_bias_pct=fmean(corrected) if corrected else None,
    )


def counted(rows: Iterable[CaseRow]) -> list[CaseRow]:
    """Cases of the sizes that the tool answers; the others are summed apart."""
    return [row for row in rows if not row.apart]


def grouped(rows: Iterable[CaseRow], key: Callable[[CaseRow], str]) -> dict[str, list[CaseRow]]:
    """Rows by ``key``, in order of first appearance; rows without one are left out."""
    groups: dict[str, list[CaseRow]] = {}
    for row in rows:
        if name := key(row):
            groups.setdefault(name, []).append(row)
    return groups


def by_device(rows: Sequence[CaseRow]) -> dict[str, list[CaseRow]]:
    """Rows by the device they were measured on."""
    return grouped(rows, lambda row: row.device)


def _numbers(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
