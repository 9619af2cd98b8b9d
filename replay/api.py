"""The names a notebook user needs; the command line uses nothing else.

``answer`` is the whole job in one call. Its parts are here too: ``read`` files into a ``Trace``, ``build`` its step as
a ``Graph``, ``simulate`` it into a ``Timeline``, ``lift`` it to labelled ops, edit it with ``scale_ops`` and
``scale_links``. Every frozen type has ``to_frame()``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from calibration.run import Calibration
from hwprofiles import HardwareProfile
from hwprofiles import load as load_profile
from hwprofiles import names as profiles
from parsers import ReadOptions, read
from parsers.samples import read_samples
from replay.graph.build import BuildOptions, build
from replay.program.label import label as lift
from replay.report.breakdown import breakdown
from replay.report.calibration.text import render as render_calibration
from replay.report.critical_path import critical_path
from replay.report.diff.text import render as render_diff
from replay.report.diff.types import Difference
from replay.report.profiles import compare_profiles, render_profile, render_profiles
from replay.report.result import Inspection, Measured, RunResult, to_json_bytes
from replay.report.text import render_inspection, render_run
from replay.report.validation.text import render as render_validation
from replay.report.validation.types import CaseRow, Validation
from replay.runlog import RunLog, steady_step
from replay.session.answer import Answer, Progress, answer, no_progress
from replay.session.calibration import Request as calibration_request  # noqa: N813 - the words of the command line
from replay.session.calibration import calibrate, write_profile
from replay.session.calibration import to_bytes as calibration_to_bytes
from replay.session.calibration import write_report as write_calibration_report
from replay.session.difference import diff
from replay.session.difference import to_bytes as diff_to_bytes
from replay.session.difference import write as write_diff
from replay.session.inspection import inspect
from replay.session.question import LAYOUT_KEYS, Facts, Question, parse_layout
from replay.session.validation import require_answers, require_below, validate
from replay.session.validation_live import validate_live
from replay.session.validation_write import to_bytes as validation_to_bytes
from replay.session.validation_write import write as write_validation
from replay.session.write import write
from replay.simulate.engine import simulate
from replay.whatif.link import apply as scale_links
from replay.whatif.scale import apply as scale_ops
from replay.whatif.sensitivity import sensitivities

__all__ = [
    "Answer",
    "BuildOptions",
    "Calibration",
    "CaseRow",
    "Difference",
    "Facts",
    "HardwareProfile",
    "Inspection",
    "Progress",
    "Question",
    "ReadOptions",
    "RunLog",
    "RunResult",
    "Validation",
    "answer",
    "ask",
    "breakdown",
    "build",
    "calibrate",
    "calibration_request",
    "calibration_to_json",
    "compare_profiles",
    "critical_path",
    "diff",
    "diff_to_json",
    "facts",
    "inspect",
    "lift",
    "load_profile",
    "no_progress",
    "profiles",
    "read",
    "read_samples",
    "render",
    "render_calibration",
    "render_diff",
    "render_profile",
    "render_profiles",
    "render_validation",
    "require_answers",
    "require_below",
    "run",
    "scale_links",
    "scale_ops",
    "sensitivities",
    "simulate",
    "steady_step",
    "to_json",
    "validate",
    "validate_live",
    "validation_to_json",
    "write",
    "write_calibration_report",
    "write_diff",
    "write_profile",
    "write_validation",
]


def ask(**options: Any) -> Question:
    """A question in the words of the command line: ``ask(ep=8, vpp=2)``, ``ask(scale=(("*gemm*", 0.8),))``."""
    layout = {key: options.pop(key) for key in LAYOUT_KEYS if key in options}
    return Question(layout=layout, **options)


def facts(*, source: str = "", measured_step: float | None = None, **known: Any) -> Facts:
    """Facts about the input in the words of the command line; ``source`` is the text of ``--from``."""
    return Facts(layout=parse_layout(source), measured_step_ms=measured_step, **known)


def run(sources: Sequence[str | Path], **options: Any) -> RunResult:
    """Replay ``sources`` and answer a question about them in one call: ``run(["trace.json"], ep=8)``."""
    return answer([Path(source) for source in sources], ask(**options), Facts()).result


def to_json(result: Measured) -> str:
    """The JSON document of a run or an inspection."""
    return to_json_bytes(result).decode()


def diff_to_json(found: Difference) -> str:
    """The JSON document of a comparison."""
    return diff_to_bytes(found).decode()


def validation_to_json(found: Validation) -> str:
    """The JSON document of a validation."""
    return validation_to_bytes(found).decode()


def render(result: Measured, out: TextIO, *, explain: bool = False, quiet: bool = False) -> None:
    """The terminal report of a run or an inspection."""
    if isinstance(result, RunResult):
        render_run(result, out, explain=explain, quiet=quiet)
    elif isinstance(result, Inspection):
        render_inspection(result, out, quiet=quiet)


def calibration_to_json(found: Calibration) -> str:
    """The JSON document of a calibration."""
    return calibration_to_bytes(found).decode()
