"""Engines from profiles: fitted where a table was, datasheet shares where not, and graded so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hwprofiles
from hwprofiles.fitted import Fitted
from hwprofiles.parameter import Parameter
from replay.core.evidence import Grade
from replay.costs.engine import engine_of

MI300X = hwprofiles.load("mi300x")


def fitted(**values: float) -> Fitted:
    parameters = {name: Parameter(value, "1", Grade.FITTED, "a table") for name, value in values.items()}
    return Fitted("gemm", {"op": "gemm", "dtype": "bf16"}, parameters, calibrated={"m": (1.0, 8192.0)})


def test_peaks_alone_give_a_datasheet_engine() -> None:
    known = engine_of(MI300X, "bf16")
    assert known is not None
    assert known.grade is Grade.DATASHEET
    assert known.engine.flop_per_s < MI300X.value("bf16_flop_per_s")
    assert known.grades({"m": np.array([1.0, 2.0])}).tolist() == [Grade.DATASHEET] * 2


def test_a_fit_comes_first_and_knows_its_range() -> None:
    fit = fitted(cores=304, flop_per_s=6e14, bytes_per_s=4e12, l2_bytes_per_s=1e13, cast_ns=0.5)
    known = engine_of(replace(MI300X, fitted=(fit,)), "fp16")
    assert known is not None
    assert (known.engine.flop_per_s, known.engine.cast_ns) == (6e14, 0.0)
    assert known.grades({"m": np.array([64.0, 65536.0])}).tolist() == [Grade.FITTED, Grade.EXTRAPOLATED]


def test_no_peak_no_engine() -> None:
    bare = replace(MI300X, parameters={}, fitted=())
    assert engine_of(bare, "bf16") is None


@pytest.mark.parametrize("name", hwprofiles.names())
def test_a_profile_with_peak_and_bandwidth_gives_positive_rates(name: str) -> None:
    profile = hwprofiles.load(name)
    known = engine_of(profile, "bf16")
    if profile.get("bf16_flop_per_s") is None or profile.get("hbm_bytes_per_s") is None:
        assert known is None
    else:
        assert known is not None
        assert min(known.engine.flop_per_s, known.engine.bytes_per_s, known.engine.l2_bytes_per_s) > 0
