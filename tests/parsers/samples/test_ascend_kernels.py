"""Matrix products of Ascend's kernel tables as samples, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parsers.samples import find_samples, read_samples
from replay.core.errors import TraceError
from replay.costs.counted_device import counted_device
from tests.report.test_cube import COUNTED, kernel, trace_of


def test_a_product_with_its_elements_and_the_device_that_counters_tell(tmp_path: Path) -> None:
    trace_of(tmp_path, kernel("100,1000;1000,500", "100,500", **COUNTED))
    found = read_samples([tmp_path])
    assert (found.op[0], found.dtype[0], found.software[0], found.variant[0]) == ("gemm", "bf16", "cann", "MatMulV3 ND")
    assert found.time_ns.tolist() == [100_000.0]
    sizes = {name: float(column[0]) for name, column in found.sizes.items()}
    assert sizes == {
        "m": 100, "n": 500, "k": 1000, "batch": 1, "left_nbytes": 2, "right_nbytes": 2, "output_nbytes": 2,
        "scale_block": 0, "cores": 20, "clock_hz": pytest.approx(1.5e9),
    }  # fmt: skip


def test_experts_and_their_weight_gradients(tmp_path: Path) -> None:
    """96 rows over 8 experts, (512, 256) weights; gradients (512, 256) of each expert sum over its 12 rows."""
    trace_of(
        tmp_path, kernel("96,512;8,512,256;8", "96,256", op_type="GroupedMatmul"),
        kernel("96,512;96,256;8", "8,512,256", op_type="GroupedMatmul"),
    )  # fmt: skip
    found = read_samples([tmp_path])
    assert found.op.present() == ("grouped_gemm",)
    sizes = [found.size(name).tolist() for name in ("experts", "m", "n", "k", "backward_weight")]
    assert sizes == [[8, 8], [12, 12], [256, 256], [512, 512], [0, 1]]


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    trace_of(
        tmp_path, kernel("64,64;64,64", "64,64"), kernel("N/A", "N/A"),
        kernel("64,64;64,64", "64,64", op_type="MatmulAllReduce", core="MIX_AIC"),
        kernel("4,4;4,4", "4,4", op_type="Add", core="AI_VECTOR_CORE"),
    )  # fmt: skip
    found = read_samples([tmp_path])
    assert len(found) == 1
    assert any("1 row left out, no shape" in note for note in found.notes)
    assert any("1 row left out, fused with a collective" in note for note in found.notes)


def test_samples_name_their_rows(tmp_path: Path) -> None:
    """Of five rows the first has no time and the third is no product."""
    product = kernel("64,64;64,64", "64,64")
    add = kernel("4,4;4,4", "4,4", op_type="Add", core="AI_VECTOR_CORE")
    trace_of(tmp_path, product | {"Duration(us)": "N/A"}, product, add, product, product)
    assert read_samples([tmp_path]).line.tolist() == [2, 4, 5]


def test_a_table_without_products_says_so(tmp_path: Path) -> None:
    trace_of(tmp_path, kernel("4,4;4,4", "4,4", op_type="Add", core="AI_VECTOR_CORE"))
    with pytest.raises(TraceError, match="no matrix products"):
        read_samples([tmp_path])


def test_a_device_without_a_profile_of_its_cores_starts_from_its_cubes(tmp_path: Path) -> None:
    """10 cores at 1.5 GHz are none of the shipped profiles': 2 · 4096 · 10 · 1.5 GHz."""
    odd = COUNTED | {"cube_utilization(%)": "80"}
    trace_of(tmp_path, kernel("64,64;64,64", "64,64", **odd))
    found = counted_device(read_samples([tmp_path]))
    assert found is not None
    assert found.value("bf16_flop_per_s") == pytest.approx(122.88e12)
    rates = ("bf16_flop_per_s", "tf32_flop_per_s", "fp32_flop_per_s")
    assert [found.parameters[name].grade.label for name in rates] == ["datasheet", "assumed", "assumed"]
    assert found.get("hbm_bytes_per_s") is None


def test_a_device_alike_a_shipped_one_starts_from_it_without_its_name(tmp_path: Path) -> None:
    trace_of(tmp_path, kernel("64,64;64,64", "64,64", **COUNTED))
    found = counted_device(read_samples([tmp_path]))
    assert found is not None
    assert (found.devices, found.value("hbm_bytes_per_s")) == ((), 9.6e11)
    assert "20 cube cores at 1500 MHz" in found.title


def test_the_real_tables(shared_data: Path) -> None:
    """18 FP32 products of eight shapes in the tables of both ranks; the older tables hold none."""
    found = find_samples([shared_data / "ascend"])
    gemms = [part for part in found.parts if part.op.equal("gemm").any()]
    assert [len(part) for part in gemms] == [9, 9]
    assert np.unique(gemms[0].size("cores")).tolist() == [24]
    assert sum("no matrix products" in reason for reason in found.refused) == 2
