"""Rows and sentences of a calibration's reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from calibration.disagreement import Run
from calibration.run import Calibration, Explained
from hwprofiles.fitted import Score
from hwprofiles.parameter import Parameter
from replay.core.evidence import Grade
from replay.report.words import counted

FIT_COLUMNS = ("model", "of", "samples", "fit", "random half", "worst extrapolation")
PARAMETER_COLUMNS = ("parameter", "unit", "value", "± standard error")
LEARNED_COLUMNS = ("model", "of", "held out", "without", "with correction")
PREDICTED_COLUMNS = ("samples of", "file", "samples", "error", "measured / predicted", "known as", "by")
OUTLIER_COLUMNS = ("sample", "op", "measured us", "model us", "measured / model")
OUTLIERS = 12
"""Outliers shown of each fit; the JSON document has them all."""

_KNOWN_SPLITS = ("fit", "random half")
_CORRELATED = 0.98


def headline(found: Calibration) -> str:
    """What was made of what."""
    samples = sum(_used(found).values())
    refused = f", {counted(found.refusals, 'refusal')}" if found.refusals else ""
    sources = {name for fit in found.fits for name in fit.fitted.sources}
    files = counted(sorted(sources), "file")
    return f"{found.profile.name}: {counted(found.fits, 'fit')} to {samples:,} samples of {files}{refused}"


def fit_name(fit: Explained) -> str:
    """Model and key: ``gemm gemm bf16``."""
    return " ".join((fit.result.model.name, *filter(None, fit.fitted.key.values())))


def fit_rows(found: Calibration) -> Iterator[tuple[str, ...]]:
    """One row a fit, in percent as median / 90th percentile; a star marks the best of several models."""
    chosen = found.best()
    for fit in found.fits:
        extrapolations = {name: score for name, score in fit.fitted.scores.items() if name not in _KNOWN_SPLITS}
        worst = max(extrapolations.items(), key=lambda item: item[1].median_pct, default=None)
        yield (
            fit.result.model.name + (" *" if fit in chosen and _rivals(found, fit) else ""),
            " ".join(filter(None, fit.fitted.key.values())),
            f"{fit.fitted.samples:,}",
            _score(fit.fitted.scores.get("fit")),
            _score(fit.fitted.scores.get("random half")),
            "-" if worst is None else f"{_score(worst[1])}  {worst[0]}",
        )


def learned_rows(found: Calibration) -> Iterator[tuple[str, ...]]:
    """One row for each split that a learned correction was scored on."""
    for fit in found.fits:
        for name, score in fit.fitted.learned.items():
            of = " ".join(filter(None, fit.fitted.key.values()))
            yield (fit.result.model.name, of, name, _score(fit.fitted.scores[name]), _score(score))


def predicted_rows(found: Calibration) -> Iterator[tuple[str, ...]]:
    """One row for samples of a kind that were predicted, not fitted."""
    for p in found.predicted:
        grades = (
            ", ".join(p.grades) if len(p.grades) == 1 else ", ".join(f"{n} {grade}" for grade, n in p.grades.items())
        )
        yield (p.name, p.source, f"{p.score.samples:,}", _score(p.score), f"{p.ratio:.2f}", grades, p.formula)


def parameter_rows(fit: Explained) -> Iterator[tuple[str, ...]]:
    """One row a parameter; of those not fitted the reason stands where the error would."""
    for name, parameter in fit.fitted.parameters.items():
        yield (name, parameter.unit, f"{parameter.value:.5g}", _error(parameter))


def correlation_lines(fits: Sequence[Explained]) -> Iterator[str]:
    """Pairs of parameters that the samples hardly tell apart."""
    for fit in fits:
        for i, j in zip(*np.where(np.abs(np.triu(fit.result.correlations, 1)) > _CORRELATED), strict=True):
            first, second = fit.result.names[i], fit.result.names[j]
            value = fit.result.correlations[i, j]
            yield f"{fit_name(fit)}: {first} and {second} are hardly told apart (correlation {value:+.3f})"


def outlier_rows(fits: Sequence[Explained], limit: int = OUTLIERS) -> Iterator[tuple[str, ...]]:
    """Samples furthest from their fit, the worst of each first."""
    for fit in fits:
        for row in fit.result.outliers[:limit]:
            measured, predicted = outlier(fit, int(row))
            yield (
                fit.samples.where(int(row)),
                fit_name(fit),
                f"{measured / 1e3:,.4g}",
                f"{predicted / 1e3:,.4g}",
                f"{measured / predicted:.2f}",
            )


def outlier(fit: Explained, row: int) -> tuple[float, float]:
    """Measured and predicted time of a row of the fit's samples, ns."""
    place = int(np.searchsorted(fit.result.rows, row))
    return float(fit.samples.time_ns[row]), float(fit.result.predicted_ns[place])


def contradiction_lines(fits: Sequence[Explained]) -> Iterator[str]:
    """Runs in one fit that contradict each other."""
    for fit in fits:
        if fit.runs:
            runs = "; ".join(map(_run, fit.runs))
            yield (
                f"{fit_name(fit)}: its runs contradict each other: {runs}. Another fabric, library or placement; "
                "calibrate them apart"
            )


def note_lines(found: Calibration) -> Iterator[str]:
    """What was left out of the samples, splits without score, ops that no model explains."""
    yield from found.notes
    for fit in found.best():
        yield from (f"{fit_name(fit)}: {note}" for note in fit.notes)
    for op, number in found.unexplained.items():
        yield f"{number} samples of {op} are explained by no cost model and were not used"


def refusal_lines(found: Calibration) -> Iterator[str]:
    """Why groups of samples could not be fitted."""
    return (f"{' '.join((r.model, *filter(None, r.key.values())))}: {r.reason}" for r in found.refusals)


def _used(found: Calibration) -> dict[tuple[str, ...], int]:
    """Samples by key: models that share a key were fitted to the same ones."""
    return {tuple(fit.fitted.key.values()): fit.fitted.samples for fit in found.fits}


def _run(run: Run) -> str:
    software = f" ({run.software})" if run.software else ""
    errors = f"{run.alone_pct:.0f} % off alone, {run.together_pct:.0f} % with the others"
    return f"{run.name}{software} takes {run.ratio:.2f} of the common model's time, {errors}"


def _rivals(found: Calibration, fit: Explained) -> bool:
    return sum(other.fitted.key == fit.fitted.key for other in found.fits) > 1


def _score(score: Score | None) -> str:
    return "-" if score is None else f"{score.median_pct:.1f} / {score.p90_pct:.1f}"


def _error(parameter: Parameter) -> str:
    if parameter.stderr is not None:
        return f"{parameter.stderr:.2g} ({100 * parameter.stderr / abs(parameter.value):.1f} %)"
    if parameter.grade is Grade.ASSUMED:
        return f"held: {parameter.source.removeprefix('not fitted: ')}"
    return parameter.grade.label
