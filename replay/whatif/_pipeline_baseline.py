"""The lifted recording as the base of predictions: synthesise a layout, compare with the source, bound the answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from replay.core.evidence import GRADE_WIDTH, Grade
from replay.core.units import ns_to_ms
from replay.graph.types import Graph
from replay.layout import Layout
from replay.program.pipeline_graph import PipelineGraph
from replay.program.pipeline_program import PipelineProgram, Templates
from replay.program.recorded_steps import RecordedStep
from replay.simulate.engine import plan, simulate
from replay.simulate.timeline import Timeline

INTERVAL_PCT = (10, 90)

Width = tuple[float, float]  # ns below and above the prediction


@dataclass(frozen=True, slots=True)
class Simulated:
    """A graph and when its ops ran."""

    graph: Graph
    timeline: Timeline

    @property
    def step_ns(self) -> int:
        """Duration of the step."""
        return self.timeline.step_ns


@dataclass(frozen=True, slots=True)
class Prediction:
    """The step that was asked for. ``step_ns`` and the interval are anchored to the measurement (R6)."""

    target: Simulated
    step_ns: float
    interval_ns: tuple[float, float]
    interval_basis: tuple[str, ...]
    speedup: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Baseline:
    """A lifted recording, one of its steps, and the step time that predictions are anchored to."""

    program: PipelineProgram
    step: RecordedStep
    measured_ns: int
    layers: int | None
    templates: Templates

    def synthesised(self, layout: Layout, *, flip_overlap: bool = False) -> Simulated:
        """One step of ``layout`` from template means over all steady steps."""
        exchange = self.program.exchange
        if flip_overlap:
            exchange = replace(exchange, overlapped=not exchange.overlapped)
        price = self.templates.prices(layout, self.layers)
        return simulated(self.program.graph(layout, price, exchange))

    def predict(self, target: Layout, lifted: Simulated) -> Prediction:
        """The step of ``target``, with ``lifted`` being the synthesised source."""
        result = self.synthesised(target)
        predicted = self.measured_ns * result.step_ns / lifted.step_ns
        lift_ns = predicted * abs(lifted.step_ns - self.step.step_ns) / self.step.step_ns
        evidence_ns = abs(predicted - self.measured_ns) * evidence_width(result.graph)
        widths = {
            "step-to-step spread": self._spread(target, predicted),
            "lift error": (lift_ns, lift_ns),
            "evidence of the change": (evidence_ns, evidence_ns),
        }
        warnings: tuple[str, ...] = ()
        if target.vpp > self.program.source.vpp == 1 and not self.program.counts:  # 1F1B never overlaps
            other_ns = self.measured_ns * self.synthesised(target, flip_overlap=True).step_ns / lifted.step_ns
            widths["exchange habit"] = _one_sided(other_ns - predicted)
            warnings = (_habit_note(overlapped=self.program.exchange.overlapped, other_ns=other_ns),)
        return prediction(result, predicted, self.measured_ns, widths, warnings)

    def _spread(self, target: Layout, predicted: float) -> Width:
        """How far the single steps' answers, each from its own templates, lie below and above the prediction."""
        graphs = {}
        for layout in (self.program.source, target):
            graph = self.program.graph(layout, self.templates.prices(layout, self.layers))
            graphs[layout] = graph, plan(graph.graph)
        answers = []
        for step in self.program.steps.steady:
            templates = self.program.templates([step])
            ns = {
                layout: simulate(
                    graph.graph.with_durations(graph.priced(templates.prices(layout, self.layers))), plan=order
                ).step_ns
                for layout, (graph, order) in graphs.items()
            }
            answers.append(step.step_ns * ns[target] / ns[self.program.source])
        low, high = np.percentile(answers, INTERVAL_PCT) * self.measured_ns / self.step.step_ns
        return max(0.0, predicted - float(low)), max(0.0, float(high) - predicted)


def evidence_width(graph: Graph) -> float:
    """Uncertainty of a change as a share of it: the grades' widths, weighted by the time of their ops."""
    time_ns = np.bincount(graph.grade, weights=graph.duration_ns, minlength=len(Grade))
    widths = np.array([GRADE_WIDTH[grade] for grade in Grade])
    return float(time_ns @ widths / time_ns.sum()) if time_ns.any() else 0.0


def simulated(graph: PipelineGraph) -> Simulated:
    """The graph executed without residuals (R5)."""
    return Simulated(graph.graph, simulate(graph.graph))


def prediction(
    target: Simulated, predicted_ns: float, measured_ns: int, widths: dict[str, Width], warnings: tuple[str, ...] = ()
) -> Prediction:
    """Independent widths add in quadrature, each side for itself."""
    low, high = (float(np.sqrt(sum(width[side] ** 2 for width in widths.values()))) for side in (0, 1))
    basis = tuple(f"{name} -{ns_to_ms(below):.1f}/+{ns_to_ms(above):.1f} ms" for name, (below, above) in widths.items())
    interval = (predicted_ns - low, predicted_ns + high)
    return Prediction(target, predicted_ns, interval, basis, measured_ns / predicted_ns, warnings)


def _one_sided(difference_ns: float) -> Width:
    return max(0.0, -difference_ns), max(0.0, difference_ns)


def _habit_note(*, overlapped: bool, other_ns: float) -> str:
    kept, other = ("overlapped", "not overlapped") if overlapped else ("not overlapped", "overlapped")
    return (
        f"pipeline exchanges stay {kept} as in the recording; {other} the step would take {ns_to_ms(other_ns):.1f} ms "
        "(inside the interval)"
    )
