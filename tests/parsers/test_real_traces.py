"""Real traces against numbers counted by hand (plain JSON, one filter per number)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import parsers
from replay.trace import CollectiveKind, EventKind, Trace
from tests.parsers.chrome import read_paths

K = EventKind


@pytest.fixture(scope="module")
def kineto(shared_data: Path) -> Path:
    """The folder of real Kineto traces."""
    return shared_data / "kineto"


def kinds(trace: Trace) -> dict[EventKind, int]:
    """Events of each kind."""
    return {EventKind(kind): count for kind, count in Counter(trace.kind.tolist()).items()}


def at(trace: Trace, start_us: str, name: str) -> int:
    """The event with that name that starts at an exact time (absolute or since the file's base, as written)."""
    whole, _, decimals = start_us.partition(".")
    start = int(whole) * 1000 + int(decimals.ljust(3, "0"))
    (found,) = np.flatnonzero(trace.start_ns == start - trace.epoch_ns)[
        [trace.name_of(i).startswith(name) for i in np.flatnonzero(trace.start_ns == start - trace.epoch_ns)]
    ]
    return int(found)


def test_negative_queue_length(kineto: Path) -> None:
    """A100, CUDA graph launches: 872 kernels and copies have no launch of their own."""
    trace = read_paths(kineto / "negative_queue_length_values_check_rank0.json.gz")
    assert kinds(trace) == {
        K.ANNOTATION: 360,
        K.CPU_OP: 25_185,
        K.KERNEL: 6_080,
        K.RUNTIME: 33_924,
        K.MEMCPY: 1_390,
        K.MEMSET: 277,
    }
    assert trace.health.events == 108_936
    assert trace.health.skipped["flow arrows"] == 35_071 + 6_600
    assert trace.health.kernels_without_launch == 872
    assert trace.health.dropped == {}
    assert trace.world_size == 16


def test_trace_diff_control(kineto: Path) -> None:
    """Rank 3 of 8; every launch has its kernel."""
    trace = read_paths(kineto / "trace_diff_control_control.json.gz")
    assert trace.ranks == (3,)
    assert trace.health.events == 109_123
    assert kinds(trace)[K.KERNEL] == 8_568
    assert (trace.health.launches_without_kernel, trace.health.kernels_without_launch) == (0, 0)


def test_dlrm_has_eight_ranks_on_one_clock(kineto: Path) -> None:
    """An archive of eight files; their ranks are in distributedInfo, their kernels counted file by file."""
    trace = read_paths(kineto / "dlrm_kineto.tar.gz")
    assert trace.ranks == tuple(range(8))
    kernels = [int(((trace.rank == r) & (trace.kind == K.KERNEL)).sum()) for r in range(8)]
    assert kernels == [245, 310, 246, 315, 251, 245, 246, 246]
    assert Counter(trace.collectives.kind.tolist()) == {CollectiveKind.ALL_TO_ALL: 40, CollectiveKind.ALL_REDUCE: 24}


def test_dlrm_bytes_come_from_the_op_around_the_launch(kineto: Path) -> None:
    """Rank 2's first all-to-all moves 6,144 floats in and out; rank 2's 394,241-float all-reduce is 1,576,964 bytes."""
    trace = read_paths(kineto / "dlrm_kineto.tar.gz")
    first = at(trace, "1694128201431422", "ncclKernel_SendRecv")
    row = int(trace.comm[first])
    comms = trace.collectives
    assert (comms.in_nbytes[row], comms.out_nbytes[row]) == (24_576, 24_576)
    assert comms.nbytes[(comms.kind == CollectiveKind.ALL_REDUCE)].max() == 4 * 394_241


def test_nccl_metadata_on_kernels(kineto: Path) -> None:
    """15 all-reduces and 6 broadcasts; one of 6,637,568 floats."""
    trace = read_paths(kineto / "nccl_parser_config_nccl_data.json.gz")
    assert Counter(trace.collectives.kind.tolist()) == {CollectiveKind.ALL_REDUCE: 15, CollectiveKind.BROADCAST: 6}
    event = at(trace, "1716423323009853.422", "ncclKernel_AllReduce")  # base 1711964646 s + 4458677009853.422 us
    assert trace.dur_ns[event] == 2_636_669
    assert trace.collectives.nbytes[trace.comm[event]] == 26_550_272
    assert [(group.name, group.ranks) for group in trace.groups] == [("0", (0, 1))]


def test_deepseek_dispatchers_by_name(kineto: Path) -> None:
    """12 cached_notify and 4 notify_dispatch, 8 dispatch, 8 combine; the 4 layout kernels are compute."""
    trace = read_paths(kineto / "deepseek_v3_train_h800.json")
    assert Counter(trace.collectives.kind.tolist()) == {
        CollectiveKind.NOTIFY: 16,
        CollectiveKind.DISPATCH: 8,
        CollectiveKind.COMBINE: 8,
    }
    assert (trace.device, trace.world_size) == ("NVIDIA H800", 64)
    assert trace.health.warnings == ()


def test_cuda_sync_rows(kineto: Path) -> None:
    """Two Event Syncs wait for the record of correlation 1533 on stream 7."""
    trace = read_paths(kineto / "critical_path_cuda_event_sync_event_sync_trace.json.gz")
    assert kinds(trace)[K.SYNC] == 4
    assert trace.wait_on_record[trace.wait_on_record >= 0].tolist() == [1533, 1533]
    assert trace.wait_on_stream[trace.wait_on_record >= 0].tolist() == [7, 7]


def test_cpu_rank_with_gloo(kineto: Path) -> None:
    """Ten all-reduces of 321,271 or 2,082,411 floats on two threads; rank from the file's name or header."""
    trace = read_paths(kineto / "cpu_only_rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz")
    assert trace.ranks == (34,)
    assert Counter(trace.collectives.nbytes.tolist()) == {4 * 321_271: 5, 4 * 2_082_411: 5}


@pytest.mark.parametrize(("name", "kernels", "modules"), [("h100", 1_465, 4_262), ("mi300", 1_516, 4_266)])
def test_the_same_model_on_two_vendors(kineto: Path, name: str, kernels: int, modules: int) -> None:
    """Graph replay: kernels without a launch of their own; python functions but for modules are left out."""
    trace = read_paths(kineto / f"{name}_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz")
    count = kinds(trace)
    assert count[K.KERNEL] == kernels
    assert count[K.MODULE] + trace.health.skipped["python functions"] == modules


def test_two_ranks_of_one_step(kineto: Path) -> None:
    """Down-sampled files of ranks 0 and 1 of 128."""
    paths = [kineto / f"trace_filter_sampled_rank-{rank}.json.gz" for rank in (0, 1)]
    trace = read_paths(*paths)
    assert (trace.ranks, trace.world_size) == ((0, 1), 128)
    assert [int(((trace.rank == r) & (trace.kind == K.KERNEL)).sum()) for r in (0, 1)] == [1_154, 1_104]


def test_unrelated_files_are_refused(kineto: Path) -> None:
    """The folder holds traces of many runs."""
    with pytest.raises(parsers.TraceError, match="give the files of one"):
        parsers.read([kineto])
