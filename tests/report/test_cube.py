"""Cube analysis by hand: a device of 20 cores at 1500 MHz (2 · 4096 · 20 · 1.5 GHz = 245.76 TFLOP/s in BF16)."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console, Group

import hwprofiles
import parsers
from replay import api
from replay.report.cube import CubeFacts, GemmRow, cube_facts
from replay.report.cube_text import cube_tables, shape
from replay.trace import Trace

COLUMNS = (
    "Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Dim", "HF32 Eligible",
    "Input Shapes", "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats",
    "aicore_time(us)", "aic_total_cycles", "aic_mac_ratio", "cube_utilization(%)",
)  # fmt: skip
COUNTED = {"Block Dim": "10", "aicore_time(us)": "80", "aic_total_cycles": "1200000", "aic_mac_ratio": "0.5",
           "cube_utilization(%)": "40"}  # fmt: skip
"""80 of 100 us on 10 of 20 cores: 80 · 10 / (100 · 20) = 40 %; 80 us · 10 cores · 1500 MHz = 1.2 million cycles."""


def kernel(
    inputs: str, output: str, *, op_type: str = "MatMulV3", core: str = "AI_CORE", **cells: str
) -> dict[str, str]:
    """A row of 100 us of BF16 in ND."""
    tensors = inputs.count(";") + 1
    return {
        "Name": "aclnnMatmul", "Type": op_type, "Accelerator Core": core, "Duration(us)": "100.0",
        "Input Shapes": inputs, "Input Data Types": ";".join(["DT_BF16"] * tensors), "Output Data Types": "DT_BF16",
        "Input Formats": ";".join(["ND"] * tensors), "Output Shapes": output, "Output Formats": "ND",
    } | cells  # fmt: skip


def trace_of(folder: Path, *rows: dict[str, str]) -> Trace:
    """A folder with nothing but a kernel table."""
    lines = [",".join(COLUMNS)]
    for at, row in enumerate(rows):
        cells = {"Start Time(us)": f"{1717575960213000 + 200 * at}.000\t"} | row
        lines.append(",".join(f'"{cells.get(name, "N/A")}"' for name in COLUMNS))
    (folder / "kernel_details.csv").write_text("\n".join(lines))
    found = parsers.read([folder])
    assert isinstance(found, Trace)
    return found


def facts_of(folder: Path, *rows: dict[str, str]) -> tuple[tuple[GemmRow, ...], CubeFacts]:
    """The analysis of a folder with these kernels."""
    found = cube_facts(trace_of(folder, *rows))
    assert found is not None
    return found


def test_the_device_is_told_by_its_counters(tmp_path: Path) -> None:
    _, facts = facts_of(tmp_path, kernel("100,1000;1000,500", "100,500", **COUNTED))
    assert (facts.device.cores, facts.device.clock_mhz, facts.device.profile) == (20, 1500.0, "ascend-910b4")
    assert "20 cube cores at 1500 MHz" in facts.device.sentence


def test_a_shape_against_peak_blocks_cores_and_counters(tmp_path: Path) -> None:
    """2 · 100 · 500 · 1000 FLOP in 100 us; the cubes do 112 x 512 x 1008, 10 of 20 cores, half of 40 %."""
    (row,), _ = facts_of(tmp_path, kernel("100,1000;1000,500", "100,500", **COUNTED))
    assert (row.m, row.n, row.k, row.dtype, row.calls) == (100, 500, 1000, "bf16", 1)
    assert row.tflops == pytest.approx(1.0)
    assert row.peak_share_pct == pytest.approx(100 / 245.76)
    assert row.block_waste_pct == pytest.approx(100 * (1 - 100 * 500 * 1000 / (112 * 512 * 1008)))
    assert (row.blocks, row.idle_core_pct, row.cube_utilization_pct, row.mac_ratio_pct) == (10, 50.0, 40.0, 50.0)
    assert row.measured_mac_pct == pytest.approx(20.0)


def test_alignment_of_each_axis(tmp_path: Path) -> None:
    """Rows of k = 1000 elements are 2000 B, of n = 500 elements 1000 B; nothing runs along m. 100 fills no blocks."""
    (row,), _ = facts_of(tmp_path, kernel("100,1024;1024,500", "100,500", **COUNTED))
    assert {a.axis: (a.size, a.fills_blocks, a.aligned_nbytes) for a in row.axes} == {
        "m": (100, False, None), "n": (500, False, 0), "k": (1024, True, 512),
    }  # fmt: skip


def test_axes_of_tensors_without_a_type_are_not_judged(tmp_path: Path) -> None:
    """Elements may be of one byte or of four: two were taken for granted."""
    untold = {"Input Data Types": "N/A", "Output Data Types": "N/A"}
    (row,), _ = facts_of(tmp_path, kernel("100,1024;1024,500", "100,500", **COUNTED | untold))
    assert (row.dtype, {(a.fills_blocks, a.aligned_nbytes) for a in row.axes}) == ("", {(None, None)})


def test_the_model_tells_tiles_and_waves(tmp_path: Path) -> None:
    """8192³: 64 x 32 tiles of 128 x 256 (or 256 x 128) on 20 cores are 103 waves, the last with 8 tiles."""
    (row,), _ = facts_of(tmp_path, kernel("8192,8192;8192,8192", "8192,8192", **COUNTED))
    assert row.model is not None
    assert (sorted(row.model.tile), row.model.tiles, row.model.waves) == ([128, 256], 2048, 103)
    assert row.model.wave_waste_pct == pytest.approx(100 * (1 - 2048 / 2060))
    assert row.model.mac_pct == pytest.approx(100 * 2 * 8192**3 / 245.76e12 / (row.model.time_us / 1e6))
    assert row.measured_mac_pct == pytest.approx(20.0)


def test_a_size_that_fills_no_block_is_named_with_what_a_better_one_gains(tmp_path: Path) -> None:
    """Weights of 8200 columns: rows of 16,400 B move 16,896; 8192 would move 16,384 for as many FLOPs each."""
    (row,), facts = facts_of(tmp_path, kernel("16,8192;8192,8200", "16,8200", **COUNTED))
    better = {a.axis: a.nearest for a in row.axes}["n"]
    assert better is not None
    assert better % 256 == 0
    assert [(size.size, size.axes) for size in facts.sizes if size.size == 8200] == [(8200, "n of 1")]
    assert all(size.gain_pct >= 1.0 for size in facts.sizes)


def test_hf32_and_fp32_run_at_a_half_and_a_quarter_of_the_rate(tmp_path: Path) -> None:
    floats = {"Input Data Types": "FLOAT;FLOAT", "Output Data Types": "FLOAT", **COUNTED}
    rows, _ = facts_of(
        tmp_path, *(kernel("64,64;64,64", "64,64", **floats, **{"HF32 Eligible": word}) for word in ("YES", "NO"))
    )
    assert sorted((row.dtype, round(row.tflops / (row.peak_share_pct or 1) * 100, 2)) for row in rows) == [
        ("fp32", 61.44), ("tf32", 122.88),
    ]  # fmt: skip


def test_experts_fill_their_blocks_one_by_one(tmp_path: Path) -> None:
    """96 rows over 8 experts: 12 each, filled up to 16."""
    (row,), _ = facts_of(tmp_path, kernel("96,512;8,512,256;8", "96,256", op_type="GroupedMatmul", **COUNTED))
    assert (row.experts, shape(row)) == (8, "96x256x512/8")
    assert row.block_waste_pct == pytest.approx(25.0)


def test_kernels_without_a_shape_are_counted(tmp_path: Path) -> None:
    rows, facts = facts_of(
        tmp_path, kernel("N/A", "N/A"), kernel("-1,64;64,64", "-1,64"), kernel("", ""), kernel("64,64;64,64", "64,64")
    )
    assert (len(rows), facts.without_shape_calls) == (1, 3)
    assert facts.without_shape_ms == pytest.approx(0.3)
    assert rows[0].share_pct == pytest.approx(25.0)


def test_without_counters_the_device_is_not_known_and_nothing_is_made_up(tmp_path: Path) -> None:
    (row,), facts = facts_of(tmp_path, kernel("64,64;64,64", "64,64", **{"Block Dim": "16"}))
    assert (facts.device.cores, facts.device.profile, row.peak_share_pct, row.model) == (None, None, None, None)
    assert "up to 16 cores" in facts.device.sentence
    assert row.block_waste_pct == 0.0


def test_a_named_profile_that_contradicts_the_counters_is_questioned(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, kernel("64,64;64,64", "64,64", **COUNTED))
    found = cube_facts(trace, hwprofiles.load("ascend-910b2"))
    assert found is not None
    assert "24 cores, not 20" in found[1].device.sentence


def test_cores_without_their_number_leave_the_shares_open(tmp_path: Path) -> None:
    """How many cores a kernel was spread over is part of both: nothing is said of it, rather than one core."""
    (row,), _ = facts_of(
        tmp_path,
        kernel("64,64;64,64", "64,64", **COUNTED),
        kernel("64,64;64,64", "64,64", **COUNTED | {"Block Dim": ""}),
    )
    assert (row.calls, row.blocks) == (2, 10)
    assert row.measured_mac_pct == pytest.approx(20.0)  # of the kernel whose cores are known


def test_a_gpu_named_as_the_device_gives_no_cube_model(tmp_path: Path) -> None:
    found = cube_facts(trace_of(tmp_path, kernel("64,64;64,64", "64,64")), hwprofiles.load("h100-sxm"))
    assert found is not None
    assert found[0][0].model is None


def test_zero_durations_and_counters_break_nothing(tmp_path: Path) -> None:
    zero = {"Duration(us)": "0", "aicore_time(us)": "0", "aic_total_cycles": "0", "cube_utilization(%)": "0"}
    rows, facts = facts_of(tmp_path, kernel("64,64;64,64", "64,64", **COUNTED | zero))
    assert (rows, facts.without_shape_calls, facts.device.cores) == ((), 1, None)


def test_a_trace_without_a_kernel_table_has_no_analysis(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, kernel("64,64;64,64", "64,64"))
    assert cube_facts(replace(trace, details=None)) is None
    assert cube_facts(trace_of(tmp_path, kernel("4,4;4,4", "4,4", op_type="Add", core="AI_VECTOR_CORE"))) is None


def test_the_real_profile_is_of_24_cores_at_1800_mhz(shared_data: Path) -> None:
    """Matrix products of AlexNet's classifier in FP32, batch 32, on both ranks: 18 kernels of eight shapes."""
    trace = parsers.read([shared_data / "ascend" / "torch_npu_level1"])
    assert isinstance(trace, Trace)
    found = cube_facts(trace)
    assert found is not None
    rows, facts = found
    assert (facts.device.cores, round(facts.device.clock_mhz or 0), facts.without_shape_calls) == (24, 1800, 0)
    assert (len(rows), sum(row.calls for row in rows)) == (8, 18)
    longest = rows[0]
    assert (longest.m, longest.n, longest.k, longest.blocks) == (32, 4096, 9216, 16)
    assert longest.tflops == pytest.approx(2 * 2 * 32 * 4096 * 9216 / ((346.567 + 357.367) * 1e6))


def test_tables_say_what_they_leave_out(tmp_path: Path) -> None:
    """Fourteen shapes, of which twelve are shown; every modelled time has its grade beside it."""
    rows, facts = facts_of(tmp_path, *(kernel(f"{16 * n},64;64,64", f"{16 * n},64", **COUNTED) for n in range(1, 15)))
    out = StringIO()
    Console(file=out, width=120).print(Group(*cube_tables(rows, facts)))
    measured, model = out.getvalue().split("Matrix products by the cost model")
    assert [part.count("x64x64") for part in (measured, model)] == [12, 12]
    assert [part.count("2 more in --json") for part in (measured, model)] == [1, 1]
    assert model.splitlines()[2].endswith(" datasheet")


def test_kernels_that_tell_no_shape_leave_no_empty_table(tmp_path: Path) -> None:
    rows, facts = facts_of(tmp_path, kernel("N/A", "N/A"))
    out = StringIO()
    Console(file=out, width=120).print(Group(*cube_tables(rows, facts)))
    assert "1 kernels, 0.100 ms, tell no shape" in out.getvalue()
    assert "TFLOP/s" not in out.getvalue()


def test_matrix_products_are_part_of_an_inspection(shared_data: Path) -> None:
    """`replay inspect --json`: ascend.gemm and ascend.cube, all numbers finite or null."""
    found = api.inspect([shared_data / "ascend" / "torch_npu_level1" / "rank0_ascend_pt"], api.facts())
    document = json.loads(api.to_json(found))
    assert [row["calls"] for row in document["ascend"]["gemm"]] == [1, 1, 2, 1, 1, 1, 1, 1]
    device = document["ascend"]["cube"]["device"]
    assert (device["cores"], device["profile"], device["alike"]) == (
        24,
        "ascend-910b2",
        ["ascend-910b2", "ascend-910b2c"],
    )
    assert "as ascend-910b2c does too" in device["sentence"]


def test_shapes_are_told_by_tables_alone(shared_data: Path) -> None:
    """Older tables without a timeline: no product in them, so no analysis."""
    found = api.inspect([shared_data / "ascend" / "older"], api.facts())
    assert json.loads(api.to_json(found))["ascend"]["cube"] is None
