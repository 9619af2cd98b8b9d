"""Hold-out errors of the compute cost models on tables of measured times.

    python benchmarks/cost_models.py FOLDER [NAME...]

FOLDER holds the tables (``shared/data/gemm``); NAMEs select files by part of their name. For every model, data type
and split: median and 90th percentile of |predicted / measured - 1|, in percent, over rows the fit has not seen; the
last column adds the learned correction, which is always scored apart. Fitted is the number of parameters. Nothing fails
here; the numbers are to be read.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import hwprofiles
from calibration.correction import correction_of
from calibration.fit import FitOptions, fit, score
from calibration.groups import groups
from calibration.holdout import splits
from calibration.models import cost_models
from calibration.problem import sizes_of
from calibration.profile import start_values
from hwprofiles.fitted import Score
from parsers.samples import read_samples
from replay.core.columns import Bool
from replay.core.errors import FitError
from replay.cost_model import CostModel
from replay.costs.correction import factor
from replay.samples import Samples

FILES = {"a100_sxm": "a100-sxm-80gb", "a100_pcie": "a100-sxm-80gb", "vidur_a100": "a100-sxm-80gb",
         "h100": "h100-sxm", "vidur_h100": "h100-sxm", "b200": "b200-sxm"}  # fmt: skip
"""Profile that start values come from, by the beginning of a file's name."""


def held_out_scores(model: CostModel, rows: Samples, held_out: Bool, options: FitOptions) -> tuple[int, list[Score]]:
    """Number of fitted parameters, and the scores without and (of many GEMMs) with the learned correction."""
    kept, rest = rows.take(~held_out), rows.take(held_out)
    result = fit(model, kept, options)
    seen, unseen = (model.prepared(sizes_of(model, part)) for part in (kept, rest))
    predicted = np.asarray(model.predict(result.values, unseen))
    found = [score(predicted, rest.time_ns)]
    correction = correction_of(model, result.values, seen, kept.time_ns)
    if correction is not None:
        found.append(score(predicted * factor(correction, unseen), rest.time_ns))
    return len(result.names), found


def report(path: Path) -> None:
    """The table of one file."""
    samples = read_samples([path])
    base = next((hwprofiles.load(name) for start, name in FILES.items() if path.name.startswith(start)), None)
    for model in cost_models():
        for key, rows in groups(model, samples):
            options = FitOptions(start=start_values(model, base, key.get("dtype", "")))
            for name, held_out in splits(model, rows, seed=0).items():
                line = f"{path.name[:28]:28} {' '.join(filter(None, key.values()))[:40]:40} {name[:32]:32}"
                try:
                    fitted, found = held_out_scores(model, rows, held_out, options)
                except FitError as error:
                    print(f"{line} {len(rows):6d} {error}", flush=True)
                    continue
                shown = "".join(f"{s.median_pct:7.1f} /{s.p90_pct:5.1f}" for s in found)
                print(f"{line} {len(rows):6d} {fitted:6d} {shown}", flush=True)


def main() -> None:
    """Print all tables."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print(f"{'file':28} {'model, data type':40} {'held out':32} {'rows':>6} {'fitted':>6}  median / p90    learned")
    for path in sorted(Path(sys.argv[1]).iterdir()):
        if all(part in path.name for part in sys.argv[2:]):
            report(path)


if __name__ == "__main__":
    main()
