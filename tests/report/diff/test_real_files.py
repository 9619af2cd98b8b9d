"""Real traces, edited and written back as files: the whole way from the parser to the named cause."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import parsers
from replay.graph.build import BuildOptions, build
from replay.graph.types import Graph, OpKind, Rule
from replay.report.diff.compare import compare
from replay.report.diff.types import Difference
from replay.session.question import Facts
from replay.session.sides import load
from replay.trace import Trace
from tests.report.diff.edit_files import moved, read_json
from tests.report.diff.edit_trace import named, slowed, stalled, synchronised

Edit = Callable[[Graph], Graph]


@dataclass(frozen=True)
class Recording:
    """A trace of one rank, the step of it that is edited, and the graph of that step."""

    path: Path
    step: int | None

    def read(self) -> tuple[Trace, Graph]:
        trace = parsers.read([self.path])
        assert isinstance(trace, Trace)
        return trace, build(trace, BuildOptions(step=self.step))

    def against(self, edit: Edit, folder: Path) -> tuple[Difference, int]:
        """The recording against an edited copy of its file, and the time by which the edit makes the step longer."""
        trace, graph = self.read()
        edited = edit(graph)
        copy = folder / "edited.json"
        copy.write_text(json.dumps(moved(read_json(self.path), trace, graph, edited)), encoding="utf-8")
        a, b = (load(path, Facts(step=self.step), label) for path, label in ((self.path, "a"), (copy, "b")))
        return compare(a, b), edited.measured_step_ns - graph.measured_step_ns


@pytest.fixture
def deepseek(shared_data: Path) -> Recording:
    """DeepSeek-V3, one rank, one step."""
    return Recording(shared_data / "kineto" / "deepseek_v3_train_h800.json", None)


@pytest.fixture
def control(shared_data: Path) -> Recording:
    """A recommendation model on 8 ranks, one of them traced, six steps."""
    return Recording(shared_data / "kineto" / "trace_diff_control_control.json.gz", 1011)


def check(found: Difference, true_ns: int, words: str) -> None:
    """The first cause and its amount, and the parts."""
    assert found.difference_ns == pytest.approx(true_ns, rel=0.001)
    assert sum(found.parts_ns.values()) == found.difference_ns
    assert words in found.causes[0].what
    assert found.causes[0].effect_ms == pytest.approx(true_ns / 1e6, rel=0.05)


def last_op(graph: Graph, ops: np.ndarray) -> int:
    """The last of some ops, by measured start, in the first half of the step."""
    early = ops[graph.measured_start_ns[ops] < graph.measured_step_ns / 2]
    return int(early[graph.measured_start_ns[early].argmax()])


def test_slower_kernel(control: Recording, tmp_path: Path) -> None:
    """The embedding's backward takes half as long again."""
    name = "void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row"
    found, true_ns = control.against(lambda graph: slowed(graph, named(graph, name), 1.5), tmp_path)
    check(found, true_ns, "split_embedding_backward")


def test_slower_link(deepseek: Recording, tmp_path: Path) -> None:
    """Dispatch and combine take twice as long."""
    found, true_ns = deepseek.against(lambda graph: slowed(graph, graph.kind == OpKind.TRANSFER, 2.0), tmp_path)
    check(found, true_ns, "ep communication x2.000")


def test_host_stall(control: Recording, tmp_path: Path) -> None:
    """10 ms in the first host op of the step."""
    found, true_ns = control.against(lambda graph: stalled(graph, 0, 10_000_000), tmp_path)
    check(found, true_ns, "host work between the step's begin and launch of Memcpy HtoD")


def test_added_sync(deepseek: Recording, tmp_path: Path) -> None:
    """A device synchronisation in the first half of the step."""

    def edit(graph: Graph) -> Graph:
        return synchronised(graph, last_op(graph, np.unique(graph.edges.source[graph.edges.rule == Rule.LAUNCH])))

    found, true_ns = deepseek.against(edit, tmp_path)
    check(found, true_ns, "cudaDeviceSynchronize added")
