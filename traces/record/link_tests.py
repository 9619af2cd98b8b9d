"""Microbenchmarks of the emulated links, printed as nccl-tests prints them: ``python -m traces.record links``.

Eight processes run each collective of each size among the first two, four and eight of them, on the same emulated
devices, groups and table as training does, and time it from the host. So the links are calibrated as those of a real
cluster are: from a log, with ``replay calibrate``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist

from traces.record import gloo, groups, processes, realtime
from traces.record.calls import NO_ARGS, Meeting
from traces.record.communicators import Channel, Communicator, meet
from traces.record.device import Device
from traces.record.durations import Durations

WORLD = 8
GROUP_SIZES = (2, 4, 8)
NBYTES = tuple(1 << power for power in range(15, 29))  # 32 KiB to 256 MiB
WARMUP, ITERATIONS = 2, 5
TESTS = ("all_reduce", "alltoall", "sendrecv")
_HEADER = """# nccl-tests version 2.17.8
# Collective test starting: {test}_perf
# nThread 1 nGpus 1 minBytes {least} maxBytes {most} step: 2(factor) warmup iters: {warmup} iters: {iterations} \
agg iters: 1 validation: 0 graph: 0
#
# Using devices
{ranks}
#
#                                                              out-of-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the log goes, and the factor on all device durations (that of the runs it is for)."""

    out: Path
    scale: float


def record_links(plan: Plan) -> None:
    """Run all tests; ``plan.out`` is the log."""
    processes.start(_work, plan, WORLD, preload=__name__)


def duration_ns(durations: Durations, test: str, nbytes: int, size: int) -> int:
    """Duration on the device of one collective; ``nbytes`` is the whole buffer of a rank."""
    if test == "all_reduce":
        return durations.all_reduce(nbytes, size)
    return durations.all_to_all(nbytes // size, size) if test == "alltoall" else durations.point_to_point(nbytes)


def table(test: str, size: int, times_us: dict[int, float], device: str = "emulated") -> str:
    """The log of one test on ``size`` such devices; bus bandwidth by the factors of nccl-tests' PERFORMANCE.md."""
    factor = {"all_reduce": 2 * (size - 1) / size, "alltoall": (size - 1) / size, "sendrecv": 1.0}[test]
    ranks = "\n".join(
        f"#  Rank {rank:2d} Group  0 Pid {rank + 1:6d} on node0 device {rank:2d} [0000:00:00] {device}"
        for rank in range(size)
    )
    rows = [
        f"{nbytes:12d}{nbytes // 4:14d}{'float':>10}{'sum' if test == 'all_reduce' else 'none':>8}{-1:8d}"
        f"{time_us:9.2f}{nbytes / time_us / 1e3:8.2f}{factor * nbytes / time_us / 1e3:8.2f}{'N/A':>8}"
        for nbytes, time_us in times_us.items()
    ]
    header = _HEADER.format(
        test=test, least=min(times_us), most=max(times_us), warmup=WARMUP, iterations=ITERATIONS, ranks=ranks
    )
    return header + "\n".join(rows) + f"\n# Collective test concluded: {test}_perf\n\n"


def _work(rank: int, plan: Plan, store: str) -> None:
    gloo.register()
    dist.init_process_group(
        groups.BACKEND, init_method=f"file://{store}", rank=rank, world_size=WORLD, timeout=gloo.TIMEOUT
    )
    communicators = {size: _communicator(size) for size in GROUP_SIZES}
    dist.barrier()
    realtime.enter_with_transport()
    device, durations = Device(), Durations(scale=plan.scale)
    log = [
        table(test, size, dict(_times(device, communicator, durations, test)))
        for test in TESTS
        for size, communicator in communicators.items()
        if rank in communicator.ranks and not (test == "sendrecv" and size > 2)
    ]
    device.close()
    realtime.leave()
    if rank == 0:
        plan.out.write_text("".join(log))
    dist.barrier()
    dist.destroy_process_group()


def _communicator(size: int) -> Communicator:
    ranks = tuple(range(size))
    handle: Any = dist.new_group(list(ranks), backend=groups.BACKEND)
    channel = handle._get_backend(torch.device("cpu")) if dist.get_rank() in ranks else None
    return Communicator("", ranks, str(size), cast("Channel", channel))


def _times(device: Device, group: Communicator, durations: Durations, test: str) -> Iterator[tuple[int, float]]:
    """Mean time of one call by size, us: calls are queued back to back, as nccl-tests does."""
    meeting = Meeting(partial(meet, group), NO_ARGS)
    for nbytes in NBYTES:
        nanoseconds = duration_ns(durations, test, nbytes, len(group.ranks))
        for count in (WARMUP, ITERATIONS):
            device.calls.clear()
            start = time.monotonic_ns()
            for number in range(count):
                device.communicate("link", test, nanoseconds, meeting, number)
            device.synchronize()
            elapsed = time.monotonic_ns() - start
        yield nbytes, elapsed / ITERATIONS / 1e3
