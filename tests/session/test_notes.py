"""What answers say beside the numbers."""

from __future__ import annotations

from pathlib import Path

from replay.graph.types import OpKind
from replay.session.graph_level import held_notes
from replay.session.hardware import guess_notes
from replay.session.question import Facts, Question
from replay.trace import CollectiveKind, Group
from tests.report.test_cube import COUNTED, kernel, trace_of
from tests.synthetic import Comm, Op, graph_of


def test_kernels_that_faster_links_leave_alone_are_counted() -> None:
    """Slower links are applied to them, so nothing is said."""
    ops = [Op(f"aclnnMatmulAllReduce_{at}_MatmulAllReduce", 10, kind=OpKind.TRANSFER, comm=at) for at in range(2)]
    groups = [Group("1", "TENSOR_MODEL_PARALLEL_GROUP", (0, 1))]
    graph = graph_of(ops, comms=[Comm(CollectiveKind.ALL_REDUCE, 0)] * 2, groups=groups)
    (note,) = held_notes(graph, Question(link=(("tp", 2.0),)))
    assert note.startswith("--link tp=2: 2 kernels compute and communicate in one")
    assert not list(held_notes(graph, Question(link=(("tp", 0.5),))))


def test_a_device_that_only_counters_tell_is_said_to_be_a_guess(tmp_path: Path) -> None:
    """Unless somebody names it."""
    trace = trace_of(tmp_path, kernel("64,64;64,64", "64,64", **COUNTED))
    (note,) = guess_notes(trace, Facts())
    assert note.startswith("the device measured is taken for that of ascend-910b4: 20 cube cores at 1500 MHz")
    assert guess_notes(trace, Facts(source_hardware="ascend-910b4")) == ()
