"""A validation as a JSON document (schema 1) and as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from replay.report.result import SCHEMA, to_json
from replay.report.validation.summary import by_device, counted, grouped, summarise, unprofiled
from replay.report.validation.types import CaseRow, Validation


def document(found: Validation) -> dict[str, Any]:
    """Every case, and the summary of every device."""
    return {
        "schema": SCHEMA,
        "file": found.file,
        "cases": [case(row) for row in found.rows],
        "summary": {device: _device(rows) for device, rows in by_device(found.rows).items()},
        "warnings": list(found.warnings),
    }


def case(row: CaseRow) -> dict[str, Any]:
    """One case; ``null`` for what is not known."""
    return {
        "name": row.name,
        "device": row.device,
        "change": row.change,
        "predicted_step_ms": row.predicted_step_ms,
        "measured_step_ms": row.measured_step_ms,
        "error_pct": row.error_pct,
        "in_interval": row.in_interval,
        "refused": bool(row.refused),
        "reason": row.refused or None,
        "options": row.options,
        "source": row.source,
        "split": row.split or None,
        "predicted_interval_ms": list(row.interval_ms) if row.interval_ms else None,
        "interval_parts": [asdict(width) for width in row.widths],
        "changed": list(row.changed),
        "spread_pct": row.spread_pct,
        "unprofiled_step_ms": row.unprofiled_step_ms,
        "unprofiled_error_pct": row.unprofiled_error_pct,
        "overhead_pct": row.overhead_pct,
        "source_overhead_pct": row.source_overhead_pct,
        "corrected_error_pct": row.corrected_error_pct,
        "apart": row.apart or None,
        "warnings": list(row.warnings),
    }


def to_csv(found: Validation) -> str:
    """One line a case: the keys of the JSON document that hold one value."""
    rows = [case(row) for row in found.rows]
    for row in rows:
        low, high = row.pop("predicted_interval_ms") or (None, None)
        row |= {"predicted_low_ms": low, "predicted_high_ms": high, "warnings": "; ".join(row["warnings"])}
        del row["interval_parts"], row["changed"]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _device(rows: Sequence[CaseRow]) -> dict[str, Any]:
    """The summary of one device, and its parts by change, split and what is summed apart."""
    joined = counted(rows)
    parts = {
        "by_change": grouped(joined, lambda row: row.change),
        "by_split": grouped(joined, lambda row: row.split),
        "apart": grouped(rows, lambda row: row.apart),
    }
    return {
        **asdict(summarise(joined)),
        "unprofiled": to_json(unprofiled(joined)),
        **{name: _each(groups) for name, groups in parts.items()},
    }


def _each(groups: Mapping[str, Sequence[CaseRow]]) -> dict[str, Any]:
    return {key: asdict(summarise(members)) for key, members in groups.items()}
