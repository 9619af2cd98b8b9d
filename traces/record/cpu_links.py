"""Microbenchmarks of Gloo between two processes with real buffers: what the ``cpu`` runs' links are calibrated from."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist

from traces.record import processes
from traces.record.link_tests import ITERATIONS, WARMUP, table

WORLD = 2
NBYTES = tuple(1 << power for power in range(12, 26))  # 4 KiB to 32 MiB
TESTS = ("all_reduce", "sendrecv")


def record_cpu_links(out: Path) -> None:
    """Run both tests; ``out`` is the log, in the form of nccl-tests."""
    processes.start(_work, out, WORLD)


def _work(rank: int, out: Path, store: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    log = [table(test, WORLD, dict(_times(test, rank)), device="CPU") for test in TESTS]
    if rank == 0:
        out.write_text("".join(log))
    dist.barrier()
    dist.destroy_process_group()


def _times(test: str, rank: int) -> Iterator[tuple[int, float]]:
    """Mean time of one call by size, us."""
    for nbytes in NBYTES:
        sent, received = torch.zeros(nbytes // 4), torch.empty(nbytes // 4)
        for count in (WARMUP, ITERATIONS):
            dist.barrier()
            start = time.monotonic_ns()
            for _ in range(count):
                if test == "all_reduce":
                    dist.all_reduce(sent)
                else:
                    posted = dist.isend(sent, 1 - rank)
                    dist.recv(received, 1 - rank)
                    if posted is not None:
                        posted.wait()
            elapsed = time.monotonic_ns() - start
        yield nbytes, elapsed / ITERATIONS / 1e3
