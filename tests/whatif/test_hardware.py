"""``--hardware``: every class of ops by what limits it, with the grades and doubts that go with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwprofiles import HardwareProfile, Parameter
from replay.core.errors import RefusedError
from replay.core.evidence import Grade
from replay.graph.types import OpKind
from replay.program.op_class import OpClass, op_classes
from replay.trace import CollectiveKind, CoreCounters, EventKind, Group, KernelDetails
from replay.whatif.hardware import Devices, _moved, retime
from tests.program.events import HOST, Row, graph_of, launched, trace_of
from tests.synthetic import Comm, Op
from tests.synthetic import graph_of as synthetic_graph


def profile(name: str, **values: float) -> HardwareProfile:
    parameters = {key: Parameter(value, "", Grade.DATASHEET, "test") for key, value in values.items()}
    return HardwareProfile(name, name, (), parameters)


OLD = profile("old", bf16_flop_per_s=1e14, hbm_bytes_per_s=1e12, cores=100, intra_node_bytes_per_s=1e11)
NEW = profile("new", bf16_flop_per_s=2e14, hbm_bytes_per_s=4e12, cores=100, intra_node_bytes_per_s=2e11)


def factor_of(kernel: str, devices: Devices, dims: str = "") -> float:
    """Ratio of one kernel, launched inside an operator where ``dims`` says of which sizes."""
    operator = [Row(EventKind.CPU_OP, "aten::mm", HOST, 0, 100, shape=dims)] if dims else []
    trace = trace_of(operator + launched(kernel, HOST, 40, 50, 1000, 1))
    graph = graph_of(trace)
    [op] = np.flatnonzero(op_classes(graph) != OpClass.HOST)
    return float(retime(graph, trace, devices).factor[op])


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("vectorized_elementwise_kernel", 1 / 4),  # bandwidth
        ("flash_fwd_kernel", 1 / 2),  # matrix rate
        ("sm90_xmma_gemm_bf16", 1 / 2),  # no shape: matrix rate
        ("implicit_convolve_sgemm", 1 / 2),
    ],
)
def test_a_kernel_follows_what_limits_it(kernel: str, expected: float) -> None:
    assert factor_of(kernel, Devices(OLD, NEW)) == pytest.approx(expected)


def test_a_kernel_in_fp8_runs_at_that_rate_where_the_device_has_it() -> None:
    """4e14 in FP8 before, 2e14 in BF16 after: twice as long."""
    both = profile("both", bf16_flop_per_s=1e14, fp8_flop_per_s=4e14, hbm_bytes_per_s=1e12, cores=100)
    assert factor_of("fp8_gemm_kernel", Devices(both, NEW)) == pytest.approx(2)


def test_a_large_gemm_follows_arithmetic_and_a_thin_one_memory() -> None:
    """8192³: 512 FLOP a byte and more; 8 rows: 8 FLOP a byte of weights, on machines of 100 and 50."""
    large = factor_of("gemm", Devices(OLD, NEW), "[[8192,8192],[8192,8192]]")
    thin = factor_of("gemm", Devices(OLD, NEW), "[[8,8192],[8192,8192]]")
    assert large == pytest.approx(1 / 2, rel=0.1)
    assert thin < large


@pytest.mark.parametrize(
    ("hf32", "rates", "expected", "types"),
    [
        (0, {"tf32_flop_per_s": 1e14, "fp32_flop_per_s": 1e13}, 4.0, "fp32"),  # FP32: 40 to 10 TFLOP/s
        (1, {"tf32_flop_per_s": 1e14, "fp32_flop_per_s": 1e13}, 0.5, "tf32"),  # cut to HF32: 50 to 100
        (1, {"fp32_flop_per_s": 1e13}, 5.0, "fp32 for tf32"),  # a device without TF32: 50 to FP32's 10
        (1, {}, 0.25, "bf16 for tf32"),  # one that knows neither: 50 to BF16's 200
    ],
)
def test_products_of_a_kernel_table_go_by_their_own_shape_and_type(
    hf32: int, rates: dict[str, float], expected: float, types: str
) -> None:
    """8192³ without operator shapes, memory without end."""
    fast = {"hbm_bytes_per_s": 1e15, "l2_bytes_per_s": 1e16, "cores": 100}
    old = profile("a", bf16_flop_per_s=1e14, tf32_flop_per_s=5e13, fp32_flop_per_s=4e13, **fast)
    new = profile("b", bf16_flop_per_s=2e14, **rates, **fast)
    trace = trace_of(launched("MatMulV3_1", HOST, 40, 50, 1000, 1))
    [kernel] = np.flatnonzero(trace.is_device)
    listed = replace(trace, details=matmul_details(int(kernel), hf32))
    graph = graph_of(listed)
    [op] = np.flatnonzero(graph.event == kernel)
    found = retime(graph, listed, Devices(old, new))
    assert found.factor[op] == pytest.approx(expected, rel=0.05)
    assert found.grade[op] == (Grade.ASSUMED if " for " in types else Grade.DATASHEET)
    assert f", {types}, by shape" in found.formulas[int(found.reason[op])]


def matmul_details(event: int, hf32: int) -> KernelDetails:
    """A kernel table with one product 8192³ of FP32."""
    one = np.ones(1, np.int64)
    counters = CoreCounters(one, one, one, np.ones(1), np.array([hf32], np.int8))
    square, types, nd = ("8192,8192;8192,8192",), ("FLOAT;FLOAT",), ("ND;ND",)
    return KernelDetails(
        np.array([event]), ("MatMulV3",), ("AI_CORE",), square, types, nd, ("8192,8192",), ("FLOAT",), ("ND",), one,
        np.full(1, np.nan), counters,
    )  # fmt: skip


def test_the_host_stays_as_measured_and_the_report_says_so() -> None:
    trace = trace_of(launched("gemm", HOST, 40, 50, 1000, 1))
    graph = graph_of(trace)
    found = retime(graph, trace, Devices(OLD, NEW))
    assert (found.factor[op_classes(graph) == OpClass.HOST] == 1).all()
    assert any("host" in warning for warning in found.warnings)


def test_the_way_back_undoes_the_way_there() -> None:
    there, back = (factor_of("flash_fwd_kernel", devices) for devices in (Devices(OLD, NEW), Devices(NEW, OLD)))
    assert there * back == pytest.approx(1)


def test_datasheet_ratios_reach_to_what_sustained_rates_leave_open() -> None:
    trace = trace_of(launched("flash_fwd_kernel", HOST, 40, 50, 1000, 1))
    graph = graph_of(trace)
    found = retime(graph, trace, Devices(OLD, NEW))
    [op] = np.flatnonzero(op_classes(graph) == OpClass.ATTENTION)
    assert found.grade[op] == Grade.DATASHEET
    assert found.low[op] < found.factor[op] < found.high[op]


def test_a_profile_without_bandwidth_is_refused_by_name() -> None:
    bare = profile("bare", bf16_flop_per_s=1e14)
    with pytest.raises(RefusedError, match="bare has no hbm_bytes_per_s"):
        factor_of("vectorized_elementwise_kernel", Devices(OLD, bare))


def test_a_transfer_that_the_old_links_explain_follows_the_ratio() -> None:
    """2 ns measured where the old model says 1: twice as fast links halve it."""
    ratio, _ = _moved(np.array([2.0]), 1.0, 0.5)
    assert ratio.tolist() == [0.5]


def test_latency_that_a_datasheet_lacks_stays_and_does_not_explode() -> None:
    """37 ms measured, 0.1 ns by a bandwidth alone, 80 us on the new device: 37.08 ms, not hours."""
    ratio, _ = _moved(np.array([37e6]), 0.1, 80e3)
    assert 37e6 * ratio[0] == pytest.approx(37.08e6)


def test_a_kernel_that_multiplies_and_communicates_is_unsure_between_both() -> None:
    """Links twice as fast, matrix units three times: 1/2 (bracket 0.8 to 1.6 times that), or 1/3 (0.5 to 2 times)."""
    comm = Comm(CollectiveKind.ALL_REDUCE, 0, 1 << 30)
    op = Op("aclnnMatmulAllReduce_MatmulAllReduce", 10**7, kind=OpKind.TRANSFER, comm=0)
    graph = synthetic_graph([op], comms=[comm], groups=[Group("1", "tp", (0, 1, 2, 3))])
    fast = profile("fast", bf16_flop_per_s=3e14, hbm_bytes_per_s=1e12, cores=100, intra_node_bytes_per_s=2e11)
    found = retime(graph, trace_of(launched("gemm", HOST, 0, 1, 2, 1)), Devices(OLD, fast))
    assert found.factor[0] == pytest.approx(1 / 2)
    assert (found.low[0], found.high[0]) == (pytest.approx(1 / 3 * 0.5), pytest.approx(1 / 2 * 1.6))
    assert found.grade[0] == Grade.ASSUMED


def test_sizes_of_one_collective_are_one_change() -> None:
    comms = [Comm(CollectiveKind.ALL_REDUCE, 0, 1 << 30), Comm(CollectiveKind.ALL_REDUCE, 0, 1 << 29)]
    ops = [Op("nccl", 10**7 >> row, kind=OpKind.TRANSFER, comm=row) for row in (0, 1)]
    graph = synthetic_graph(ops, comms=comms, groups=[Group("1", "tp", (0, 1, 2, 3))])
    found = retime(graph, trace_of(launched("gemm", HOST, 0, 1, 2, 1)), Devices(OLD, NEW))
    [change] = found.changes
    assert (change.before, change.after) == ({"calls": 2, "total_ms": 15}, {"calls": 2, "total_ms": 7.5})
