"""What an inspection says about a training log, as frozen values whose field names are keys of the JSON output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from replay.core.columns import Bool, Float64, Int32, Int64
from replay.core.units import GIB, NS_PER_S, ns_to_ms, percent
from replay.costs.logged_flops import Iteration, implied
from replay.costs.training_flops import lacking, training_flops, utilisation, with_recomputation
from replay.layout import Layout
from replay.model import ModelSpec
from replay.runlog import NOT_LOGGED, STARTUP, RunLog, SteadyStep, steady_rows

LEVEL_2 = frozenset((
    "batch-generator", "forward-compute", "backward-compute", "forward-recv", "forward-send", "backward-recv",
    "backward-send", "forward-send-forward-recv", "forward-send-backward-recv", "backward-send-forward-recv",
    "backward-send-backward-recv", "forward-backward-send-forward-backward-recv",
))  # fmt: skip
"""Timers of Megatron's --timing-log-level 2; each start and stop synchronises the device."""

CONVENTION = (
    "model FLOP: 2 per multiply-add, backward = 2 forwards, half the attention matrix (causal), head counted, "
    "recomputation not counted"
)

PRINTED_STEP = 0.05  # half of the last digit of a logged TFLOP/s
BEST_RESOLUTION = 1e-4  # of a step printed in tenths of milliseconds


@dataclass(frozen=True, slots=True)
class TimerRow:
    """One timer over the steady iterations, milliseconds an iteration; a timer may contain others."""

    name: str
    min_ms: float
    max_ms: float
    mean_ms: float | None
    share_pct: float  # of the steady step; of the largest value where ranks differ
    level_2: bool


@dataclass(frozen=True, slots=True)
class Formula:
    """The FLOP formula that a logged TFLOP/s implies; ``same`` are others that give this number too."""

    name: str
    counts: str
    ratio: float
    same: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlopsFacts:
    """Our own count of an iteration, and the share of the peak that it makes."""

    convention: str
    flop: float | None = None
    flop_whole_attention: float | None = None  # Narayanan et al., PaLM: not halved
    flop_executed: float | None = None  # with recomputation
    tflops_per_device: float | None = None
    peak_flop_per_s: float | None = None
    peak_source: str = ""
    mfu: float | None = None
    mfu_whole_attention: float | None = None
    hfu: float | None = None
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """Lines behind the steady step, what the log itself claims, and where its timers say the time goes."""

    runs: int
    run_used: int | None
    first_iteration: int | None
    last_iteration: int | None
    steady_lines: int
    warmup_lines: int
    checkpoint_lines: int
    evaluation_lines: int
    skipped_update_lines: int
    logged_tflops_per_device: float | None
    logged_tokens_per_s_per_device: float | None
    logged_formula: Formula | None
    flops: FlopsFacts
    timers: tuple[TimerRow, ...]
    timers_across_ranks: bool
    parameters_largest_rank: int | None
    theoretical: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Peak:
    """FLOP/s of one device and where the number is from."""

    flop_per_s: float
    source: str


@dataclass(frozen=True, slots=True)
class Job:
    """The measured job: its log, what is known about it, and its steady step."""

    log: RunLog
    model: ModelSpec
    layout: Layout | None
    step: SteadyStep | None
    peak: Peak | None = None

    @property
    def sequences(self) -> int | None:
        """Sequences an iteration: as logged on the steady lines, else the layout's or the stated global batch."""
        if self.step is not None:
            logged = self.log.iterations.global_batch[steady_rows(self.log.iterations, self.step.run)]
            if (logged > 0).any():
                return int(np.median(logged[logged > 0]))
        stated = self.layout.gbs if self.layout else self.log.stated.get("gbs")
        return stated if isinstance(stated, int) else None

    @property
    def devices(self) -> int | None:
        """World size, where it is known."""
        world = self.layout.world_size if self.layout else self.log.stated.get("world_size")
        return world if isinstance(world, int) else None


def log_facts(job: Job) -> LogFacts:
    """Everything an inspection says about a log beyond its step."""
    iterations = job.log.iterations
    rows = _rows(job)
    timers = timer_rows(job)
    return LogFacts(
        runs=job.log.runs,
        run_used=job.step.run if job.step else None,
        first_iteration=int(iterations.iteration[0]) if len(iterations) else None,
        last_iteration=int(iterations.iteration[-1]) if len(iterations) else None,
        steady_lines=int(rows.sum()),
        warmup_lines=int(iterations.is_warmup.sum()),
        checkpoint_lines=int(iterations.is_checkpoint.sum()),
        evaluation_lines=int(iterations.is_evaluation.sum()),
        skipped_update_lines=int((iterations.skipped > 0).sum()),
        logged_tflops_per_device=_median(iterations.tflops_per_device[rows]),
        logged_tokens_per_s_per_device=_median(iterations.tokens_per_s_per_device[rows]),
        logged_formula=logged_formula(job),
        flops=flops_facts(job),
        timers=timers,
        timers_across_ranks=any(row.mean_ms is None or row.min_ms != row.max_ms for row in timers),
        parameters_largest_rank=max(job.log.parameters.values(), default=None),
        theoretical=job.log.theoretical,
    )


def metrics(job: Job) -> dict[str, float | int | None]:
    """Tokens/s of the steady step, of the job and of a device, and MFU."""
    found: dict[str, float | int | None] = {"tokens_per_s": None, "tokens_per_s_per_device": None, "mfu": None}
    seq = job.model.seq
    if job.step and job.sequences and seq:
        rate = job.sequences * seq / (job.step.step_ns / NS_PER_S)
        found |= {"tokens_per_s": rate, "tokens_per_s_per_device": rate / job.devices if job.devices else None}
    found["mfu"] = flops_facts(job).mfu
    return found


def flops_facts(job: Job) -> FlopsFacts:
    """Our count, or the names of what it lacks."""
    missing = lacking(job.model)
    if job.sequences is None:
        missing = (*missing, "gbs")
    if missing or job.sequences is None:
        return FlopsFacts(convention=CONVENTION, lacking=missing)
    counted = training_flops(job.model, job.sequences)
    whole = training_flops(job.model, job.sequences, causal=False)
    executed = with_recomputation(counted, _recompute(job.log))
    facts = FlopsFacts(
        convention=CONVENTION, flop=counted.total, flop_whole_attention=whole.total, flop_executed=executed
    )
    if job.step is None or job.devices is None:
        return replace(facts, lacking=() if job.step is None else ("world_size",))
    seconds = job.step.step_ns / NS_PER_S
    facts = replace(facts, tflops_per_device=counted.total / seconds / job.devices / 1e12)
    if job.peak is None:
        return facts
    peak = job.peak.flop_per_s
    return replace(
        facts,
        peak_flop_per_s=peak,
        peak_source=job.peak.source,
        mfu=utilisation(counted.total, seconds, job.devices, peak),
        mfu_whole_attention=utilisation(whole.total, seconds, job.devices, peak),
        hfu=utilisation(executed, seconds, job.devices, peak),
    )


def logged_formula(job: Job) -> Formula | None:
    """The formula that the steady lines' TFLOP/s imply: median of logged TFLOP/s · time · devices."""
    rows = _rows(job)
    iterations = job.log.iterations
    flop = _median(iterations.tflops_per_device[rows] * 1e12 * iterations.elapsed_ns[rows] / NS_PER_S)
    if flop is None or job.sequences is None or job.devices is None:
        return None
    printed = _median(iterations.tflops_per_device[rows]) or 0.0
    resolution = max(BEST_RESOLUTION, PRINTED_STEP / printed) if printed > 0 else BEST_RESOLUTION
    found = implied(flop * job.devices, Iteration(job.model, job.sequences, _recompute(job.log)), resolution)
    if found is None:
        return None
    same = tuple(generation.name for generation in found.same)
    return Formula(found.generation.name, found.generation.counts, found.ratio, same)


def timer_rows(job: Job) -> tuple[TimerRow, ...]:
    """Means over the steady iterations, largest first; the start-up block where no iteration has timers."""
    log, timers = job.log, job.log.timers
    if job.step is None:
        return ()
    steady = log.iterations.iteration[steady_rows(log.iterations, job.step.run)]
    here = (timers.run == job.step.run) & (timers.iteration != STARTUP) & np.isin(timers.iteration, steady)
    rows = []
    for code in dict.fromkeys(timers.name[here].tolist()):
        of = here & (timers.name == code)
        low, high = float(timers.min_ns[of].mean()), float(timers.max_ns[of].mean())
        known = (timers.mean_ns[of] != NOT_LOGGED).all()
        mean = ns_to_ms(float(timers.mean_ns[of].mean())) if known else None
        name = timers.names[code]
        share = percent(high, job.step.step_ns)
        rows.append(TimerRow(name, ns_to_ms(low), ns_to_ms(high), mean, share, name in LEVEL_2))
    return tuple(sorted(rows, key=lambda row: -row.max_ms))


def memory_facts(job: Job) -> dict[str, Any]:
    """Largest allocation of every pipeline stage and of the job, GiB, of the run used; peak of what is reserved."""
    memory = job.log.memory
    here = memory.run == (job.step.run if job.step else 0)
    peaks = memory.max_allocated_nbytes[here], memory.max_reserved_nbytes[here]
    return peak_facts(memory.rank[here], *peaks, job.layout)


def peak_facts(rank: Int32, allocated: Int64, reserved: Int64, layout: Layout | None) -> dict[str, Any]:
    """The same of peaks, bytes, that some ranks reported; -1 unknown."""
    facts: dict[str, Any] = {"per_stage_gib": [], "peak_gib": None}
    if (reserved >= 0).any():
        facts["peak_reserved_gib"] = float(reserved.max()) / GIB
    if not (allocated >= 0).any():
        return facts
    facts["peak_gib"] = float(allocated.max()) / GIB
    if layout and int(rank.max()) < layout.world_size:
        stages = _stage(rank, layout)
        peaks = [allocated[(stages == stage) & (allocated >= 0)] for stage in range(layout.pp)]
        facts["per_stage_gib"] = [float(largest.max()) / GIB if len(largest) else None for largest in peaks]
    return facts


def _stage(rank: Any, layout: Layout) -> Any:
    """Pipeline stage of a rank; pp varies slowest unless the order says it comes before dp."""
    inner = layout.tp * layout.cp * (1 if layout.rank_order.endswith("pp-dp") else layout.dp)
    return rank // inner % layout.pp


def _rows(job: Job) -> Bool:
    if job.step is None:
        return np.zeros(len(job.log.iterations), np.bool_)
    return steady_rows(job.log.iterations, job.step.run)


def _recompute(log: RunLog) -> str | None:
    value = log.stated.get("recompute")
    return value if isinstance(value, str) else None


def _median(values: Float64) -> float | None:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else None
