"""Outputs of a cluster analysis, alone and beside their ranks; and what tells the ranks and sizes of a job."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import parsers
from parsers.run_description import RunDescription
from replay.core.errors import LayoutError, RefusedError
from replay.graph.build import build
from replay.report.accuracy import replay_error_pct
from replay.report.ascend import ascend_facts
from replay.session.question import Facts
from replay.session.source import find_source
from replay.simulate.engine import simulate
from tests.parsers.ascend import folders as make
from tests.parsers.ascend.layouts import cluster, cluster_steps, device_ops, of_ranks, put, read


def test_a_cluster_alone_is_looked_at(tmp_path: Path) -> None:
    """Collectives of four ranks, steps of ranks and of stages, sizes by the indexes of eight ranks."""
    cluster(tmp_path, {
        "cluster_step_trace_time.csv": cluster_steps(range(8), [range(4), range(4, 8)], indexes=True),
        "cluster_communication.json": of_ranks(range(4)),
    })  # fmt: skip
    trace = read(tmp_path)
    assert (trace.ranks, trace.world_size) == (tuple(range(8)), 8)
    assert trace.files == ("cluster_step_trace_time.csv", "cluster_communication.json")
    assert [(rank, dur) for rank, _, _, dur in device_ops(trace)] == [(r, 396_000 - 1000 * r) for r in range(4)]
    assert [group.ranks for group in trace.groups] == [(0, 1, 2, 3)]
    assert trace.collectives.recorded_transfer_ns.tolist() == [280_000] * 4
    assert [(row.rank, row.stage) for row in trace.step_table[7:]] == [(7, ()), (-1, (0, 1, 2, 3)), (-1, (4, 5, 6, 7))]
    assert dict(trace.step_table[9].parts_ms)["Computing"] == 1.007
    layout = find_source(trace, Facts(), RunDescription()).layout
    assert (layout.tp, layout.pp, layout.dp) == (2, 2, 2)
    facts = ascend_facts(trace)
    assert facts is not None and [row.stage for row in facts.steps[8:]] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    with pytest.raises(RefusedError, match=r"cluster communication statistics, 1 cluster step table\)"):
        build(trace)


def test_a_whole_job_is_its_ranks_and_what_the_cluster_adds(tmp_path: Path) -> None:
    """Two of eight ranks have folders: no others appear, but members, world, sizes and their steps do."""
    for rank in (0, 1):
        make.write(tmp_path, rank, make.level1(counter=rank), counter=rank)
    steps = cluster_steps(range(8), [range(4), range(4, 8)], indexes=True)
    groups = [{"type": "collective", "rank_set": list(range(8)), "group_name": make.GROUP, "group_id": "a%b_1",
               "pg_name": "dp"}]  # fmt: skip
    lists = {"collective": [list(range(8))], "p2p": [], "comm_group_parallel_info": groups}
    cluster(tmp_path, {"cluster_step_trace_time.csv": steps, "communication_group.json": lists})
    trace = read(tmp_path)
    assert (trace.ranks, trace.world_size, trace.layout) == ((0, 1), 8, {"tp": 2, "pp": 2, "dp": 2})
    assert [(group.name, group.description, len(group.ranks)) for group in trace.groups] == [(make.GROUP, "dp", 8)]
    assert len(trace.step_table) == 10
    graph = build(trace)
    assert abs(replay_error_pct(graph, simulate(graph))) <= 3


def test_sets_without_names_are_members_where_only_one_fits(tmp_path: Path) -> None:
    """The older list of groups: of the sets with ranks 0 and 1, one has the four members that the links show."""
    for rank in (0, 1):
        make.write(tmp_path, rank, make.level1(counter=rank), counter=rank)
    cluster(tmp_path, {"communication_group.json": {"collective": [[0, 1], [0, 1, 2, 3], [0, 2]], "p2p": [[0, 1]]}})
    trace = read(tmp_path)
    assert [(group.name, group.ranks) for group in trace.groups] == [(make.GROUP, (0, 1, 2, 3))]


def test_collectives_without_times_are_counted(tmp_path: Path) -> None:
    """Of four members one has no start, and one took no time, which is one."""
    members = json.loads(json.dumps(of_ranks(range(4))))
    entries = members["(0, 1, 2, 3)"]["step3"][f"hcom_allReduce__123_0_1@{make.GROUP}"]
    entries["2"]["Communication Time Info"]["Start Timestamp(us)"] = "N/A"
    entries["3"]["Communication Time Info"]["Elapse Time(ms)"] = 0
    trace = read(cluster(tmp_path, {"cluster_communication.json": members}))
    assert [(rank, dur) for rank, _, _, dur in device_ops(trace)] == [(0, 396_000), (1, 395_000), (3, 0)]
    assert trace.health.dropped["collectives of the statistics without times"] == 1


@pytest.mark.parametrize("content", ["", "{}", '{"collective": [], "p2p": []}', "[]"])
def test_an_empty_list_of_groups_changes_nothing(tmp_path: Path, content: str) -> None:
    """A cluster analysis that found no communication leaves empty files."""
    make.write(tmp_path, 0, make.level1())
    cluster(tmp_path, {"communication_group.json": content, "cluster_communication.json": content})
    assert read(tmp_path).ranks == (0,)


def test_a_rank_of_which_nothing_can_be_used_is_named(tmp_path: Path) -> None:
    """Its timeline has rows, none with a time, or none at all; the other rank is read."""
    make.write(tmp_path, 0, make.level1())
    for rank, rows in ((1, [make.row(make.HOST, 100, "a", (0, 1), cat="cpu_op") | {"ts": "soon"}]), (2, [])):
        folder = tmp_path / f"node_{rank}_x_ascend_pt"
        put(
            folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json",
            [*make.named(make.CANN, "CANN", {101: "Thread 101"}), *rows],
        )
        put(folder / f"profiler_info_{rank}.json", {"rank_id": rank, "torch_npu_version": "2.1"})
    trace = read(tmp_path)
    assert trace.ranks == (0,)
    assert trace.health.dropped["no usable timestamp"] == 1
    told = "trace_view.json: no event with a time and a duration; its rank is left out"
    assert [f"node_{rank}_x_ascend_pt/{told}" in trace.health.warnings for rank in (1, 2)] == [True, True]


def test_cluster_steps_of_nobody_are_counted(tmp_path: Path) -> None:
    """An index that is no number, and a table without one, beside two ranks that are read as ever."""
    make.write(tmp_path, 0, make.level1())
    cluster(tmp_path, {"cluster_step_trace_time.csv": cluster_steps(range(2)).replace("rank,1", "rank,?"),
                       "copy.csv": cluster_steps(range(3)).replace("Index", "")})  # fmt: skip
    trace = read(tmp_path)
    assert [row.rank for row in trace.step_table] == [0]
    assert trace.health.dropped["cluster steps of no rank and no stage"] == 4


def test_groups_alone_are_refused_with_what_was_found(tmp_path: Path) -> None:
    """Nothing says that any op ran."""
    cluster(tmp_path, {"communication_group.json": {"collective": [[0, 1]], "p2p": []}})
    with pytest.raises(RefusedError, match=r"no timeline \(1 list of communicators\)"):
        parsers.read([tmp_path])


@pytest.mark.parametrize(
    ("told", "rank"), [(3, 3), ("3", 3), ("-1", 0), (-1, 0), (None, 0), ("", 0), ([], 0), (2**40, 0)]
)
def test_ranks_are_told_in_many_ways(tmp_path: Path, told: object, rank: int) -> None:
    """A number or text, -1 for a job of one process; a nonsense value tells nothing."""
    top = make.write(tmp_path, 0, make.level1(), tables=False)
    (top / "profiler_info_0.json").unlink()
    put(top / "profiler_info.json", {"config": {}, "rank_id": told, "torch_npu_version": "2.1.0"})
    events = json.loads(json.dumps(make.level1()).replace("NPU 1", "NPU"))
    put(top / "ASCEND_PROFILER_OUTPUT" / "trace_view.json", events)
    assert read(tmp_path).ranks == (rank,)


@pytest.mark.parametrize("world", ["default_group", "hccl_world_group"])
def test_the_group_of_all_ranks_is_the_world(tmp_path: Path, world: str) -> None:
    """By the names that torch and MindSpore give it."""
    top = make.write(tmp_path, 0, make.level1(), tables=False)
    group = {"group_name": world, "group_rank": 0, "global_ranks": list(range(6))}
    put(top / "profiler_metadata.json", {"parallel_group_info": {world: group}})
    trace = read(tmp_path)
    assert (trace.world_size, trace.world_evidence) == (6, "recorded in the trace")


def test_damaged_settings_tell_the_rank_by_their_name(tmp_path: Path) -> None:
    """The profiler died while it wrote them."""
    for rank in (0, 7):
        top = make.write(tmp_path, rank, make.level1(counter=rank), counter=rank)
    put(top / "profiler_info_7.json", '{"conf')
    trace = read(tmp_path)
    assert trace.ranks == (0, 7)
    assert [text for text in trace.health.warnings if text.startswith("profiler_info_7.json is damaged")]


@pytest.mark.parametrize("write", [dict, json.dumps])
def test_arguments_of_the_job_are_its_layout(tmp_path: Path, write: Callable[[dict[str, int]], object]) -> None:
    """Megatron's sizes as MindSpeed writes them, also as text, and its groups by HCCL's own names."""
    name = "10.174.216.241%enp189s0f1_55000_0_1738895506630464"
    top = make.write(tmp_path, 0, json.loads(json.dumps(make.level1()).replace("__123_", "__035_")), tables=False)
    sizes = {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2, "data_parallel_size": 2,
             "context_parallel_size": 1, "expert_model_parallel_size": 2, "world_size": 8, "rank": 0}  # fmt: skip
    group = {"group_name": "tp", "group_rank": 0, "global_ranks": [0, 1]}
    put(top / "profiler_metadata.json", {"distributed_args": write(sizes), "parallel_group_info": {name: group}})
    trace = read(tmp_path)
    layout = find_source(trace, Facts(), RunDescription()).layout
    assert (layout.tp, layout.pp, layout.dp, layout.cp, layout.ep, layout.world_size) == (2, 2, 2, 1, 2, 8)
    used = trace.groups[int(trace.collectives.group[0])]
    assert (used.name, used.description, used.ranks) == ("6960437680420871035", "tp", (0, 1))


def test_a_rank_whose_settings_are_lost_is_told_by_its_device(tmp_path: Path) -> None:
    """Ranks 8 and 10 ran on devices 0 and 2 of their node; what ran on device 1 is rank 9."""
    for rank, device in ((8, 0), (10, 2), (9, 1)):
        events = json.loads(json.dumps(make.level1(counter=rank)).replace("NPU 1", f"NPU {device}"))
        top = make.write(tmp_path, rank, events, tables=False)
        if rank == 9:
            (top / "profiler_info_9.json").unlink()
    trace = read(tmp_path)
    assert trace.ranks == (8, 9, 10)
    assert trace.health.inferred["ranks told by their devices"] == 1


def test_a_cluster_without_its_last_rank_has_whole_groups(tmp_path: Path) -> None:
    """Seven ranks in the tables and tensor-parallel groups of two: a world of eight; 16 may be stated, 4 may not."""
    groups = [{"rank_set": [0, 1], "group_name": "77", "group_id": "a%b", "pg_name": "tp"}]
    lists = {"collective": [[0, 1]], "p2p": [], "comm_group_parallel_info": groups}
    cluster(tmp_path, {"cluster_step_trace_time.csv": cluster_steps(range(7)), "communication_group.json": lists})
    source = find_source(read(tmp_path), Facts(), RunDescription())
    assert (source.layout.tp, source.layout.world_size) == (2, 8)
    assert source.evidence["world_size"] == "the ranks of the cluster's tables; 1 more make it whole groups"
    assert find_source(read(tmp_path), Facts(layout={"world_size": 16}), RunDescription()).layout.dp == 8
    with pytest.raises(LayoutError, match="has 4 ranks, but the trace says 7"):
        find_source(read(tmp_path), Facts(layout={"world_size": 4}), RunDescription())
