"""``validate --live``: both runs of a case are recorded here and now, then one is predicted from the other."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import replay
from parsers import run_description
from replay.core.errors import RefusedError, ReplayError
from replay.core.units import NS_PER_MS
from replay.report.validation.types import Validation
from replay.session.interval import spread_pct
from replay.session.types import Progress, no_progress
from replay.session.validation import run_cases
from replay.session.validation_cases import LIVE, Case, CaseFile, read_cases

RECORDER = "traces.record"
LIMIT_S = 900  # a recorder that hangs, for example in a rendezvous, must not hang the check


def validate_live(path: str | Path, progress: Progress = no_progress) -> Validation:
    """Record and predict the cases in ``path`` that say how; each recording is made once, and removed afterwards.

    Raises :class:`RefusedError` where no case says how, or the recorder or PyTorch is not here.
    """
    file = read_cases(Path(path))
    chosen = [case for case in file.cases if case.live]
    if not chosen:
        raise RefusedError(f"{file.name}: --live: no case has {' and '.join(LIVE)}, the recorder's words for both runs")
    checkout = _checkout()
    with TemporaryDirectory(prefix="replay-live-") as folder:
        recorded = _Recordings(checkout, Path(folder))
        cases = tuple(_recorded(case, recorded, progress) for case in chosen)
        left = len(file.cases) - len(chosen)
        warnings = (f"{left} cases do not say how they were recorded and are left out",) if left else ()
        return run_cases(CaseFile(file.name, cases, (*file.warnings, *warnings)), progress)


def _checkout() -> Path:
    """The folder that the recorder runs in."""
    root = Path(replay.__file__).resolve().parents[1]
    if not root.joinpath(*RECORDER.split("."), "__main__.py").is_file():
        raise RefusedError(
            "--live: the recorder is not installed with the package; run from a checkout (pip install -e .)"
        )
    if find_spec("torch") is None:
        raise RefusedError("--live: the recorder needs PyTorch; install it with: pip install torch")
    return root


class _Recordings:
    """Folders by the recorder's words, each recorded, or found to fail, when it is first asked for."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self._checkout = checkout
        self._folder = folder
        self._made: dict[str, Path | RefusedError] = {}

    def folder(self, words: str, progress: Progress) -> Path:
        """The recording that ``words`` describe. Raises :class:`RefusedError` with the recorder's last line."""
        if words not in self._made:
            out = self._folder / str(len(self._made))
            progress(f"recording: {words}")
            try:
                self._record([*shlex.split(words), "--out", str(out)], words)
                self._made[words] = out
            except RefusedError as error:
                self._made[words] = error
        made = self._made[words]
        if isinstance(made, RefusedError):
            raise made
        return made

    def _record(self, words: Sequence[str], shown: str) -> None:
        command = [sys.executable, "-m", RECORDER, *words]
        try:
            done = subprocess.run(
                command, cwd=self._checkout, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise RefusedError(f"--live: {shown}: not recorded within {LIMIT_S} s") from None
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise RefusedError(f"--live: {shown}: the recorder failed: {last}")


def _recorded(case: Case, recordings: _Recordings, progress: Progress) -> Case:
    """``case`` with the fresh recording as its source and the fresh step as its measurement."""
    assert case.live is not None
    try:
        source, target = (recordings.folder(words, progress) for words in case.live)
        described = run_description.find([target])
        if not described.steps_ms:
            raise RefusedError(f"--live: {case.live[1]}: the recorder timed no profiled step")
    except ReplayError as error:
        return replace(case, problem=str(error))
    unprofiled = described.unprofiled_steps_ms
    return replace(
        case,
        sources=(source,),
        measured_step_ms=median(described.steps_ms),
        unprofiled_step_ms=median(unprofiled) if unprofiled else None,
        spread_pct=spread_pct([round(step * NS_PER_MS) for step in described.steps_ms]),
        problem="",
    )
