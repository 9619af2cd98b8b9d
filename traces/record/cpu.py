"""One rank of a real training job on the CPU: trains without and with the profiler, writes its trace and times."""

from __future__ import annotations

import gc
import os
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule

from traces.record import processes
from traces.record.cpu_step import CpuStep, create_groups
from traces.record.cpu_trace import cut
from traces.record.job import Job
from traces.record.manifest import StepTimes, manifest, median_index, spans_ms, write

DEVICE = "cpu"
_TIMEOUT = timedelta(minutes=2)
_WARMUP_STEPS = 3
_SESSION = Path("/proc/self/autogroup")
_PRIORITY = -20  # real-time scheduling would be throttled to 95 % of a core, in pauses of 50 ms


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """What to run and where to write it."""

    job: Job
    out: Path
    plain_steps: int = 12
    profiled_steps: int = 11
    command: str = ""


def record(plan: CpuPlan) -> None:
    """Run the plan, one process a rank; traces and ``run.json`` lie in ``plan.out`` afterwards."""
    processes.make_room(plan.out)
    processes.start(work, plan, plan.job.world_size)


def work(rank: int, plan: CpuPlan, store: str) -> None:
    """Entry point of a rank's process; ``store`` is the file where the processes find each other."""
    scheduling = _prepare_process(rank)
    size = plan.job.world_size
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=_TIMEOUT)
    step = CpuStep(plan.job, rank, create_groups(plan.job, rank))
    plain = _gather(_train(step, _WARMUP_STEPS + plan.plain_steps)[_WARMUP_STEPS:])
    profiler, spans = _train_profiled(step, plan.profiled_steps)
    profiled = _gather(spans)
    chosen = _WARMUP_STEPS + median_index(spans_ms(profiled))
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "raw.json"
        profiler.export_chrome_trace(str(raw))
        cut(raw, plan.out / f"rank{rank}.json.gz", chosen)
    if rank == 0:
        options = {**plan.job.options(), "scheduling": scheduling}
        contents = manifest(plan.job, options, plain, profiled, command=plan.command, torch=torch.__version__)
        write(plan.out, contents | {"device": DEVICE})
    dist.barrier()
    dist.destroy_process_group()


def _prepare_process(rank: int) -> str:
    """One thread on a core of its own, before others where that is permitted; returns how it is scheduled."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    gc.disable()
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    return _before_others()


def _before_others() -> str:
    """Take the core before all normal work where that is permitted; returns how the process is scheduled.

    Linux shares cores among sessions before it looks at the niceness of their processes, so the rank gets a session of
    its own, and both get the priority.
    """
    try:
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
        if _SESSION.exists():
            os.setsid()
            _SESSION.write_text(str(_PRIORITY))
    except PermissionError:
        return "normal"
    return f"nice {_PRIORITY}"


def _train(step: CpuStep, count: int) -> list[tuple[int, int]]:
    """Host start and end of every step, ns."""
    spans = []
    for _ in range(count):
        start = time.monotonic_ns()
        step.run()
        spans.append((start, time.monotonic_ns()))
    return spans


def _train_profiled(step: CpuStep, count: int) -> tuple[profile, list[tuple[int, int]]]:
    """Train inside torch.profiler. No rank stops its profiler, which is work, while another is in its last step."""
    spans = []
    profiler = profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=_WARMUP_STEPS, active=count + 1, repeat=1),
        record_shapes=True,
    )
    with profiler:
        for _ in range(_WARMUP_STEPS + count):
            start = time.monotonic_ns()
            step.run()
            spans.append((start, time.monotonic_ns()))
            profiler.step()
        dist.barrier()
    return profiler, spans[_WARMUP_STEPS:]


def _gather(spans: list[tuple[int, int]]) -> StepTimes:
    """(start, end) of every step on every rank."""
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, spans)
    return everyone
