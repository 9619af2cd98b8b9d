"""Calibrated intervals: they hold 80 % of cases that they were not learned from."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.interval_calibration import to_toml
from replay.core.errors import FitError
from replay.layout import Layout
from replay.report.validation.types import CaseRow, Width
from replay.session.interval import Z80, Part
from replay.session.interval_calibration import Calibration, changed_sizes, device_of, load
from replay.session.interval_fit import Evidence, fit
from replay.session.question import Question
from replay.trace import Lane

TRUTH = Calibration(measured=0.5, retiming=0.2, floor={"ep": 0.02, "pp": 0.004}, cases=1)


def drawn(count: int, seed: int, truth: Calibration = TRUTH) -> list[CaseRow]:
    """Cases whose errors are normal, with the widths of ``truth`` as their 80 % half-widths."""
    random = np.random.default_rng(seed)
    rows = []
    for at in range(count):
        measured, retiming = random.uniform(0.005, 0.03), random.uniform(0.02, 0.1)
        changed = (("ep",), ("pp",), ("ep", "pp"))[at % 3]
        widths = (Width("replay", measured, measured), Width("retiming", retiming, retiming))
        row = CaseRow(str(at), "a100", "+".join(changed), "run", predicted_step_ms=1000.0, measured_step_ms=1000.0,
                      widths=widths, changed=changed)  # fmt: skip
        width = float(Evidence.of([row]).width(truth)[0])
        rows.append(_measured(row, 1000 * (1 + random.normal() * width / Z80)))
    return rows


def _measured(row: CaseRow, step_ms: float) -> CaseRow:
    return CaseRow(row.name, row.device, row.change, row.source, predicted_step_ms=row.predicted_step_ms,
                   measured_step_ms=step_ms, widths=row.widths, changed=row.changed)  # fmt: skip


def test_80_percent_of_unseen_cases_are_inside() -> None:
    """Over many draws of 45 cases to learn from; stated widths would hold nearly all."""
    unseen = Evidence.of(drawn(2000, seed=10_000))
    held = [unseen.coverage(fit(drawn(45, seed))) for seed in range(12)]
    assert np.mean(held) == pytest.approx(0.8, abs=0.05)
    assert 0.68 <= min(held) <= max(held) <= 0.93
    assert unseen.coverage(Calibration()) > 0.95


def test_widths_that_are_too_narrow_become_wider() -> None:
    """The model's own error is larger than what the input shows."""
    truth = Calibration(measured=1.5, retiming=0.5, floor={"ep": 0.15, "pp": 0.1}, cases=1)
    unseen = Evidence.of(drawn(2000, 7, truth))
    assert unseen.coverage(Calibration()) < 0.6
    assert unseen.coverage(fit(drawn(60, 8, truth))) == pytest.approx(0.8, abs=0.1)


def test_few_cases_leave_the_stated_rule_nearly_as_it_is() -> None:
    """Five cases without any error ask for the least factor, 0.05, and weigh five against eight."""
    rows = [_measured(row, 1000.0) for row in drawn(5, 1)]
    assert fit(rows).measured == fit(rows).retiming == pytest.approx(0.05 ** (5 / 13))
    with pytest.raises(FitError, match="at least 5"):
        fit(rows[:4])


def test_calibrated_parts_add_up() -> None:
    """Brackets x 0.2, the others x 0.5, and the floors of what changes in quadrature."""
    parts = (Part(0.02, 0.04, "spread", "spread"), Part(0.1, 0.2, "brackets", "retiming"))
    spread, brackets, model = TRUTH.apply(parts, ("ep", "pp", "gbs"))
    assert (spread.low, spread.high) == (0.01, 0.02)
    assert (brackets.low, brackets.high) == pytest.approx((0.02, 0.04))
    assert model.high == pytest.approx((0.02**2 + 0.004**2) ** 0.5)
    assert "change of ep, pp" in model.basis
    assert Calibration().apply(parts, ("ep",)) == parts


def test_what_follows_from_a_change_is_no_change() -> None:
    """dp and micro-batches follow from pp, the schedule from vpp."""
    source = Layout(pp=2, dp=4, world_size=8, gbs=8, mbs=1, microbatches=2, schedule="1f1b")
    target = source.change(pp=4, vpp=2)
    assert changed_sizes(source, target, Question({"pp": 4, "vpp": 2}, experts="balanced")) == ("pp", "vpp", "experts")
    assert changed_sizes(source, source.change(schedule="gpipe"), Question()) == ("schedule",)


def test_the_installed_calibration_is_read() -> None:
    """Factors above 0, floors of sizes that can change; a device without cases keeps the stated widths."""
    found = load("emulated")
    assert load("another device") == Calibration()
    assert found.measured > 0
    assert found.retiming > 0
    assert all(value >= 0 for value in found.floor.values())


def test_a_calibration_is_written_under_any_name_of_a_device() -> None:
    """Profilers write names with spaces, and anything may stand in a file's."""
    learned = {"cases": 7, "source": 'a "b".toml', "measured": 0.5, "floor_pct": {"ep": 1.25}}
    devices = {"NVIDIA A100-SXM4-40GB": learned, "cpu": learned}
    assert tomllib.loads(to_toml(devices)) == {"schema": 1, "device": devices}


def test_operators_without_a_device_are_the_cpus() -> None:
    """Threads and Gloo's streams belong to no device (ordinals below 0)."""
    for devices, expected in (((-1, -2), "cpu"), ((-1, 0), "")):
        trace = SimpleNamespace(
            device="", lanes=tuple(Lane(0, device < -1, "lane", device=device) for device in devices)
        )
        assert device_of(trace) == expected  # type: ignore[arg-type] - it has all that is read
