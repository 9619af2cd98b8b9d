"""A training log: what can be told about it, and why nothing can be replayed from it."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import hwprofiles
from parsers._log_layout import layout_from
from parsers.model_config import read_model
from replay.core.errors import LayoutError, RefusedError
from replay.core.units import ns_to_ms
from replay.layout import Layout
from replay.model import ModelSpec
from replay.report.log_facts import Job, LogFacts, Peak, log_facts, memory_facts, metrics
from replay.report.result import InputFacts, Inspection, LayoutFacts, Topic
from replay.runlog import RunLog, steady_step
from replay.session.facts import health_facts
from replay.session.question import Facts
from replay.trace import Health

NO_OPS = "a training log holds step times, timers and memory, but no ops"
INSTEAD = "give a profiler trace or a pipeline recording of the same job"
PERTURBED = (
    "timers of level 2 synchronise the device at every start and stop: with them the step is slower and overlaps less "
    "than without (--timing-log-level 0 or 1 for the step to compare with)"
)
NO_UPDATE = "every iteration behind the step skipped its update (loss scale): the optimizer's time is not in it"
ALL_MARKED = "every line behind the step is warm-up, checkpoint or evaluation: there are no others"
PLAUSIBLE_MFU = 0.8  # of the peak of the precision that is used; the best published trainings stay below 0.7
OTHER_PRECISION = (
    "MFU is above 80 % of the peak it is taken of: the job computes at a lower precision (FP8, FP4) than the log says, "
    "or on another device"
)
UNKNOWN_FORMULA = "the logged TFLOP/s agree with none of the formulas known"


def refuse(log: RunLog) -> RefusedError:
    """Why a log cannot be run."""
    what = f"{', '.join(log.files)}: {NO_OPS}, so nothing can be replayed or predicted from it"
    return RefusedError(f"{what}; {INSTEAD}; `replay inspect` shows what the log holds")


def inspect(log: RunLog, facts: Facts) -> Inspection:
    """What a log holds: step, layout, model, throughput, memory, timers, health."""
    job = _job(log, facts)
    found = log_facts(job)
    return Inspection(
        input=_input(job),
        health=health_facts(_answered(log, job.layout)),
        layout=_layout_facts(job, facts),
        measured_step_ms=ns_to_ms(job.step.step_ns) if job.step else None,
        measured_step_spread_pct=job.step.spread_pct if job.step else None,
        model=job.model.to_json(),
        iterations_logged=len(log.iterations),
        metrics=metrics(job),
        memory=memory_facts(job),
        log=found,
        questions=(Topic("--tp, --pp, --ep, --scale, ...", False, INSTEAD),),
        nothing_to_replay=NO_OPS,
        warnings=tuple(_warnings(job, found)),
    )


def _job(log: RunLog, facts: Facts) -> Job:
    given = dict(facts.layout) | ({} if facts.microbatches is None else {"microbatches": facts.microbatches})
    layout = _given_layout(log, given) if given else log.layout
    model = _filled(read_model(facts.model), log.model) if facts.model else log.model
    model = model if facts.layers is None else replace(model, layers=facts.layers)
    if model.seq is None and isinstance(log.stated.get("seq"), int):
        model = replace(model, seq=int(log.stated["seq"]))
    return Job(log, model, layout, steady_step(log), _peak(log, facts))


def _answered(log: RunLog, layout: Layout | None) -> Health:
    """The log's health without the sizes that it lacks, where they were given."""
    lacking = layout_from(log.stated, log.arguments)[1] if layout is not None else ""
    return replace(log.health, warnings=tuple(text for text in log.health.warnings if text != lacking))


def _given_layout(log: RunLog, given: dict[str, int | str]) -> Layout:
    """The log's sizes with those of ``--from`` in their place; dp follows unless given."""
    stated = {key: value for key, value in log.stated.items() if key != "dp" or "dp" in given} | given
    layout, problem = layout_from(stated, log.arguments)
    if layout is None:
        raise LayoutError(f"--from: {problem}")
    return layout


def _filled(given: ModelSpec, logged: ModelSpec) -> ModelSpec:
    """The given model; what it does not say, as logged."""
    known = {f.name: getattr(given, f.name) for f in fields(given)}
    return replace(logged, **{name: value for name, value in known.items() if value not in (None, "")})


def _peak(log: RunLog, facts: Facts) -> Peak | None:
    """The device's dense peak: that of FP8 where the job computes in FP8 and the profile has it, else BF16's."""
    profile = (
        hwprofiles.load(_name_or_path(facts.source_hardware)) if facts.source_hardware else hwprofiles.match(log.device)
    )
    if profile is None:
        return None
    names = ("fp8_flop_per_s", "bf16_flop_per_s") if log.stated.get("fp8") else ("bf16_flop_per_s",)
    for name in names:
        if (value := profile.get(name)) is not None:
            return Peak(value, f"{profile.name}, {name.removesuffix('_flop_per_s')}")
    return None


def _name_or_path(hardware: str) -> str | Path:
    return Path(hardware) if hardware.endswith(".toml") else hardware


def _input(job: Job) -> InputFacts:
    """``ranks`` are those whose memory was reported, ``steps`` first and last iteration logged."""
    numbers = job.log.iterations.iteration
    return InputFacts(
        files=job.log.files,
        format=job.log.format,
        device=job.log.device,
        ranks=tuple(sorted(set(job.log.memory.rank.tolist()))),
        world_size=job.devices,
        steps=(f"{numbers[0]} to {numbers[-1]}",) if len(numbers) else (),
        step_used=f"median of {job.step.lines} steady lines" if job.step else "",
    )


def _layout_facts(job: Job, facts: Facts) -> LayoutFacts:
    """The layout, else the sizes stated with ``None`` for what is not known."""
    keys = Layout().to_json()
    source = job.layout.to_json() if job.layout else {key: job.log.stated.get(key) for key in keys}
    stated = {key: "given by --from" if key in facts.layout else "stated in the log" for key in keys}
    evidence = {key: how for key, how in stated.items() if key in facts.layout or key in job.log.stated}
    assumed = {
        key: "not stated: Megatron's default" for key in source if key not in evidence and source[key] is not None
    }
    assumed |= {key: "follows from the other sizes" for key in ("dp", "microbatches") if key in assumed}
    return LayoutFacts(source, {}, (), evidence | assumed)


def _warnings(job: Job, found: LogFacts) -> list[str]:
    """What to know before the numbers are compared with others."""
    warnings: list[str] = []
    iterations = job.log.iterations
    if job.step is None:
        return warnings
    if not job.step.updates:
        warnings.append(NO_UPDATE)
    if job.step.lines == len(iterations) and (iterations.is_warmup | iterations.is_checkpoint).all():
        warnings.append(ALL_MARKED)
    if any(row.level_2 for row in found.timers):
        warnings.append(PERTURBED)
    if found.flops.mfu is not None and found.flops.mfu > PLAUSIBLE_MFU:
        warnings.append(OTHER_PRECISION)
    if found.logged_tflops_per_device is not None and found.logged_formula is None:
        warnings.append(UNKNOWN_FORMULA)
    return warnings
