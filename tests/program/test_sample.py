"""The shipped recording, lifted and laid out for the layout that was really run afterwards."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import parsers
from replay.graph.build import build
from replay.graph.types import Graph
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.label import label
from replay.program.retiming import RetimeContext
from replay.program.synthesis import Timing, synthesise
from replay.program.templates import Program, lift
from replay.simulate.engine import simulate
from replay.trace import Trace
from replay.whatif import ep


def lifted(folder: Path, ranks: tuple[int, ...] | None = None) -> tuple[Trace, Program]:
    """The recording of some ranks (all by default) with the layout and model that ``run.json`` states."""
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    files = [folder] if ranks is None else [folder / f"rank{rank}.json.gz" for rank in ranks]
    trace = parsers.read(files)
    assert isinstance(trace, Trace)
    known = {name: size for name, size in run["model"].items() if name in ModelSpec.__dataclass_fields__}
    graph = build(trace)
    return trace, lift(graph, label(graph, trace, Layout(**run["layout"]), ModelSpec(**known)))


def step_ns(graph: Graph) -> int:
    """Simulated step with residuals (R6)."""
    return simulate(graph, residuals=True).step_ns


@pytest.fixture(scope="module")
def all_ranks(sample: Path) -> tuple[Trace, Program]:
    """Every rank of the sample."""
    return lifted(sample)


def test_source_layout_comes_back(all_ranks: tuple[Trace, Program]) -> None:
    """R6 without residuals: within 3 % of the measured step (the gate is at 5)."""
    _, program = all_ranks
    step = simulate(synthesise(program, program.layout).graph).step_ns
    assert step == pytest.approx(program.graph.measured_step_ns, rel=0.03)


def test_ep_8_and_vpp_2_were_really_run(sample: Path, all_ranks: tuple[Trace, Program]) -> None:
    """Within 5 % of the profiled step of that run."""
    trace, program = all_ranks
    target = program.layout.change(ep=8, vpp=2)
    context = RetimeContext(trace, program.labels.model, None, None)
    retimed = ep.retime(program.graph, program.labels, program.layout, target, context).apply(program.graph)
    timing = replace(Timing.measured(program.graph), duration_ns=retimed.duration_ns, grade=retimed.grade)
    laid_out = synthesise(program, target, timing)
    ratio = step_ns(laid_out.graph) / step_ns(synthesise(program, program.layout).graph)
    run = json.loads((sample.parent / "moe-pp2-dp8-ep8-vpp2" / "run.json").read_text(encoding="utf-8"))
    assert ratio * program.graph.measured_step_ns / 1e6 == pytest.approx(run["trace_step_ms"], rel=0.05)


def test_two_ranks_stand_for_sixteen(sample: Path, all_ranks: tuple[Trace, Program]) -> None:
    """One rank a stage lifts to the step that all ranks measured."""
    _, program = lifted(sample, (0, 8))
    laid_out = synthesise(program, program.layout)
    assert set(laid_out.graph.rank.tolist()) == {0, 8}
    measured = all_ranks[1].graph.measured_step_ns
    assert simulate(laid_out.graph).step_ns == pytest.approx(measured, rel=0.03)
