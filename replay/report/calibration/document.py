"""A calibration as a JSON document (schema 1)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from calibration.run import Calibration, Explained
from replay.report.calibration.words import outlier
from replay.report.result import SCHEMA


def document(found: Calibration) -> dict[str, Any]:
    """The profile's fits with errors and scores, refusals and notes."""
    chosen = found.best()
    return {
        "schema": SCHEMA,
        "profile": found.profile.name,
        "title": found.profile.title,
        "devices": list(found.profile.devices),
        "fits": [fit_document(fit) | {"best": fit in chosen} for fit in found.fits],
        "refused": [
            {"model": r.model, "key": dict(r.key), "samples": r.samples, "reason": r.reason} for r in found.refusals
        ],
        "predicted": [asdict(predicted) for predicted in found.predicted],
        "unexplained": dict(found.unexplained),
        "notes": list(found.notes),
    }


def fit_document(fit: Explained) -> dict[str, Any]:
    """One fit: parameters, correlations, scores, ranges, outliers with file and line."""
    result = fit.result
    return {
        "model": result.model.name,
        "key": dict(fit.fitted.key),
        "samples": fit.fitted.samples,
        "sources": list(fit.fitted.sources),
        "parameters": {
            name: {"value": p.value, "unit": p.unit, "stderr": p.stderr, "grade": p.grade.label, "source": p.source}
            for name, p in fit.fitted.parameters.items()
        },
        "correlations": {"names": list(result.names), "matrix": result.correlations.tolist()},
        "calibrated": {name: list(bounds) for name, bounds in fit.fitted.calibrated.items()},
        "scores": {name: asdict(score) for name, score in fit.fitted.scores.items()},
        "learned": {name: asdict(score) for name, score in fit.fitted.learned.items()},
        "residual_scale": result.scale,
        "held": dict(result.held),
        "contradictions": [asdict(run) for run in fit.runs],
        "outliers": [_outlier(fit, int(row)) for row in result.outliers],
        "notes": list(fit.notes),
    }


def _outlier(fit: Explained, row: int) -> dict[str, Any]:
    measured, predicted = outlier(fit, row)
    return {
        "source": fit.samples.source[row],
        "line": int(fit.samples.line[row]),
        "measured_ns": measured,
        "predicted_ns": predicted,
    }
