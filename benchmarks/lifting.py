"""How much of a step's structure is found without the ranges that tell it.

Every recording is labelled twice: with all its rows (the truth), and without those that state the structure: named
ranges, and with ``--no-modules`` the calls of modules. ``--no-description`` leaves the run description out as well.
Rows that the profiler itself writes stay (steps, optimizer, collectives). Printed per recording: the share of device
time whose phase, micro-batch, chunk and layer are found equal, the number of layers and micro-batches in both, the time
left unassigned, and the lift error.

    python -m benchmarks.lifting [--no-modules] [--no-description] RECORDING...
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from parsers import read, run_description
from parsers.run_description import RunDescription
from replay.core.columns import Float64
from replay.core.errors import ReplayError, TraceError
from replay.core.units import percent
from replay.graph.build import build
from replay.graph.types import Graph
from replay.program.label import label, unassigned_pct
from replay.program.synthesis import synthesise
from replay.program.templates import lift
from replay.program.types import Labels
from replay.session.question import Facts
from replay.session.source import find_source
from replay.simulate.engine import simulate
from replay.trace import EventKind, Trace

WRITTEN_BY_PROFILER = re.compile(r"^(?:ProfilerStep#|Optimizer\.|nccl:|gloo:|c10d::|record_param_comms)")
FIELDS = ("phase", "microbatch", "chunk", "layer")


@dataclass(frozen=True, slots=True)
class Score:
    """What was found of one recording."""

    name: str
    agreement_pct: dict[str, float]
    layers: tuple[int, int]  # truth, found
    microbatches: tuple[int, int]
    unassigned_pct: float
    lift_error_pct: float | None  # None: not laid out anew, the reason is beside it
    refusal: str = ""

    def line(self) -> str:
        """One row of the table."""
        shares = "  ".join(f"{self.agreement_pct[field]:6.2f}" for field in FIELDS)
        counts = f"{self.layers[0]:3d}/{self.layers[1]:<3d} {self.microbatches[0]:3d}/{self.microbatches[1]:<3d}"
        error = f"{self.lift_error_pct:+6.2f}" if self.lift_error_pct is not None else f"refused: {self.refusal}"
        return f"{self.name:48s}  {shares}  {counts}  {self.unassigned_pct:6.2f}  {error}"


def without_statements(trace: Trace, *, modules: bool) -> Trace:
    """The trace with the rows that state structure set aside; ``modules`` keeps the calls of modules."""
    written = np.array([bool(WRITTEN_BY_PROFILER.match(name)) for name in trace.names], np.bool_)
    stating = (trace.kind == EventKind.ANNOTATION) & ~written[trace.name]
    if not modules:
        stating |= trace.kind == EventKind.MODULE
    return replace(trace, kind=np.where(stating, EventKind.OTHER, trace.kind).astype(np.int8))


def score(path: Path, *, modules: bool, description: bool) -> Score:
    """Label ``path`` with and without its statements and compare."""
    trace = read([path])
    if not isinstance(trace, Trace):
        raise TraceError(f"{path} is no trace: nothing to lift")
    stripped = without_statements(trace, modules=modules)
    described = run_description.find([path])
    graph, truth = _labelled(trace, described)
    bare_graph, found = _labelled(stripped, described if description else RunDescription())
    error, refusal = _lift_error(bare_graph, found)
    weight = bare_graph.device_time_ns
    return Score(
        path.name,
        {field: _agreement(graph, truth, bare_graph, found, field) for field in FIELDS},
        (_count(truth.layer, weight=None), _count(found.layer, weight=weight)),
        (_count(truth.microbatch, weight=None), _count(found.microbatch, weight=weight)),
        unassigned_pct(bare_graph, found),
        error,
        refusal,
    )


def _labelled(trace: Trace, described: RunDescription) -> tuple[Graph, Labels]:
    graph = build(trace)
    source = find_source(trace, Facts(), described)
    return graph, label(graph, trace, source.layout, source.model, source.assumed)


def _agreement(graph: Graph, truth: Labels, bare_graph: Graph, found: Labels, field: str) -> float:
    """Share of device time whose field is equal. Ops are matched by the event (and kind) that they come from."""
    expected = {
        (int(event), int(kind)): int(value)
        for event, kind, value in zip(graph.event, graph.kind, getattr(truth, field), strict=True)
        if event >= 0
    }
    weight = bare_graph.device_time_ns
    equal = [
        expected.get((int(event), int(kind))) == int(value)
        for event, kind, value in zip(bare_graph.event, bare_graph.kind, getattr(found, field), strict=True)
    ]
    return percent(float(weight[np.array(equal, np.bool_)].sum()), float(weight.sum()))


def _count(column: np.ndarray, weight: Float64 | None) -> int:
    """How many different values are known."""
    known = column >= 0 if weight is None else (column >= 0) & (weight > 0)
    return len(np.unique(column[known]))


def _lift_error(graph: Graph, labels: Labels) -> tuple[float | None, str]:
    try:
        rebuilt = synthesise(lift(graph, labels), labels.layout)
        step_ns = simulate(rebuilt.graph).step_ns
    except ReplayError as refusal:
        return None, str(refusal)
    return percent(step_ns - graph.measured_step_ns, graph.measured_step_ns), ""


def _table(paths: list[Path], *, modules: bool, description: bool) -> Iterator[str]:
    titles = "  ".join(f"{title:>6s}" for title in ("phase", "mb", "chunk", "layer"))
    yield f"{'recording':48s}  {titles}  layers  mbs     unass.  lift"
    for path in paths:
        try:
            yield score(path, modules=modules, description=description).line()
        except ReplayError as error:
            yield f"{path.name:48s}  {error}"


def main(arguments: list[str]) -> None:
    """Print the table."""
    shown = {name: f"--no-{name}" not in arguments for name in ("modules", "description")}
    paths = [Path(argument) for argument in arguments if not argument.startswith("--")]
    for line in _table(paths, **shown):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
