"""Device time of a pass by chunk, by hand."""

from __future__ import annotations

from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.label import label
from replay.report.chunk_costs import chunk_costs
from replay.report.result import ChunkCostRow
from tests.program.events import HOST, Row, graph_of, launched, span, trace_of


def rows_of(*passes: tuple[str, int]) -> tuple[ChunkCostRow, ...]:
    """Costs of passes with one kernel each, whose durations are given in ns."""
    rows: list[Row] = []
    for i, (name, dur) in enumerate(passes):
        rows += [span(name, HOST, 100 * i, 100 * i + 50), *launched("gemm", HOST, 100 * i + 5, 100 * i + 6, dur, i + 1)]
    trace = trace_of(rows)
    graph = graph_of(trace)
    return chunk_costs(graph, label(graph, trace, Layout(), ModelSpec()))


def test_passes_of_one_chunk_and_phase_are_averaged() -> None:
    """Forwards of 10 and 20 ns: 15 ± 5 ns over two passes."""
    (row,) = rows_of(("forward microbatch=0 chunk=0", 10), ("forward microbatch=1 chunk=0", 20))
    assert row == ChunkCostRow(0, 0, "forward", 15e-6, 5e-6, 2)


def test_chunks_and_phases_are_kept_apart() -> None:
    """Three rows, none averaged with another."""
    names = ("forward microbatch=0 chunk=0", "forward microbatch=0 chunk=1", "backward microbatch=0 chunk=1")
    assert [(row.chunk, row.phase) for row in rows_of(*((name, 10) for name in names))] == [
        (0, "forward"), (1, "forward"), (1, "backward")
    ]  # fmt: skip


def test_without_micro_batches_there_are_no_passes() -> None:
    """A range that names a module only."""
    assert rows_of(("attn(F)", 10)) == ()
