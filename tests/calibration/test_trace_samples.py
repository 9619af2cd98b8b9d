"""Samples from traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibration.trace_samples import samples_of_trace
from parsers import read
from replay.core.errors import TraceError
from replay.session.calibration import Request, calibrate
from replay.trace import Trace


def trace_of(path: Path) -> Trace:
    found = read([path])
    assert isinstance(found, Trace)
    return found


def test_gemms_and_collectives_of_the_sample(sample: Path) -> None:
    """The gradient sum of the experts: 1.61 GB over two ranks; an exchange of 64 MiB over four."""
    found = samples_of_trace(trace_of(sample))
    ranks = {op: set(found.size("ranks")[found.op.equal(op)]) for op in ("all_to_all", "all_reduce")}
    assert ranks["all_to_all"] == {4.0}
    assert ranks["all_reduce"] >= {2.0, 8.0}
    gemms = found.take(found.op.equal("gemm"))
    assert gemms.dtype.present() == ("bf16",)
    assert np.isfinite(gemms.size("m")).all()


@pytest.mark.shared
def test_gemms_of_an_inference_trace_run_below_the_peak(shared_data: Path) -> None:
    """24 layers of 7 projections each, at no more than H100's 989 TFLOP/s."""
    found = samples_of_trace(trace_of(next((shared_data / "kineto").glob("h100_Qwen*"))))
    assert len(found) == 24 * 7
    flop_per_s = 2e9 * found.size("m") * found.size("n") * found.size("k") / found.time_ns
    assert 3e14 < np.median(flop_per_s) < flop_per_s.max() < 9.89e14


@pytest.mark.shared
def test_a_trace_without_shapes_is_refused_with_what_to_do(shared_data: Path) -> None:
    with pytest.raises(TraceError, match="record_shapes=True"):
        samples_of_trace(trace_of(next((shared_data / "kineto").glob("nccl_parser*"))))


def test_a_broken_log_beside_a_trace_is_named(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text('{"nccl_version": 23007, "results": [{"size": 1')
    found = calibrate([sample, tmp_path / "cut.json"], Request("mine"))
    assert any("cut.json: is cut short" in note for note in found.notes)
