"""``--scale``: which ops a pattern names, and counterfactuals with bounds by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from replay.core.errors import RefusedError
from replay.graph.types import Graph, KernelType, OpKind
from replay.simulate.engine import simulate
from replay.whatif import scale
from tests.synthetic import Op, graph_of, graphs

NAMES = graph_of([Op("sm90_GEMM_bf16", 10), Op("flash_fwd", 10), Op("void at::f<float*, [2]>", 10), Op("add", 10)])


@pytest.mark.parametrize(
    ("pattern", "changed"),
    [
        ("gemm", [0]),
        ("*GEMM*", [0]),
        ("gemm*", None),
        ("sm90_gemm_bf1?", [0]),
        ("void at::f<float*, [2]>", [2]),
        ("@gemm", [0]),
        ("@attention", [1]),
        ("@other", [2, 3]),
        ("@compute", [0, 1, 2, 3]),
        ("f", [0, 1, 2]),
        ("", None),
        (".*", None),
        ("__import__('os')", None),
    ],
)
def test_patterns(pattern: str, changed: list[int] | None) -> None:
    if changed is None:
        with pytest.raises(RefusedError, match="no op matches"):
            scale.apply(NAMES, pattern, 3.0)
    else:
        durations = scale.apply(NAMES, pattern, 3.0).duration_ns.tolist()
        assert durations == [30 if op in changed else 10 for op in range(len(NAMES))]


def test_a_class_holds_operators_of_ranks_without_a_device() -> None:
    graph = graph_of([Op("aten::addmm", 10), Op("aten::add", 10)])
    assert scale.apply(graph, "@gemm", 3.0).duration_ns.tolist() == [30, 10]


def test_a_misspelt_pattern_gets_the_nearest_words() -> None:
    with pytest.raises(RefusedError, match="nearest in the names of ops: 'gemm'") as error:
        scale.apply(NAMES, "gemmm", 2.0)
    assert error.value.exit_code == 3


def test_an_unknown_class_is_refused_with_the_classes() -> None:
    with pytest.raises(RefusedError, match="known: @all, @host"):
        scale.apply(NAMES, "@gpu", 2.0)


def launched(kernel_ns: int, launch_ns: int) -> Graph:
    """Fifty launches on the host, each starting a kernel on one stream."""
    ops: list[Op] = []
    for i in range(50):
        ops.append(Op("launch", launch_ns, [2 * i - 2] if i else [], lane="thread 1", kind=OpKind.CALL))
        ops.append(Op("kernel", kernel_ns, [2 * i, 2 * i - 1] if i else [0]))
    return graph_of(ops)


def ratio(graph: Graph, target: str, factor: float) -> float:
    return simulate(scale.apply(graph, target, factor)).step_ns / simulate(graph).step_ns


def test_device_bound_steps_follow_the_device() -> None:
    """Step = one launch + 50 kernels = 10 + 5000: doubling the kernels gives 10010 / 5010."""
    graph = launched(kernel_ns=100, launch_ns=10)
    assert ratio(graph, "@device", 2.0) == 10010 / 5010
    assert ratio(graph, "@host", 0.5) == 5005 / 5010


def test_launch_bound_steps_follow_the_host() -> None:
    """Step = 50 launches + one kernel = 5000 + 10: doubling the kernels adds one kernel."""
    graph = launched(kernel_ns=10, launch_ns=100)
    assert ratio(graph, "@device", 2.0) == 5020 / 5010
    assert ratio(graph, "@host", 0.5) == 2510 / 5010


def test_removing_a_collective_saves_no_more_than_its_exposed_time() -> None:
    """The transfer 0-100 is covered by a kernel up to 60: without it the step is 60, 40 shorter."""
    graph = graph_of([Op("ar", 100, lane="stream 8", kind=OpKind.TRANSFER), Op("gemm", 60)])
    assert simulate(scale.apply(graph, "@comm", 0.0)).step_ns == 60


@given(graphs(), st.floats(1.0, 10.0))
def test_slower_ops_never_shorten_the_step(graph: Graph, factor: float) -> None:
    """The order of ops is fixed, so there is no scheduling anomaly."""
    assume("op1" in graph.names)
    assert simulate(scale.apply(graph, "op1*", factor)).step_ns >= simulate(graph).step_ns


@given(graphs())
def test_removing_an_op_saves_no_more_than_its_duration(graph: Graph) -> None:
    """A path passes an op at most once."""
    saved = simulate(graph).step_ns - simulate(scale.apply(graph, "op0", 0.0)).step_ns
    assert 0 <= saved <= graph.duration_ns[graph.name == graph.names.index("op0")].sum()


def test_times_stay_exact_where_a_float_would_not() -> None:
    graph = graph_of([Op("a", 10**15 + 1), Op("b", 7)])
    assert scale.apply(graph, "b", 2.0).duration_ns.tolist() == [10**15 + 1, 14]


def test_kernels_are_chosen_by_type_and_core() -> None:
    """Names as CANN makes them; the type decides, not what else the name holds, nor a type that it begins."""
    names = ("aclnnAddmm_CastAiCore_Cast", "Conv2D1", "Conv2DBackpropFilter10", "aclnnMm_MatMulCommon_MatMulV2")
    types = ("Cast", "Conv2D", "Conv2DBackpropFilter", "MatMulV2")
    cores = ("AI_VECTOR_CORE", "AI_CORE", "AI_CORE", "MIX_AIC")
    kernels = {name: KernelType(*known) for name, *known in zip(names, types, cores, strict=True)}
    graph = replace(graph_of([Op(name, 10) for name in names]), kernels=kernels)
    chosen = {"Conv2D": [1], "conv2d*": [1, 2], "@cube": [1, 2, 3], "@vector": [0], "@gemm": [3], "MatMulCommon": [3]}
    for pattern, ops in chosen.items():
        durations = scale.apply(graph, pattern, 3.0).duration_ns.tolist()
        assert durations == [30 if op in ops else 10 for op in range(len(names))], pattern


def test_a_type_that_is_also_the_name_of_a_module_is_a_type() -> None:
    """Names of what is no op (modules, operators outside) are in the table of names, too."""
    kernels = {"Conv2D1": KernelType("Conv2D", "AI_CORE")}
    graph = graph_of([Op("Conv2D1", 10), Op("add", 10)])
    graph = replace(graph, kernels=kernels, names=(*graph.names, "Conv2D"))
    assert scale.apply(graph, "Conv2D", 3.0).duration_ns.tolist() == [30, 10]


def test_one_kind_of_core_does_both() -> None:
    """910A says AI_CORE of everything: a matmul is its cube's, a softmax its vector units'."""
    kernels = {"MatMul1": KernelType("MatMul", "AI_CORE"), "SoftmaxV2_3": KernelType("SoftmaxV2", "AI_CORE")}
    graph = replace(graph_of([Op(name, 10) for name in kernels]), kernels=kernels)
    assert scale.apply(graph, "@cube", 3.0).duration_ns.tolist() == [30, 10]
    assert scale.apply(graph, "@vector", 3.0).duration_ns.tolist() == [10, 30]


def test_cores_need_a_kernel_table() -> None:
    with pytest.raises(RefusedError, match="'@cube' needs the core of every kernel"):
        scale.apply(NAMES, "@cube", 2.0)


def test_kernels_that_compute_and_communicate_are_a_class_of_their_own() -> None:
    """CANN's MC2; neither faster products nor faster links make all of it faster."""
    ops = [Op("hcom_allReduce_", 10, kind=OpKind.TRANSFER), Op("aclnnMm_MatMulCommon_MatMulV2", 10)]
    ops.append(Op("aclnnMatmulAllReduce_MatmulAllReduce_MatmulAllReduce", 10, kind=OpKind.TRANSFER))
    graph = graph_of(ops)
    for pattern, op in {"@comm": 0, "@gemm": 1, "@fused": 2}.items():
        durations = scale.apply(graph, pattern, 3.0).duration_ns.tolist()
        assert durations == [30 if i == op else 10 for i in range(3)], pattern
