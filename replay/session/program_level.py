"""Questions that change the program: expert layouts in place, pipelines and batches by laying templates out anew."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from replay.core.columns import Int64
from replay.core.errors import RefusedError
from replay.core.units import ns_to_ms, percent
from replay.graph.types import Graph, OpKind
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.absent import with_absent
from replay.program.assumed_link import BOUNDS, of_device
from replay.program.label import label, unassigned_pct
from replay.program.links import UNSEEN, learn_links
from replay.program.retiming import RetimeContext, Retiming
from replay.program.synthesis import Timing, synthesise
from replay.program.template_means import template_means
from replay.program.templates import lift
from replay.program.types import Labels, Phase, Role
from replay.report.chunk_costs import chunk_costs
from replay.report.result import ChangeRow, Topic
from replay.session import gate, graph_level, hardware
from replay.session.baseline import Baseline
from replay.session.brackets import lateness_part, retiming_part, transfer_part
from replay.session.interval import bias
from replay.session.prediction import Lift, Prediction
from replay.session.question import Facts, Question, parse_chunk_layers
from replay.session.source import Source
from replay.session.stated_layers import check_layers
from replay.simulate.engine import simulate
from replay.trace import Trace
from replay.whatif import ep
from replay.whatif.experts import read_loads

ANSWERED = ("ep", "pp", "vpp", "dp", "world", "gbs", "schedule")  # re-timed or laid out anew
UNANSWERED = ("tp", "cp", "etp", "mbs", "seq", "dispatcher")
OTHER_SIZES = Topic("--tp, --cp, --etp, --mbs, --seq, --dispatcher", False, "not modelled for traces")
RELAID = ("pp", "vpp", "dp", "gbs", "microbatches", "schedule", "group_size")
UNASSIGNED_PCT = 5.0  # of device time; what lies outside every range is not re-timed
EXPERT_ROLES = (Role.DISPATCH, Role.EXPERTS, Role.COMBINE)


@dataclass(frozen=True, slots=True)
class Asked:
    """A labelled step, the layout it is asked for, and how its ops are re-timed for that."""

    baseline: Baseline
    labels: Labels
    target: Layout
    retiming: Retiming
    context: RetimeContext
    question: Question
    force: bool

    @property
    def source(self) -> Layout:
        """The layout the step was measured with."""
        return self.labels.layout


def predict(baseline: Baseline, source: Source, question: Question, facts: Facts) -> Prediction:
    """Label the step, check that it can be rebuilt (R6), re-time it and execute the target."""
    labels = label(baseline.graph, baseline.trace, source.layout, source.model, source.assumed)
    check_layers(facts, labels, baseline.trace.ranks)
    source = source.with_found(labels.layout)
    target = source.layout.change(**question.layout)
    _check_answered(source.layout, target)
    if target == source.layout and not (question.experts or question.chunk_layers):
        same = graph_level.predict(baseline, question, facts)  # R1: changing nothing changes nothing
        return replace(same, source=source, target=target)
    if (labels.template < 0).all():
        raise RefusedError(
            f"{' '.join(question.options())} needs to know what each op belongs to, but nothing in this trace says; "
            "record framework operators, or ranges around the work such as 'forward microbatch=0 chunk=0', 'layer=0' "
            "and 'attn(F)'"
        )
    relaid = _moves_ops(baseline, labels, target, question)
    notes: tuple[str, ...] = ()
    if relaid:
        _check_whole(baseline, labels)
        graph, labels, notes = with_absent(baseline.graph, labels, target)
        baseline = replace(baseline, graph=graph)
    context = _context(baseline.trace, source.model, question, facts)
    retiming = ep.retime(baseline.graph, labels, source.layout, target, context)
    if (moved := hardware.retiming(baseline.graph, baseline.trace, question, facts)) is not None:
        retiming = retiming.followed_by(moved)
    asked = Asked(baseline, labels, target, retiming, context, question, facts.force)
    prediction = _relaid(asked) if relaid else _in_place(asked)
    notes = (*hardware.guess_notes(baseline.trace, facts), *notes, *graph_level.held_notes(baseline.graph, question))
    return replace(prediction, source=source, warnings=tuple(dict.fromkeys((*notes, *prediction.warnings))))


def program_topics(graph: Graph, labels: Labels) -> tuple[Topic, ...]:
    """Which program-level options this trace can answer, as far as labels tell, and what is missing for the others."""
    known = f"known is what {100 - unassigned_pct(graph, labels):.1f} % of device time belongs to"
    if not np.isin(labels.role, EXPERT_ROLES).any():
        experts = Topic("--ep, --experts", False, "no range or kernel tells expert work apart")
    elif labels.model.experts is None:
        experts = Topic("--ep, --experts", False, f"give --model for the number of experts; {known}")
    else:
        experts = Topic("--ep, --experts", True, known)
    passes = int(labels.microbatch.max(initial=-1)) >= 0
    batch = "" if labels.layout.mbs else "; for --gbs, say --from mbs=N"
    why = known + batch if passes else "nothing tells micro-batches apart"
    return experts, Topic("--pp, --vpp, --dp, --world, --gbs, --schedule", passes, why), OTHER_SIZES


def _check_whole(baseline: Baseline, labels: Labels) -> None:
    """Refuse to lay out a step anew of which a rank shows some micro-batches only."""
    count = labels.layout.microbatches or 0
    for rank in baseline.trace.ranks:
        own = labels.microbatch[(baseline.graph.rank == rank) & (labels.phase == Phase.FORWARD)]
        shown = len(np.unique(own[own >= 0]))
        if 0 < shown < count:
            cut = "".join(f"{name} ends in the middle: " for name in baseline.trace.health.cut_short)
            raise RefusedError(
                f"{cut}rank {rank} shows {shown} of {count} micro-batches, and a step that is not whole cannot be laid "
                "out anew; give a trace of a whole step, or another one of its steps with --step"
            )


def _check_answered(source: Layout, target: Layout) -> None:
    """Refuse sizes that no model of this level knows; those that follow from others (dp, micro-batches) are fine."""
    refused = [key for key in UNANSWERED if getattr(source, key) != getattr(target, key)]
    if refused:
        raise RefusedError(
            f"a change of {', '.join(refused)} is not modelled for traces; {', '.join(ANSWERED)} can be changed, and "
            "--scale and --link edit ops and links"
        )


def _context(trace: Trace, model: ModelSpec, question: Question, facts: Facts) -> RetimeContext:
    """What ops are re-timed with: the profile that is given or lists the device, and the loads that are asked for."""
    loads = None
    if question.experts:
        if model.experts is None:
            raise RefusedError("--experts needs the number of experts; give --model with a model description")
        loads = read_loads(question.experts, model.experts, model.layers or 1)
    return RetimeContext(trace, model, hardware.source_profile(trace, facts), loads)


def _with_doubt(retiming: Retiming, graph: Graph, bounds: tuple[float, float]) -> Retiming:
    """What the source did not need (:mod:`replay.program.absent`) was not measured: ``bounds`` around its links."""
    alone = (graph.kind == OpKind.TRANSFER) & (graph.comm >= 0) & (graph.event < 0) & (graph.duration_ns == 0)
    alone[alone] = graph.comms.size[graph.comm[alone]] == 1
    if not alone.any():
        return retiming
    low, high = bounds
    return replace(
        retiming,
        low=np.where(alone, retiming.factor * low, retiming.low),
        high=np.where(alone, retiming.factor * high, retiming.high),
    )


def _moves_ops(baseline: Baseline, labels: Labels, target: Layout, question: Question) -> bool:
    """Whether ops change places: another order of passes, or other partners where all ranks are here to meet them."""
    source = labels.layout
    if question.chunk_layers or any(getattr(source, key) != getattr(target, key) for key in RELAID):
        return True
    complete = len(baseline.trace.ranks) == source.world_size > 1
    experts = source.ep != target.ep or bool(question.experts)
    passes = int(labels.microbatch.max(initial=-1)) >= 0
    return passes and experts and (complete or source.ep == 1 < target.ep)


def _in_place(asked: Asked) -> Prediction:
    """Edges stay as measured, durations are re-timed; the lift is every op at the mean of its template."""
    baseline, graph = asked.baseline, asked.baseline.graph
    means = graph.with_durations(template_means(graph.duration_ns, asked.labels.template))
    lifted, forced = _lift(asked, means, simulate(means, plan=baseline.plan).step_ns)
    target = graph_level.edit(asked.retiming.apply(graph), asked.question)
    timeline = simulate(target, residuals=True, plan=baseline.plan)
    prediction = Prediction(target, timeline, timeline.step_ns / baseline.faithful.step_ns, lift=lifted, forced=forced)
    return _completed(asked, prediction, np.arange(len(graph)))


def _relaid(asked: Asked) -> Prediction:
    """The source and the target are both laid out from templates; their ratio is the prediction's."""
    graph, retiming = asked.baseline.graph, asked.retiming
    program = lift(graph, asked.labels)
    source = synthesise(program, asked.source)
    lifted, forced = _lift(asked, source.graph, simulate(source.graph).step_ns)
    retimed = retiming.apply(graph)
    links = learn_links(graph, asked.context.profile)
    assumed = of_device(asked.context.trace.device)
    timing = Timing(retimed.duration_ns, retimed.grade, links, retiming.factor, assumed)
    sizes = parse_chunk_layers(asked.question.chunk_layers) if asked.question.chunk_layers else ()
    laid_out = synthesise(program, asked.target, timing, sizes)
    target = graph_level.edit(laid_out.graph, asked.question)
    timeline = simulate(target, residuals=True)
    ratio = timeline.step_ns / simulate(source.graph, residuals=True).step_ns
    notes = tuple(dict.fromkeys(source.notes + laid_out.notes))
    prediction = Prediction(target, timeline, ratio, lift=lifted, forced=forced, warnings=notes)
    bounds = BOUNDS if assumed.note in notes else (1 - UNSEEN, 1 + UNSEEN)
    asked = replace(asked, retiming=_with_doubt(retiming, graph, bounds))
    return _completed(asked, prediction, laid_out.origin)


def _lift(asked: Asked, rebuilt: Graph, step_ns: int) -> tuple[Lift, bool]:
    """R6: the rebuilt source against the measured step, gated."""
    measured_ns = asked.baseline.graph.measured_step_ns
    error = percent(step_ns - measured_ns, measured_ns)
    differing = _largest_difference(asked.baseline.graph, rebuilt)
    forced = gate.require("lifted", error, differing, force=asked.force)
    return Lift(step_ns, abs(error), unassigned_pct(asked.baseline.graph, asked.labels)), forced


def _largest_difference(measured: Graph, rebuilt: Graph) -> str:
    """The op names whose summed time changed most by rebuilding."""
    total: dict[str, float] = {}
    for graph, sign in ((measured, -1), (rebuilt, 1)):
        for code, time in enumerate(np.bincount(graph.name, weights=graph.duration_ns, minlength=len(graph.names))):
            total[graph.names[code]] = total.get(graph.names[code], 0.0) + sign * time
    worst = sorted(total.items(), key=lambda item: -abs(item[1]))[: gate.NAMED_OPS]
    named = "; ".join(f"{gate.short(name)} {ns_to_ms(time):+.3f} ms" for name, time in worst if time)
    return f"summed op times differ most for {named}" if named else "op times agree, so their order or waits differ"


def _completed(asked: Asked, prediction: Prediction, origin: Int64) -> Prediction:
    """Adds target, changes, warnings and the parts of the interval that come from re-timing."""
    graph = asked.baseline.graph
    parts = [
        retiming_part(prediction.graph, asked.retiming, origin),
        transfer_part(graph, prediction.graph, origin, prediction.ratio),
        lateness_part(graph, prediction.graph, round(prediction.timeline.step_ns / prediction.ratio), prediction.ratio),
    ]
    if prediction.lift:
        parts.append(bias(prediction.lift.error_pct, "lift"))
    rows = tuple(
        ChangeRow(change.name, change.before, change.after, change.formula, change.grade.label)
        for change in asked.retiming.changes
    )
    warnings = asked.retiming.warnings
    if prediction.lift and prediction.lift.unassigned_pct > UNASSIGNED_PCT:
        outside = f"{prediction.lift.unassigned_pct:.0f} % of device time lies in no range and is kept as it is"
        warnings += (f"{outside}: what the question changes in there is missing from the answer",)
    return replace(
        prediction,
        parts=tuple(parts),
        target=asked.target,
        changes=rows,
        chunk_costs=chunk_costs(graph, asked.labels),
        warnings=(*warnings, *prediction.warnings),
        evidence={"structure": "; ".join(asked.labels.evidence)},
    )
