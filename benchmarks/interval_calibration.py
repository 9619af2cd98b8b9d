"""Learn the intervals' calibration from a validation: ``replay validate CASES -o V.json``, then this with V.json.

Cases of ``split = "calibrate"`` are learned from; those of ``split = "report"`` say how well it holds where nothing was
learned. ``--write`` puts the result where the package reads it; what was learned of other devices stays.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from replay.core.errors import FitError
from replay.report.validation.types import CaseRow, Width
from replay.session import interval_calibration
from replay.session.interval_calibration import Calibration
from replay.session.interval_fit import Evidence, fit

LEARNED, REPORTED = "calibrate", "report"
_HEADER = """\
# Widths of 80 % intervals, learned from measured pairs, by device. Written by benchmarks/interval_calibration.py.
schema = 1
"""


def main() -> None:
    """Fit every device, report, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("validations", nargs="+", type=Path, help="files written by replay validate -o V.json")
    parser.add_argument("--write", action="store_true", help="write the file that the package reads")
    options = parser.parse_args()
    documents = [orjson.loads(path.read_bytes()) for path in options.validations]
    rows = [_row(case) for document in documents for case in document["cases"] if not case["refused"]]
    named = ", ".join(document["file"] for document in documents)
    stored = Path(interval_calibration.__file__).with_name(interval_calibration.FILE)
    learned = dict(tomllib.loads(stored.read_text(encoding="utf-8"))["device"])
    for device in dict.fromkeys(row.device for row in rows):
        of_device = [row for row in rows if row.device == device]
        try:
            found = fit(row for row in of_device if row.split == LEARNED)
        except FitError as error:
            print(f"{device}: not learned: {error}")
            continue
        learned[device] = _table(found, of_device, named)
        _report(device, found, of_device)
    text = to_toml(learned)
    print(text)
    if options.write:
        stored.write_text(text, encoding="utf-8")


def _report(device: str, found: Calibration, rows: list[CaseRow]) -> None:
    """Coverage and width with the stated widths and with those found, by split and by what changes."""
    for name, by in (("stated widths", Calibration()), ("calibrated", found)):
        print(f"{device}, {name}:")
        for split in (LEARNED, REPORTED):
            print(f"  {split}: {_holds([row for row in rows if row.split == split], by)}")
        for size in dict.fromkeys("+".join(row.changed) for row in rows):
            print(f"    {size or 'nothing'}: {_holds([row for row in rows if '+'.join(row.changed) == size], by)}")


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


def _table(found: Calibration, rows: list[CaseRow], files: str) -> dict[str, Any]:
    """What is stored of one device, with where it is from."""
    return {
        "cases": found.cases,
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "source": f"{files}, split {LEARNED}",
        "held_out": _holds([row for row in rows if row.split == REPORTED], found),
        "measured": round(found.measured, 3),
        "retiming": round(found.retiming, 3),
        "floor_pct": {key: round(100 * value, 2) for key, value in found.floor.items()},
    }


def to_toml(devices: Mapping[str, Mapping[str, Any]]) -> str:
    """The file that the package reads; the name of a device is any text, so it is quoted."""
    tables = [_HEADER]
    for device, table in devices.items():
        name = f"device.{_text(device)}"
        for head, pairs in ((name, table), (f"{name}.floor_pct", table["floor_pct"])):
            lines = [f"{key} = {_text(value)}" for key, value in pairs.items() if not isinstance(value, Mapping)]
            tables.append("\n".join([f"[{head}]", *lines, ""]))
    return "\n".join(tables)


def _text(value: object) -> str:
    """As TOML, whose texts and numbers are spelled as JSON's."""
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
