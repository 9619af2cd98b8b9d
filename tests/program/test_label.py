"""Labels of hand-made traces: a kernel is what the host was doing when it launched it."""

from __future__ import annotations

from replay.graph.types import Graph
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.label import label, unassigned_pct
from replay.program.types import Labels, Phase, Role
from tests.program.events import AUTOGRAD, HOST, Row, graph_of, launched, span, trace_of


def labelled(rows: list[Row]) -> tuple[Graph, Labels]:
    trace = trace_of(rows)
    graph = graph_of(trace)
    return graph, label(graph, trace, Layout(), ModelSpec())


def test_the_launch_decides_not_the_run() -> None:
    """The kernel runs under mlp(F), but was launched under attn(F)."""
    _, labels = labelled(
        [span("attn(F)", HOST, 0, 10), span("mlp(F)", HOST, 10, 30), *launched("gemm", HOST, 5, 15, 8, 1)]
    )
    assert (labels.role[0], labels.phase[0]) == (Role.ATTENTION, Phase.FORWARD)


def test_the_autograd_thread_works_for_the_open_backward_range() -> None:
    _, labels = labelled([span("attn(B)", HOST, 0, 10), *launched("gemm", AUTOGRAD, 5, 6, 8, 1)])
    assert (labels.role[0], labels.phase[0]) == (Role.ATTENTION, Phase.BACKWARD)


def test_a_forward_range_elsewhere_is_not_inherited() -> None:
    graph, labels = labelled([span("attn(F)", HOST, 0, 10), *launched("gemm", AUTOGRAD, 5, 6, 8, 1)])
    assert labels.template[0] == -1
    assert unassigned_pct(graph, labels) == 100.0


def test_nested_ranges_add_up() -> None:
    outer = span("forward microbatch=3 chunk=1", HOST, 0, 20)
    _, labels = labelled([outer, span("experts layer=2", HOST, 2, 10), *launched("gemm", HOST, 5, 6, 8, 1)])
    assert (labels.microbatch[0], labels.chunk[0], labels.layer[0]) == (3, 1, 2)
    assert (labels.phase[0], labels.role[0]) == (Phase.FORWARD, Role.EXPERTS)


def test_layers_count_up_forward_and_down_backward() -> None:
    names = ("attn(F)", "attn(F)", "attn(B)", "attn(B)")
    rows = [span(name, HOST, 10 * i, 10 * i + 10) for i, name in enumerate(names)]
    rows += [row for i in range(4) for row in launched("gemm", HOST, 10 * i + 5, 10 * i + 6, 2, i + 1)]
    _, labels = labelled(rows)
    assert labels.layer.tolist() == [0, 1, 1, 0]


def test_instances_share_a_template_position_by_position() -> None:
    """Two attn(F) ranges with two gemms each: first with first, second with second."""
    rows = [span("attn(F)", HOST, 0, 10), span("attn(F)", HOST, 10, 20)]
    rows += [row for i, at in enumerate((1, 4, 11, 14)) for row in launched("gemm", HOST, at, at + 1, 2, i + 1)]
    _, labels = labelled(rows)
    first, second, third, fourth = labels.template
    assert (first, second) == (third, fourth)
    assert first != second


def test_unassigned_is_a_share_of_device_time() -> None:
    """30 of 40 ns lie outside every range."""
    rows = [span("attn(F)", HOST, 0, 10), *launched("a", HOST, 5, 6, 10, 1), *launched("b", HOST, 50, 51, 30, 2)]
    graph, labels = labelled(rows)
    assert unassigned_pct(graph, labels) == 75.0


def passes(*names: str) -> list[Row]:
    """Ranges one after the other, each with one kernel."""
    rows = [span(name, HOST, 10 * i, 10 * i + 10) for i, name in enumerate(names)]
    return rows + [row for i in range(len(names)) for row in launched("gemm", HOST, 10 * i + 5, 10 * i + 6, 2, i + 1)]


def test_unnumbered_passes_are_taken_in_order() -> None:
    """1F1B with one chunk: both phases take micro-batches in order."""
    _, labels = labelled(passes("forward", "forward", "backward", "forward", "backward", "backward"))
    assert labels.microbatch.tolist() == [0, 1, 0, 2, 1, 2]
    assert set(labels.chunk.tolist()) == {0}


def test_a_single_pass_says_nothing_of_micro_batches() -> None:
    _, labels = labelled(passes("## forward ##", "## backward ##"))
    assert labels.microbatch.tolist() == [-1, -1]


def test_chunks_cannot_be_told_by_counting() -> None:
    trace = trace_of(passes("forward", "forward"))
    labels = label(graph_of(trace), trace, Layout(pp=2, vpp=2, world_size=2), ModelSpec())
    assert labels.microbatch.tolist() == [-1, -1]


def test_ranges_that_number_chunks_say_how_many_there_are() -> None:
    """Where nothing states their number; a stated one stays."""
    trace = trace_of(passes("forward microbatch=0 chunk=0", "forward microbatch=0 chunk=1"))
    layout = Layout(pp=2, world_size=2)
    assert label(graph_of(trace), trace, layout, ModelSpec(), frozenset({"vpp"})).layout.vpp == 2
    assert label(graph_of(trace), trace, layout, ModelSpec()).layout.vpp == 1


def test_layers_start_again_in_every_pass() -> None:
    rows = [span("forward", HOST, 0, 20), span("forward", HOST, 20, 40), *passes(*["attn(F)"] * 4)]
    _, labels = labelled(rows)
    assert labels.microbatch.tolist() == [0, 0, 1, 1]
    assert labels.layer.tolist() == [0, 1, 0, 1]


def test_overlapped_directions_are_one_pass_of_each() -> None:
    """DualPipe runs parts of one forward and one backward pass in turns: nothing there counts micro-batches."""
    names = ("attn(F)", "mlp(B)", "mlp(F)", "attn(B)") * 2
    rows = [span(name, HOST, 100 * k, 100 * k + 50) for k, name in enumerate(names)]
    kernels = [launched(name, HOST, 100 * k + 5, 100 * k + 10, 8, k + 1) for k, name in enumerate(names)]
    _, labels = labelled([*rows, *(row for pair in kernels for row in pair)])
    assert set(labels.microbatch.tolist()) == {-1}
    assert labels.layer.tolist() == [0, 1, 0, 1, 1, 0, 1, 0]
