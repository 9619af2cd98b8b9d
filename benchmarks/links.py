"""Errors of the link and exchange cost models on measurements that their fits have not seen.

    python benchmarks/links.py FOLDER

FOLDER holds logs and tables (``shared/data/links``). First the nccl-tests logs: every other message size held out,
64 KiB and more, each collective of a log with its best algorithm, and all rows together. Then ten nodes of eight GPUs
predicted from one node and from ten nodes of one GPU. Then every table and log alone, with all splits. Then sources
that contradict each other. Errors are |predicted / measured - 1| in percent, median and 90th percentile. Nothing fails
here; the numbers are to be read.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from calibration.fit import FitOptions, fit, score
from calibration.groups import groups
from calibration.models import cost_models
from calibration.prediction import predict
from calibration.problem import sizes_of
from calibration.profile import Target
from calibration.run import Calibration, calibrate
from parsers.samples import read_samples
from replay.core.columns import Float64
from replay.core.errors import ReplayError
from replay.cost_model import CostModel, every_other_size
from replay.report.calibration import words
from replay.samples import Samples

LEAST_NBYTES = 65536
LOGS = ("c0*.log", "polaris*")
NOT_SEEN = "*N10_G8.log"
CONTRADICTING = "polaris*all_gather*"


def every_other(paths: Sequence[Path]) -> None:
    """Every other size held out, the best algorithm of each collective of each log; all together at the end."""
    best: dict[tuple[str, ...], tuple[str, Float64]] = {}
    for path in paths:
        samples = read_samples([path])
        for model in cost_models():
            for key, rows in groups(model, samples):
                try:
                    errors = held_out_errors(model, rows)
                except ReplayError:
                    continue
                place = (path.name, *key.values())
                if len(errors) and (place not in best or np.median(errors) < np.median(best[place][1])):
                    best[place] = model.name, errors
    for place, (name, errors) in best.items():
        show(f"{' '.join(place)}: {name}", errors)
    show("all", np.concatenate([errors for _, errors in best.values()]))


def held_out_errors(model: CostModel, rows: Samples) -> Float64:
    """Errors in percent of every other size, from a fit to the others."""
    columns = sizes_of(model, rows)
    held_out = every_other_size("nbytes").held_out(columns)
    result = fit(model, rows.take(~held_out), FitOptions())
    asked = held_out & (columns["nbytes"] >= LEAST_NBYTES)
    predicted = model.predict(result.values, {name: column[asked] for name, column in columns.items()})
    return np.asarray(100.0 * np.abs(predicted / rows.time_ns[asked] - 1.0))


def show(name: str, errors: Float64) -> None:
    """One line: median, 90th percentile, rows."""
    found = score(1.0 + errors / 100.0, np.ones_like(errors))
    print(f"  {name[-96:]:96} {found.median_pct:6.1f} /{found.p90_pct:6.1f}  {found.samples:5d} rows", flush=True)


def composed(seen: Sequence[Path], unseen: Sequence[Path]) -> None:
    """Groups over several nodes from the profile of one node and of one rank a node."""
    profile = calibrate(read_samples(seen), Target("seen", "seen")).profile
    for found in predict(profile, read_samples(unseen))[0]:
        error, grades = found.score, ", ".join(found.grades)
        print(f"  {found.name:30} {error.median_pct:6.1f} /{error.p90_pct:6.1f}  {grades}, {found.formula}", flush=True)


def alone(path: Path) -> None:
    """All splits of one file, the best model of each key."""
    try:
        found: Calibration = calibrate(read_samples([path]), Target("one", "one"))
    except ReplayError as error:
        print(f"{path.name}: {str(error)[:160]}", flush=True)
        return
    print(path.name)
    for fit_ in found.best():
        splits = "  ".join(f"{name} {s.median_pct:.1f}/{s.p90_pct:.1f}" for name, s in fit_.fitted.scores.items())
        print(f"  {words.fit_name(fit_):44} {fit_.fitted.samples:6d} rows  {splits}", flush=True)


def main() -> None:
    """Print all of it."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    print("Every other size of each log held out, 64 KiB and more, best algorithm")
    every_other(sorted(path for pattern in LOGS for path in folder.glob(pattern)))
    print("Ten nodes of eight GPUs, from one node and ten nodes of one GPU")
    unseen = sorted(folder.glob(NOT_SEEN))
    composed([path for path in sorted(folder.glob("c01*.log")) if path not in unseen], unseen)
    print("Each file alone, with its splits")
    for path in sorted(folder.iterdir()):
        alone(path)
    print("Sources that contradict each other")
    both = calibrate(read_samples(sorted(folder.glob(CONTRADICTING))), Target("both", "both"))
    print(*(f"  {line}" for line in words.contradiction_lines(both.best())), sep="\n")


if __name__ == "__main__":
    main()
