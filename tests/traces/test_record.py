"""A real recording of two ranks, where torch is installed."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

ARGUMENTS = "--pp 2 --dp 1 --ep 1 --gbs 2 --layers 2 --experts 2 --steps 1 --profiled-steps 1 --scale 0.2"


def test_two_ranks_are_recorded(tmp_path: Path, root: Path) -> None:
    """Two stages, two micro-batches: both files hold both passes, and run.json the step."""
    pytest.importorskip("torch", reason="records with torch, which is not installed: pip install .[record]")
    command = [sys.executable, "-m", "traces.record", "run", "--out", str(tmp_path), *ARGUMENTS.split()]
    subprocess.run(command, cwd=root, check=True, timeout=120, capture_output=True)
    for rank in range(2):
        trace = json.loads(gzip.decompress((tmp_path / f"rank{rank}.json.gz").read_bytes()))
        names = [event["name"] for event in trace["traceEvents"]]
        assert {"forward microbatch=1 chunk=0", "backward microbatch=1 chunk=0"} <= set(names)
    assert json.loads((tmp_path / "run.json").read_text())["trace_step_ms"] > 0
