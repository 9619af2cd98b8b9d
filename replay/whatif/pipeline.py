"""Answer what-ifs on a pipeline recording: other numbers of chunks, ranks or micro-batches, another schedule.

predicted = measured · simulated(target) / simulated(source) (R6), both synthesised from the same templates in the
order of their schedules. The interval is 80 %: every steady step answers the question from its own templates, and the
10th and 90th percentile of those answers are widened by the lift error and the unknown exchange habit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from replay.core.errors import RefusedError
from replay.core.units import NS_PER_MS, percent
from replay.layout import Layout
from replay.program.pass_costs import ChunkCost
from replay.program.pipeline_program import PipelineProgram, lift
from replay.program.recorded_steps import RecordedStep
from replay.recording import PipelineRecording
from replay.whatif._pipeline_baseline import INTERVAL_PCT, Baseline, Prediction, Simulated, prediction, simulated
from replay.whatif._pipeline_gate import error_pct, gate
from replay.whatif._pipeline_layout import source_layout, target_layout
from replay.whatif.stragglers import Stragglers, ideal_workers

OPTION = "--vpp"
LEVEL = "pipeline"


@dataclass(frozen=True, slots=True)
class PipelineQuestion:
    """Target sizes that differ, facts that the recording lacks, and which step to replay."""

    layout: Mapping[str, int | str] = field(default_factory=dict)  # pp, vpp, gbs, schedule, world_size
    given: Mapping[str, int | str] = field(default_factory=dict)  # --from
    layers: int | None = None
    microbatches: int | None = None  # of the source; only checked
    step: int | None = None  # iteration number; default: the median one
    stragglers: bool = False  # every worker ideal
    measured_step_ms: float | None = None  # the step without the recorder's overhead
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineAnswer:
    """Replay of a pipeline recording, and the prediction when something was asked."""

    source: Layout
    target: Layout
    changed: tuple[str, ...]
    evidence: Mapping[str, str]  # what was inferred → how
    steps: tuple[str, ...]
    step_used: str
    measured_step_ns: int  # anchor of the prediction
    measured_spread_pct: float  # half the 10-90 % range of the steady steps
    replayed: Simulated
    replay_error_pct: float
    lifted: Simulated | None  # the source layout from template means
    lift_error_pct: float | None
    prediction: Prediction | None
    chunk_costs: tuple[ChunkCost, ...]
    stragglers: Stragglers | None
    warnings: tuple[str, ...]
    forced: bool = False


def run(recording: PipelineRecording, question: PipelineQuestion) -> PipelineAnswer:
    """Replay the recording and answer the question.

    Raises :class:`~replay.core.errors.LayoutError` for sizes that do not divide, and :class:`RefusedError` for what
    the recording cannot answer and for a baseline that is off by more than 5 % (unless ``force``).
    """
    program = lift(recording, source_layout(recording, question.given, question.microbatches))
    source = program.source
    layers = question.layers or recording.layers
    target, changed, warnings = target_layout(source, question.layout, layers)
    if changed and question.stragglers:
        raise RefusedError("--stragglers ideal and another layout are two questions; ask them one at a time")
    step = program.steps.pick(question.step)
    templates = program.templates(program.steps.steady)
    base = Baseline(program, step, _anchor_ns(step, question), layers, templates)
    replayed = simulated(program.replay(step))
    lifted = base.synthesised(source) if changed else None
    forced = bool(changed or question.stragglers) and gate(replayed, lifted, force=question.force)
    stragglers = ideal_workers(program) if question.stragglers else None
    answer = base.predict(target, lifted) if lifted else _ideal(base, stragglers) if stragglers else None
    return PipelineAnswer(
        source=source,
        target=target,
        changed=changed,
        evidence=_evidence(recording, program, question),
        steps=tuple(f"step {item.step}" for item in program.steps.steps),
        step_used=_step_used(program, step, question),
        measured_step_ns=base.measured_ns,
        measured_spread_pct=_spread_pct(program),
        replayed=replayed,
        replay_error_pct=error_pct(replayed, step.step_ns),
        lifted=lifted,
        lift_error_pct=error_pct(lifted, step.step_ns) if lifted else None,
        prediction=answer,
        chunk_costs=templates.passes.chunks,
        stragglers=stragglers,
        warnings=(*program.warnings, *warnings, *(answer.warnings if answer else ())),
        forced=forced,
    )


def _anchor_ns(step: RecordedStep, question: PipelineQuestion) -> int:
    given = question.measured_step_ms
    return step.step_ns if given is None else round(given * NS_PER_MS)


def _ideal(base: Baseline, found: Stragglers) -> Prediction:
    """The step without stragglers; its interval is the spread of the steps' own slowdowns."""
    ratios = found.ideal_ns / found.simulated_ns.astype(np.float64)
    predicted = base.measured_ns * found.ideal_ns / float(found.simulated_ns.mean())
    low, high = base.measured_ns * np.percentile(ratios, INTERVAL_PCT)
    width = (max(0.0, predicted - float(low)), max(0.0, float(high) - predicted))
    target = Simulated(found.ideal_graph, found.ideal_timeline)
    return prediction(target, predicted, base.measured_ns, {"step-to-step spread": width})


def _evidence(recording: PipelineRecording, program: PipelineProgram, question: PipelineQuestion) -> dict[str, str]:
    """How what was not named on the command line is known."""
    found = {"layout": f"{recording.format} labels", "order": f"schedule {program.source.schedule} from (p, m, v, g)"}
    found |= {f"exchange {number}": text for number, text in enumerate(program.exchange.evidence, 1)}
    if recording.layers and not question.layers:
        found["layers"] = f"{recording.layers}, from the recording"
    return found


def _step_used(program: PipelineProgram, step: RecordedStep, question: PipelineQuestion) -> str:
    if question.step is not None:
        return f"step {step.step}"
    warm_up = f", {program.steps.warm_up} warm-up left out" if program.steps.warm_up else ""
    return f"step {step.step}: the median of {len(program.steps.steady)} steady steps{warm_up}"


def _spread_pct(program: PipelineProgram) -> float:
    times = np.array([step.step_ns for step in program.steps.steady], np.float64)
    low, high = np.percentile(times, INTERVAL_PCT)
    return percent(float(high - low) / 2, float(np.median(times)))
