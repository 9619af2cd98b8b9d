"""Learn the intervals' calibration from a validation: ``replay validate CASES -o V.json``, then this with V.json.

Cases of ``split = "calibrate"`` are learned from; those of ``split = "report"`` say how well it holds where nothing was
learned. ``--write`` puts the result where the package reads it.
"""

from __future__ import annotations

import argparse
import datetime as dt
from pathlib import Path
from typing import Any

import orjson

from replay.report.validation.types import CaseRow, Width
from replay.session import interval_calibration
from replay.session.interval_calibration import Calibration
from replay.session.interval_fit import Evidence, fit

LEARNED, REPORTED = "calibrate", "report"


def main() -> None:
    """Fit, report, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("validations", nargs="+", type=Path, help="files written by replay validate -o V.json")
    parser.add_argument("--write", action="store_true", help="write the file that the package reads")
    options = parser.parse_args()
    documents = [orjson.loads(path.read_bytes()) for path in options.validations]
    rows = [_row(case) for document in documents for case in document["cases"] if not case["refused"]]
    found = fit(row for row in rows if row.split == LEARNED)
    text = _toml(found, rows, ", ".join(document["file"] for document in documents))
    print(text)
    for name, by in (("stated widths", Calibration()), ("calibrated", found)):
        print(f"{name}:")
        for split in (LEARNED, REPORTED):
            print(f"  {split}: {_holds([row for row in rows if row.split == split], by)}")
        for size in dict.fromkeys("+".join(row.changed) for row in rows):
            print(f"    {size or 'nothing'}: {_holds([row for row in rows if '+'.join(row.changed) == size], by)}")
    if options.write:
        Path(interval_calibration.__file__).with_name(interval_calibration.FILE).write_text(text, encoding="utf-8")


def _row(case: dict[str, Any]) -> CaseRow:
    return CaseRow(
        name=case["name"],
        device=case["device"],
        change=case["change"],
        source=case["source"],
        split=case["split"] or "",
        measured_step_ms=case["measured_step_ms"],
        predicted_step_ms=case["predicted_step_ms"],
        widths=tuple(Width(**width) for width in case["interval_parts"]),
        changed=tuple(case["changed"]),
    )


def _holds(rows: list[CaseRow], by: Calibration) -> str:
    evidence = Evidence.of(rows)
    if not len(evidence):
        return "no case"
    mean_width = 100 * float(evidence.width(by).mean())
    return f"{len(evidence)} cases, {100 * evidence.coverage(by):.0f} % inside, mean half-width {mean_width:.2f} %"


def _toml(found: Calibration, rows: list[CaseRow], files: str) -> str:
    """The file, with where it is from."""
    devices = ", ".join(dict.fromkeys(row.device for row in rows))
    reported = _holds([row for row in rows if row.split == REPORTED], found)
    lines = [
        "# Widths of 80 % intervals, learned from measured pairs. Written by benchmarks/interval_calibration.py.",
        "schema = 1",
        f"cases = {found.cases}",
        f'date = "{dt.datetime.now(tz=dt.UTC).date().isoformat()}"',
        f'source = "{files}, split {LEARNED}; devices: {devices}"',
        f'held_out = "{reported}"',
        "",
        "[factor]",
        f"measured = {found.measured:.3f}",
        f"retiming = {found.retiming:.3f}",
        "",
        "[floor_pct]",
        *(f"{size} = {100 * value:.2f}" for size, value in found.floor.items()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
