"""A comparison as a JSON document (schema 1)."""

from __future__ import annotations

from typing import Any

from replay.core.units import ns_to_ms
from replay.report.diff.types import Difference, Side
from replay.report.result import SCHEMA, to_json


def document(found: Difference) -> dict[str, Any]:
    """``parts_ms`` sums to ``difference_ms``, which is step b less step a."""
    known = {name: to_json(getattr(found, name)) for name in ("ops", "causes", "waits", "critical_path")}
    return {
        "schema": SCHEMA,
        "a": _side(found.a),
        "b": _side(found.b),
        "difference_ms": ns_to_ms(found.difference_ns),
        "parts_ms": {key: ns_to_ms(ns) for key, ns in found.parts_ns.items()},
        "ops": known.pop("ops"),
        "noise_ms": found.noise_ms,
        "parts_rank": found.rank,
        "parts_by_rank_ms": {
            str(rank): {key: ns_to_ms(ns) for key, ns in parts.items()}
            for rank, parts in found.parts_by_rank_ns.items()
        },
        "ranks": list(found.ranks),
        **known,
        "explained_ms": found.explained_ms,
        "within_spread": found.within_spread,
        "only_a": list(found.only_a),
        "only_b": list(found.only_b),
        "notes": list(found.notes),
    }


def _side(side: Side) -> dict[str, Any]:
    """What one side knows, ops aside."""
    return {
        "source": side.source,
        "name": side.name,
        "step_ms": ns_to_ms(side.step_ns),
        "step_used": side.step_used,
        "step_spread_pct": side.spread_pct,
        "interval_ms": [ns_to_ms(ns) for ns in side.interval_ns] if side.interval_ns else None,
        "layout": to_json(side.layout),
        "rank": side.rank,
        "breakdown": {key: ns_to_ms(ns) for key, ns in side.parts_ns.items()},
        **to_json(side.numbers),
        "warnings": list(side.warnings),
    }
