"""Gloo's transfers: which operator handed them over, which group they belong to, whom they talk to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from replay.trace import EventKind, Trace
from tests.parsers.chrome import read_paths, span, text

EXPERT, DATA = "EXPERT_MODEL_PARALLEL_GROUP", "DATA_PARALLEL_GROUP"


def transfer(name: str, at: float, worker: int, elements: int = 8) -> dict[str, Any]:
    """What a worker thread draws."""
    return span(f"gloo:{name}", at, 50, cat="user_annotation", tid=worker, args={"Input Dims": [[elements]]})


def operator(name: str, at: float, elements: int = 8) -> dict[str, Any]:
    """What hands it over on the main thread."""
    return span(f"c10d::{name}", at, 10, args={"Input Dims": [[[elements]], [], []]})


def rank_zero(folder: Path, events: list[dict[str, Any]], *descriptions: str) -> Trace:
    """Rank 0 of two, in groups of both with these descriptions, made in this order after the default one."""
    return read_paths(_file(folder, 0, events, descriptions))


def two_ranks(folder: Path, first: list[dict[str, Any]], second: list[dict[str, Any]], *descriptions: str) -> Trace:
    """Both ranks of two."""
    return read_paths(*(_file(folder, rank, events, descriptions) for rank, events in enumerate((first, second))))


def _file(folder: Path, rank: int, events: list[dict[str, Any]], descriptions: tuple[str, ...]) -> Path:
    config = [
        {"pg_name": str(i), "pg_desc": description, "pg_size": 2, "ranks": [0, 1]}
        for i, description in enumerate(("default_pg", *descriptions))
    ]
    path = folder / f"rank{rank}.json"
    path.write_bytes(
        text(events, distributedInfo={"backend": "gloo", "rank": rank, "world_size": 2, "pg_config": config})
    )
    return path


def groups(trace: Trace) -> list[str]:
    """Description of the group of every transfer, in order."""
    codes = trace.collectives.group[trace.comm[trace.comm >= 0]].tolist()
    return [trace.groups[code].description if code >= 0 else "none" for code in codes]


def test_queues_are_first_in_first_out(tmp_path: Path) -> None:
    """The second all-reduce was taken by the faster thread; the all-to-all between them is another kind."""
    events = [
        operator("allreduce_", 0), operator("alltoall_base_", 20), operator("allreduce_", 40),
        transfer("all_reduce", 60, 50), transfer("all_reduce", 61, 51), transfer("all_to_all", 62, 60),
    ]  # fmt: skip
    trace = rank_zero(tmp_path, events)
    launch = {int(c): i for i, c in enumerate(trace.correlation) if trace.kind[i] == EventKind.RUNTIME}
    handed_over = [int(trace.start_ns[launch[int(trace.correlation[i])]]) for i in (trace.comm >= 0).nonzero()[0]]
    assert [at // 1000 % 100 for at in handed_over] == [0, 40, 20]


def test_sizes_tell_transfers_apart(tmp_path: Path) -> None:
    events = [operator("allreduce_", 0, 8), operator("allreduce_", 20, 9), transfer("all_reduce", 60, 50, 9)]
    trace = rank_zero(tmp_path, events)
    assert trace.correlation[trace.kind == EventKind.RUNTIME].tolist() == [1]
    assert trace.start_ns[trace.kind == EventKind.RUNTIME] - trace.start_ns[0] == 20_000


def test_workers_belong_to_groups_in_the_order_of_creation(tmp_path: Path) -> None:
    events = [transfer("all_reduce", 0, 50), transfer("all_reduce", 100, 51), transfer("all_to_all", 200, 58)]
    assert groups(rank_zero(tmp_path, events, DATA, EXPERT)) == [DATA, DATA, EXPERT]


def test_an_idle_expert_group_does_not_take_gradients(tmp_path: Path) -> None:
    """One group reduces, and nothing exchanges tokens: it is the default one, not the experts'."""
    assert groups(rank_zero(tmp_path, [transfer("all_reduce", 0, 50)], EXPERT)) == ["default_pg"]


def test_what_cannot_be_told_apart_keeps_its_members_only(tmp_path: Path) -> None:
    trace = rank_zero(tmp_path, [transfer("all_reduce", 0, 50)], DATA, "DATA_PARALLEL_GROUP_WITH_CP")
    assert groups(trace) == [""]
    assert trace.groups[-1].ranks == (0, 1)


def test_peers_are_read_from_the_operator_s_inputs(tmp_path: Path) -> None:
    args = {"Concrete Inputs": ["", "", "1", "0"]}
    events = [
        span("c10d::recv_", 0, 10, args=args),
        span("gloo:recv", 9, 40, cat="user_annotation", args={"Input Dims": [[8]]}),
    ]
    trace = rank_zero(tmp_path, events)
    assert trace.collectives.peer.tolist() == [1]


def test_a_send_begins_with_its_operator(tmp_path: Path) -> None:
    """Data moves inside of ``c10d::send``; the row of its wait begins when that returns."""
    events = [span("c10d::send", 0, 10), span("gloo:send", 9, 40, cat="user_annotation")]
    trace = rank_zero(tmp_path, events)
    assert trace.dur_ns[trace.comm >= 0].tolist() == [49_000]


def test_members_that_disagree_keep_their_group_s_members_only(tmp_path: Path) -> None:
    """On rank 0 the second group gathers, on rank 1 it reduces: one of the two was taken for the other."""
    first = [transfer("all_reduce", 0, 50), transfer("all_gather", 100, 60)]
    second = [transfer("all_reduce", 0, 50), transfer("all_reduce", 100, 60)]
    trace = two_ranks(tmp_path, first, second, DATA)
    assert set(groups(trace)) == {""}
