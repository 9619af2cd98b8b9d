"""``validate``: every case of a file predicted by the code of ``replay run`` and held against its measured step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from replay.core.errors import RefusedError, ReplayError
from replay.layout import Layout
from replay.report.validation.summary import by_device, counted, summarise
from replay.report.validation.types import UNKNOWN_DEVICE, CaseRow, Validation, Width
from replay.session import program_level
from replay.session.interval import Part
from replay.session.prepared import Predicted, Prepared, prepare
from replay.session.types import Progress, no_progress
from replay.session.validation_cases import Case, CaseFile, read_cases


def validate(path: str | Path, progress: Progress = no_progress, *, jobs: int = 1) -> Validation:
    """Predict every case in the file at ``path``. Raises :class:`TraceError` where it is no file of cases."""
    return run_cases(read_cases(Path(path)), progress, jobs=jobs)


def run_cases(file: CaseFile, progress: Progress = no_progress, *, jobs: int = 1) -> Validation:
    """Predict every case; one that is refused, or whose input cannot be read, is a row with the reason.

    What cases of one source share (reading, replaying) is done once; ``jobs`` processes take a source each.
    """
    groups = list(_by_source(file.cases))
    total = len(file.cases)
    rows: dict[str, CaseRow] = {}
    for row in _in_turn(groups, progress, total) if jobs == 1 else _side_by_side(groups, jobs):
        rows[row.name] = row
        progress(f"{len(rows)} of {total} cases done")
    return Validation(file.name, tuple(rows[case.name] for case in file.cases), file.warnings)


def _in_turn(groups: Sequence[list[Case]], progress: Progress, total: int) -> Iterator[CaseRow]:
    done = 0
    for members in groups:
        progress(f"{done} of {total} cases done; reading {_name(members[0])}")
        for row in _of_one_source(members):
            yield row
            done += 1


def _side_by_side(groups: Sequence[list[Case]], jobs: int) -> Iterator[CaseRow]:
    """New processes: threads of the compiled kernels do not survive a fork."""
    with ProcessPoolExecutor(min(jobs, len(groups)), mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_listed, members) for members in groups]):
            yield from done.result()


def _listed(cases: list[Case]) -> list[CaseRow]:
    return list(_of_one_source(cases))


def _by_source(cases: Iterable[Case]) -> Iterator[list[Case]]:
    """Cases with the same files and the same facts about them."""
    groups: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        shared = replace(case.facts, measured_step_ms=None, force=False)  # of the answer, not of the input
        groups.setdefault((case.sources, repr(shared), case.problem), []).append(case)
    yield from groups.values()


def _of_one_source(cases: list[Case]) -> Iterator[CaseRow]:
    first = cases[0]
    prepared: Prepared | None = None
    reason = first.problem
    if not reason:
        try:
            prepared = prepare(first.sources, first.facts)
        except ReplayError as error:
            reason = str(error)
    for case in cases:
        yield replace(_described(case), refused=reason) if prepared is None else _row(case, prepared)


def _row(case: Case, prepared: Prepared) -> CaseRow:
    row = replace(
        _described(case),
        device=case.device or prepared.device or UNKNOWN_DEVICE,
        apart=unanswered(case.question.layout, prepared.layout),
        source_overhead_pct=prepared.overhead_pct,
    )
    try:
        found = prepared.predict(case.question, case.facts)
    except ReplayError as error:
        return replace(row, refused=str(error))
    return _predicted(row, found)


def _described(case: Case) -> CaseRow:
    """Everything that is known before the case is predicted."""
    return CaseRow(
        name=case.name,
        device=case.device or UNKNOWN_DEVICE,
        change=case.kind,
        source=_name(case),
        options=" ".join(case.question.options()),
        split=case.split,
        measured_step_ms=case.measured_step_ms,
        spread_pct=case.spread_pct,
        unprofiled_step_ms=case.unprofiled_step_ms,
        apart=unanswered(case.question.layout),
    )


def unanswered(sizes: Mapping[str, object], source: Layout | None = None) -> str:
    """Sizes that are asked for and that no input answers yet; those that the ``source`` has already are no question."""
    asked = (name for name in program_level.UNANSWERED if name in sizes)
    return ", ".join(name for name in asked if source is None or sizes[name] != getattr(source, name))


def _predicted(row: CaseRow, found: Predicted) -> CaseRow:
    return replace(
        row,
        predicted_step_ms=found.step_ms,
        interval_ms=found.interval_ms,
        widths=tuple(_width(part) for part in found.parts),
        changed=found.changed,
        warnings=found.warnings,
    )


def _width(part: Part) -> Width:
    return Width(part.kind, part.low, part.high)


def _name(case: Case) -> str:
    """Names of the files, without folders: reports are shared."""
    return ", ".join(source.name for source in case.sources)


def require_answers(found: Validation) -> None:
    """Raises :class:`RefusedError` where not one case was answered."""
    if all(row.refused for row in found.rows):
        what = f"{found.file}: every one of {len(found.rows)} cases was refused"
        raise RefusedError(f"{what}; the first because: {found.rows[0].refused}")


def require_below(found: Validation, limit_pct: float) -> None:
    """Raises :class:`ReplayError` naming the devices whose mean |error| is above ``limit_pct``."""
    means = {device: summarise(counted(rows)).mean_abs_pct for device, rows in by_device(found.rows).items()}
    above = [f"{device} {mean:.2f} %" for device, mean in means.items() if mean is not None and mean > limit_pct]
    if above:
        raise ReplayError(f"{found.file}: mean |error| is above {limit_pct:g} %: {', '.join(above)}")
