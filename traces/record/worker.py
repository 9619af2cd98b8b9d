"""One rank: creates its groups, trains without and with the profiler, writes its trace."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, schedule

from traces.record import gloo, groups, realtime
from traces.record.communicators import Communicators
from traces.record.device import Device
from traces.record.durations import Durations
from traces.record.export import export
from traces.record.job import Job
from traces.record.manifest import StepTimes, manifest, median_index, spans_ms, write
from traces.record.model import DeviceWork
from traces.record.step import TrainingStep

DEVICES_PER_NODE = 8
_WARMUP_STEPS = 2
_SWITCH_S = 2e-4  # how long a thread may keep the interpreter when a stream's thread wants it


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run and where to write it. ``traces`` false keeps the numbers only."""

    job: Job
    out: Path
    plain_steps: int = 12
    profiled_steps: int = 7
    traces: bool = True
    scale: float = 1.0
    command: str = ""


def work(rank: int, plan: Plan, store: str) -> None:
    """Entry point of a rank's process; ``store`` is the file where the processes find each other."""
    _prepare_process()
    _connect(rank, plan, store)
    communicators = Communicators(plan.job, rank)
    dist.barrier()
    scheduling = realtime.enter_with_transport()
    device = Device(ranges=plan.job.ranges)
    device_work = DeviceWork(plan.job, Durations(scale=plan.scale), rank)
    step = TrainingStep(plan.job, rank, device, communicators, device_work)
    plain = _train(step, device, plan.plain_steps)
    profiler, profiled = _train_profiled(step, device, plan)
    step.close()
    device.close()
    realtime.leave()
    if plan.traces:
        _export(profiler, profiled, device, plan, rank)
    dist.barrier()
    if rank == 0:
        options = {**plan.job.options(), "scale": plan.scale, "scheduling": scheduling}
        write(plan.out, manifest(plan.job, options, plain, profiled, command=plan.command, torch=torch.__version__))
    dist.barrier()
    dist.destroy_process_group()


def _connect(rank: int, plan: Plan, store: str) -> None:
    gloo.register()
    dist.init_process_group(
        groups.BACKEND, init_method=f"file://{store}", rank=rank, world_size=plan.job.world_size, timeout=gloo.TIMEOUT
    )


def _prepare_process() -> None:
    """One thread for torch, short turns for Python threads, and no rank that lives on with a dead stream."""
    torch.set_num_threads(1)
    sys.setswitchinterval(_SWITCH_S)
    gc.disable()

    def die(failure: threading.ExceptHookArgs) -> None:
        traceback.print_exception(failure.exc_type, failure.exc_value, failure.exc_traceback)
        os._exit(1)

    threading.excepthook = die


def _train(step: TrainingStep, device: Device, count: int) -> StepTimes:
    spans = []
    for number in range(_WARMUP_STEPS + count):
        if number == _WARMUP_STEPS:
            _barrier()
        device.calls.clear()
        start = time.monotonic_ns()
        step.run()
        spans.append((start, time.monotonic_ns()))
    return _gather(spans[_WARMUP_STEPS:])


def _train_profiled(step: TrainingStep, device: Device, plan: Plan) -> tuple[profile, StepTimes]:
    """Train inside torch.profiler. No rank stops its profiler, which is work, while another is in its last step."""
    spans = []
    device.calls.clear()
    profiler = profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=_WARMUP_STEPS, active=plan.profiled_steps + 1, repeat=1),
        experimental_config=_ExperimentalConfig(profile_all_threads=True, trace_only=True),
    )
    with profiler:
        for _ in range(_WARMUP_STEPS + plan.profiled_steps):
            start = time.monotonic_ns()
            step.run()
            spans.append((start, time.monotonic_ns()))
            profiler.step()
        _barrier()
    return profiler, _gather(spans[_WARMUP_STEPS:])


def _export(profiler: profile, profiled: StepTimes, device: Device, plan: Plan, rank: int) -> None:
    """Write the step whose span is the median of the profiled ones."""
    chosen = _WARMUP_STEPS + median_index(spans_ms(profiled))
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "raw.json"
        profiler.export_chrome_trace(str(raw))
        export(raw, plan.out / f"rank{rank}.json.gz", device.calls, chosen, rank % DEVICES_PER_NODE)


def _barrier() -> None:
    """Meet all ranks; see :mod:`traces.record.realtime` for the level that takes."""
    realtime.enter(realtime.Level.STREAM)
    dist.barrier()
    realtime.enter(realtime.Level.HOST)


def _gather(spans: list[tuple[int, int]]) -> StepTimes:
    """(start, end) of every step on every rank."""
    everyone: list[Any] = [None] * dist.get_world_size()
    realtime.enter(realtime.Level.STREAM)
    dist.all_gather_object(everyone, spans)
    realtime.enter(realtime.Level.HOST)
    return everyone
