"""Record the matrix: every run of :mod:`traces.record.matrix_runs` into a folder of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from traces.record.launcher import record
from traces.record.matrix_runs import RUNS, SCALE, Run
from traces.record.worker import Plan

PLAIN_STEPS = PROFILED_STEPS = 10


def chosen(only: Collection[str]) -> Iterator[Run]:
    """The runs named, or all; raises ValueError for a name that there is none of."""
    names = {run.name for run in RUNS}
    if unknown := set(only) - names:
        raise ValueError(f"no run is called {', '.join(sorted(unknown))}; there are {', '.join(sorted(names))}")
    return (run for run in RUNS if not only or run.name in only)


def record_matrix(out: Path, only: Collection[str], *, resume: bool) -> None:
    """Record the runs into ``out/<name>``; ``resume`` leaves out those that have a ``run.json``.

    Counterfactual runs keep no traces: what they are compared with is a prediction made from their base.
    """
    for run in chosen(only):
        folder = out / run.name
        if resume and (folder / "run.json").exists():
            continue
        command = f"python -m traces.record matrix --out DIR --only {run.name}"
        record(Plan(run.job, folder, PLAIN_STEPS, PROFILED_STEPS, traces=not run.base, scale=SCALE, command=command))
