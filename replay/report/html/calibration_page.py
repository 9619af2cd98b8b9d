"""The HTML report of a calibration."""

from __future__ import annotations

from collections.abc import Iterator

from calibration.run import Calibration, Explained
from replay.report.calibration import words
from replay.report.html.fit_plots import measured_against_model, residuals
from replay.report.html.page import Page, Section, Table, render


def page(found: Calibration) -> str:
    """One file that works offline."""
    best = found.best()
    sections = (
        Section(
            "Fits",
            ("Errors in %, median / 90th percentile, of samples fitted and held out; * the best of several models.",),
            table=Table(words.FIT_COLUMNS, tuple(words.fit_rows(found)), left=2),
        ),
        Section(
            "Learned corrections",
            ("Errors in %, median / 90th percentile, of samples held out.",),
            table=Table(words.LEARNED_COLUMNS, tuple(words.learned_rows(found)), left=3),
        ),
        Section(
            "Predicted from the profile, not fitted",
            ("Errors in %, median / 90th percentile.",),
            table=Table(words.PREDICTED_COLUMNS, tuple(words.predicted_rows(found)), left=2),
        ),
        *(_fit(fit) for fit in best),
        Section("Samples furthest from the model",
                table=Table(words.OUTLIER_COLUMNS, tuple(words.outlier_rows(best)), left=2)),
        Section("Contradictions", lines=tuple(words.contradiction_lines(best))),
        Section("Correlations", lines=tuple(words.correlation_lines(best))),
        Section("Refused", lines=tuple(words.refusal_lines(found))),
        Section("Notes", lines=tuple(words.note_lines(found))),
    )  # fmt: skip
    return render(Page("Calibration", words.headline(found), tuple(_facts(found)), sections))


def _fit(fit: Explained) -> Section:
    notes = ("On the dashed lines measurement and model agree; outliers are orange. Hover for file and line.",)
    table = Table(words.PARAMETER_COLUMNS, tuple(words.parameter_rows(fit)), left=2)
    return Section(words.fit_name(fit), notes, (measured_against_model(fit), residuals(fit)), table)


def _facts(found: Calibration) -> Iterator[str]:
    if found.profile.devices:
        yield f"devices: {', '.join(found.profile.devices)}"
    yield f"samples of {', '.join(sorted({name for fit in found.fits for name in fit.fitted.sources}))}"
