"""The lower envelope of collectives seen from some of their ranks; times by hand in µs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay.graph.types import OpKind
from tests.graph.steps import COMM, find, graph_of, launch, step

NAME = "ncclDevKernel_SendRecv(x)"


def p2p(kind: str, peer: int, start: float, dur: float, group: str, description: str) -> list[dict[str, Any]]:
    """A step with one send or receive in a group of two."""
    args = {
        "Collective name": kind,
        "In msg nelems": 100,
        "Out msg nelems": 100,
        "Group size": 2,
        "dtype": "Float",
        "Process Group Name": group,
        "Process Group Description": description,
        "Dst Rank" if kind == "send" else "Src Rank": peer,
    }
    return [step(300), *launch(NAME, start - 20, start, dur, 1, stream=COMM, **args)]


@pytest.mark.parametrize(("description", "transfer_us"), [("PIPELINE_MODEL_PARALLEL_GROUP", 40), ("undefined", 190)])
def test_a_sibling_group_shows_the_transfer(tmp_path: Path, description: str, transfer_us: int) -> None:
    """Rank 2 waited 190 for rank 3, which is not given; rank 1 took 40 of the same bytes in the group beside it."""
    ranks = (
        p2p("send", 1, 100, 60, "pp0", description),
        p2p("recv", 0, 120, 40, "pp0", description),
        p2p("recv", 3, 50, 190, "pp1", description),
    )
    graph = graph_of(tmp_path, *ranks, world=4)
    assert int(graph.duration_ns[find(graph, NAME, OpKind.TRANSFER, 2)]) == transfer_us * 1000


def test_fewer_bytes_take_no_longer(tmp_path: Path) -> None:
    """All-reduces of 100, 400 and 200 floats in 90, 60 and 50 µs, one rank of four: the first waited for 40."""
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
    args = {"Collective name": "allreduce", "Group size": 4, "dtype": "Float", "Process Group Name": "0"}
    launches = []
    for at, (elements, dur) in enumerate(((100, 90), (400, 60), (200, 50))):
        sizes = {"In msg nelems": elements, "Out msg nelems": elements}
        launches += launch(name, 10 + 100 * at, 20 + 100 * at, dur, at + 1, stream=COMM, **args, **sizes)
    graph = graph_of(tmp_path, [step(400), *launches], world=4)
    transfers = graph.duration_ns[graph.kind == OpKind.TRANSFER].tolist()
    assert [ns // 1000 for ns in transfers] == [50, 60, 50]
