"""Communication: where its metadata is found, what it says, and what is not communication."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parsers._comm_names import dtype_nbytes, kind_of_kernel, kind_of_name
from replay.trace import CollectiveKind, CommEvidence, Group
from tests.parsers.chrome import call, kernel, names, read, span, text

K = CollectiveKind
NCCL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def metadata(name: str, **more: Any) -> dict[str, Any]:
    """Args as PyTorch writes them for a group of two."""
    return {
        "Collective name": name,
        "In msg nelems": 1024,
        "Out msg nelems": 2048,
        "Group size": 2,
        "dtype": "BFloat16",
        "Process Group Name": "14",
        "Process Group Ranks": "[0, 1]",
        **more,
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", K.ALL_REDUCE),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", K.ALL_GATHER),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", K.REDUCE_SCATTER),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", K.SEND_RECV),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", K.UNKNOWN),
        ("hcom_allReduce__586_0_1", K.ALL_REDUCE),
        ("void deep_ep::internode::dispatch<false, 4>(int)", K.DISPATCH),
        ("void deep_ep::intranode::combine<__nv_bfloat16, 8>(int)", K.COMBINE),
        ("void dpsk::ep::internode::cached_notify<false>(int, int)", K.NOTIFY),
        ("void deep_ep::internode::notify_dispatch<false, 8>(int const*)", K.NOTIFY),
        ("void deep_ep::internode_ll::dispatch<true>(void*)", K.DISPATCH),
        ("void vllm::cross_device_reduce_1stage<half, 8>(vllm::RankData*)", K.ALL_REDUCE),
        ("nvshmemi_alltoall_kernel", K.ALL_TO_ALL),
        ("void deep_ep::internode::get_dispatch_layout<256, 32, 8>(long const*)", None),
        ("void cub::DeviceReduceByKeyKernel<cub::DispatchReduceByKey<long>>(int)", None),
        ("void at::native::reduce_kernel<512, 1>(int)", None),
    ],
)
def test_kind_of_kernel_by_name(name: str, kind: CollectiveKind | None) -> None:
    """Libraries by their prefix, dispatchers by their namespace; the layout kernel only counts."""
    assert kind_of_kernel(name) is kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("allreduce", K.ALL_REDUCE),
        ("_allgather_base", K.ALL_GATHER),
        ("allgather_into_tensor_coalesced", K.ALL_GATHER),
        ("reduce_scatter_tensor_coalesced", K.REDUCE_SCATTER),
        ("all_to_allv", K.ALL_TO_ALL),
        ("_broadcast_oop", K.BROADCAST),
        ("nccl:send 2->3", K.SEND),
        ("something_new", K.UNKNOWN),
    ],
)
def test_kind_of_collective_name(name: str, kind: CollectiveKind) -> None:
    """An unknown name is a class, not a crash."""
    assert kind_of_name(name) is kind


@pytest.mark.parametrize(
    ("dtype", "size"), [("Float8_e4m3fn", 1), ("BFloat16", 2), ("c10::BFloat16", 2), ("long int", 8), ("QInt8", 0)]
)
def test_size_of_types(dtype: str, size: int) -> None:
    """c10 and C++ spellings; 0 where unknown."""
    assert dtype_nbytes(dtype) == size


def test_more_than_any_memory_is_no_size(tmp_path: Path) -> None:
    """2^63 - 1 elements of 2 bytes are beyond int64, 2^55 bytes beyond any device."""
    own = metadata("all_to_allv", **{"In msg nelems": 2**63 - 1, "Out msg nelems": 2**54})
    comms = read(tmp_path, text([kernel(NCCL, 1000, 3, **own)])).collectives
    assert (comms.in_nbytes.tolist(), comms.out_nbytes.tolist()) == ([-1], [-1])


def test_metadata_on_the_kernel(tmp_path: Path) -> None:
    """1024 and 2048 BFloat16 elements are 2 KiB and 4 KiB."""
    own = metadata("all_to_allv", **{"In split size": "[512, 512]", "Seq": 9})
    trace = read(tmp_path, text([kernel(NCCL, 1000, 3, **own)]))
    comms = trace.collectives
    assert comms.kind.tolist() == [K.ALL_TO_ALL]
    assert (comms.in_nbytes.tolist(), comms.out_nbytes.tolist()) == ([2048], [4096])
    assert comms.in_split.row(0).tolist() == [512, 512]
    assert comms.sequence.tolist() == [9]
    assert comms.evidence.tolist() == [CommEvidence.KERNEL_ARGS]
    assert trace.groups == (Group("14", "", (0, 1), 2),)


def test_metadata_from_the_op_around_the_launch(tmp_path: Path) -> None:
    """The kernel has none; the op on the launch's thread has. A nested range adds nothing and takes nothing away."""
    rows = [
        span("c10d::allreduce_", 1000, 100),
        span("record_param_comms", 1010, 80, args=metadata("allreduce")),
        span("nccl:all_reduce", 1020, 60, cat="user_annotation"),
        call("cudaLaunchKernelExC", 1030, 3),
        span("record_param_comms", 1010, 80, tid=2, args=metadata("broadcast")),
        kernel(NCCL, 1200, 3),
    ]
    trace = read(tmp_path, text(rows))
    assert trace.collectives.kind.tolist() == [K.ALL_REDUCE]
    assert trace.collectives.nbytes.tolist() == [4096]
    assert trace.collectives.evidence.tolist() == [CommEvidence.PARENT_OP]
    assert trace.health.inferred == {"collectives described by the op around their launch": 1}


def test_bytes_from_shapes_where_no_metadata_exists(tmp_path: Path) -> None:
    """PyTorch before 2.2: c10d's op lists (output, input), nccl's range the input alone."""
    c10d = {"Input Dims": [[3392], [2304], [], []], "Input type": ["int", "int", "", ""]}
    rows = [
        span("c10d::alltoall_base_", 1000, 100, args=c10d),
        span("record_param_comms", 1010, 80, args={"Input Dims": [[2304], []], "Input type": ["int", "Scalar"]}),
        span("nccl:all_to_all", 1020, 60, args={"Input Dims": [[2304]], "Input type": ["int"]}),
        call("cudaLaunchKernel", 1030, 3),
        kernel(NCCL, 1200, 3),
    ]
    comms = read(tmp_path, text(rows)).collectives
    assert comms.kind.tolist() == [K.ALL_TO_ALL]
    assert (comms.in_nbytes.tolist(), comms.out_nbytes.tolist()) == ([4 * 2304], [4 * 3392])


def test_coalesced_kernel_gets_the_ops_before_it(tmp_path: Path) -> None:
    """Launched at the group's end, outside of the ops it stands for: a send and a receive are one exchange."""
    rows = [
        span("record_param_comms", 1000, 5, args=metadata("send", **{"Dst Rank": 1})),
        span("record_param_comms", 1010, 5, args=metadata("recv", **{"Src Rank": 1})),
        span("record_param_comms", 1016, 1, args=metadata("wait")),
        call("cudaLaunchKernelExC", 1020, 3),
        kernel(NCCL, 1200, 3),
        call("cudaLaunchKernelExC", 1220, 4),
        kernel(NCCL, 1300, 4),
    ]
    trace = read(tmp_path, text(rows))
    assert trace.collectives.kind.tolist() == [K.SEND_RECV, K.SEND_RECV]
    assert (trace.collectives.in_nbytes[0], trace.collectives.out_nbytes[0]) == (2048, 4096)
    assert trace.collectives.peer.tolist() == [1, -1]
    assert trace.collectives.evidence.tolist() == [CommEvidence.PARENT_OP, CommEvidence.NAME]


def test_wait_and_init_are_not_transfers(tmp_path: Path) -> None:
    """Their name is in the same field."""
    trace = read(tmp_path, text([span("record_param_comms", args=metadata(name)) for name in ("wait", "init")]))
    assert len(trace.collectives) == 0


def test_shortened_rank_list_is_read_from_start_and_stride(tmp_path: Path) -> None:
    """Lists of more than 30 ranks are cut to "..."; the op around the launch has start, stride and size."""
    long = {"Process Group Ranks": "[0, 8, ..x29.., ...]", "Group size": 64}
    around = metadata("allreduce", **long, **{"Global rank start": 0, "Global rank stride": 8})
    rows = [
        span("record_param_comms", 1000, 50, args=around),
        call("cudaLaunchKernel", 1010, 3),
        kernel(NCCL, 1100, 3, **metadata("allreduce", **long)),
    ]
    (group,) = read(tmp_path, text(rows)).groups
    assert group.ranks == tuple(range(0, 512, 8))


def test_group_listed_in_the_header_as_text(tmp_path: Path) -> None:
    """On-demand traces write the ranks as a string; an event names the group."""
    config = [{"pg_name": "14", "pg_desc": "tp", "pg_size": 4, "ranks": "[4, 5, 6, 7]"}]
    own = metadata("allreduce", **{"Process Group Ranks": "", "Group size": 4})
    info = {"rank": 5, "pg_config": config}
    trace = read(tmp_path, text([kernel(NCCL, 1000, 3, **own)], distributedInfo=info))
    assert trace.groups == (Group("14", "tp", (4, 5, 6, 7), 4),)
    assert trace.collectives.group.tolist() == [0]


def test_gloo_range_is_the_transfer_on_a_cpu_rank(tmp_path: Path) -> None:
    """321,271 floats; the op that started it is not a second transfer."""
    rows = [
        span("c10d::allreduce_", 1000, 10),
        span("gloo:all_reduce", 1005, 900, tid=2, args={"Input Dims": [[321271]], "Input type": ["float"]}),
    ]
    trace = read(tmp_path, text(rows))
    assert [names(trace)[i] for i in range(2) if trace.comm[i] >= 0] == ["gloo:all_reduce"]
    assert trace.collectives.nbytes.tolist() == [4 * 321271]


def test_enqueueing_is_not_a_transfer(tmp_path: Path) -> None:
    """A trace whose kernels were left out has no communication times."""
    assert len(read(tmp_path, text([span("nccl:all_to_all", 1000, 10)])).collectives) == 0


def test_unrecognised_communication_is_named_with_its_share(tmp_path: Path) -> None:
    """It counts as compute, and the user must know."""
    rows = [kernel("my_all_reduce_v2", 1000, 1, 10), kernel("gemm", 1100, 2, 30)]
    (warning,) = read(tmp_path, text(rows)).health.warnings
    assert warning == (
        "1 kernels look like communication but are not recognised and count as compute (25.0 % of kernel time): "
        "my_all_reduce_v2"
    )
