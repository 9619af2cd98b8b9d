"""The shipped recording with nothing but its kernels: what ranges say of it is found without them."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import parsers
from replay.graph.build import build
from replay.graph.types import OpKind
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.label import label, unassigned_pct
from replay.program.synthesis import synthesise
from replay.program.templates import lift
from replay.program.types import Labels
from replay.simulate.engine import simulate
from replay.trace import EventKind, Trace

WORK = (OpKind.COMPUTE, OpKind.ARRIVAL, OpKind.TRANSFER)
SAID = ("phase", "role", "microbatch", "chunk", "layer")


def without_ranges(trace: Trace) -> Trace:
    """Only steps, runtime calls and device work are left."""
    step = np.array([name.startswith("ProfilerStep") for name in trace.names])[trace.name]
    hidden = np.isin(trace.kind, (EventKind.ANNOTATION, EventKind.CPU_OP)) & ~step
    length = len(trace.kind)
    columns = {f.name: getattr(trace, f.name) for f in fields(trace)}
    kept = {n: c[~hidden] for n, c in columns.items() if isinstance(c, np.ndarray) and len(c) == length}
    return replace(trace, **kept)


@pytest.fixture(scope="module")
def labelled(sample: Path) -> tuple[Labels, Labels]:
    """One rank a stage, labelled by its ranges and without them; the layout but for micro-batches is told."""
    run = json.loads((sample / "run.json").read_text(encoding="utf-8"))
    trace = parsers.read([sample / "rank0.json.gz", sample / "rank8.json.gz"])
    assert isinstance(trace, Trace)
    layout = Layout(**{**run["layout"], "microbatches": None, "gbs": None})
    found = []
    for shown in (trace, without_ranges(trace)):
        graph = build(shown)
        labels = label(graph, shown, layout, ModelSpec())
        work = np.flatnonzero(np.isin(graph.kind, WORK))
        order = work[np.lexsort((graph.kind[work], graph.measured_start_ns[work], graph.rank[work]))]
        columns = {name: getattr(labels, name)[order] for name in (*SAID, "template")}
        found.append(replace(labels, **columns))
    return found[0], found[1]


@pytest.mark.parametrize("field", SAID)
def test_every_device_op_is_known(labelled: tuple[Labels, Labels], field: str) -> None:
    stated, found = labelled
    assert getattr(found, field).tolist() == getattr(stated, field).tolist()


def test_the_step_comes_back(sample: Path) -> None:
    """Within 3 % of the measured step, nothing unassigned, one rank a stage and no range."""
    run = json.loads((sample / "run.json").read_text(encoding="utf-8"))
    trace = parsers.read([sample / "rank0.json.gz", sample / "rank8.json.gz"])
    assert isinstance(trace, Trace)
    hidden = without_ranges(trace)
    graph = build(hidden)
    labels = label(graph, hidden, Layout(**run["layout"]), ModelSpec())
    assert unassigned_pct(graph, labels) == 0
    laid_out = synthesise(lift(graph, labels), labels.layout)
    assert simulate(laid_out.graph).step_ns == pytest.approx(graph.measured_step_ns, rel=0.03)
