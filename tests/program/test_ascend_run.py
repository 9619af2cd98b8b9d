"""The shipped recording as torch_npu would have written it: what is found in it is what its Kineto form shows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import parsers
from replay.graph.build import build
from replay.graph.types import DEVICE_OPS, Graph
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.label import label, unassigned_pct
from replay.program.synthesis import synthesise
from replay.program.templates import lift
from replay.program.types import Labels
from replay.simulate.engine import simulate
from replay.trace import Trace
from tests.ascend_run import Written, write

FIELDS = ("phase", "microbatch", "chunk", "layer")
FORMS = {
    "all": Written(),
    "kernels_and_groups": Written(ranges=False),  # the recording has no operators beside its ranges
    "level_0": Written(level=0),
    "kernels": Written(ranges=False, operators=False, named_groups=False),
}
RANKS = (0, 8)  # one a stage


@pytest.fixture(scope="module", params=FORMS)
def ascend(request: pytest.FixtureRequest, sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of two ranks."""
    form: str = request.param
    return write(sample, tmp_path_factory.mktemp(form), FORMS[form], RANKS)


def labelled(files: list[Path], run: Path) -> tuple[Trace, Graph, Labels]:
    """A step with the layout that was run, but for its micro-batches."""
    trace = parsers.read(files)
    assert isinstance(trace, Trace)
    layout = Layout(**{**json.loads(run.read_text(encoding="utf-8"))["layout"], "microbatches": None, "gbs": None})
    graph = build(trace)
    return trace, graph, label(graph, trace, layout, ModelSpec())


def by_start(trace: Trace, graph: Graph, labels: Labels) -> dict[tuple[int, ...], list[int]]:
    """Labels of every device op by rank, start and kind."""
    ops = np.flatnonzero(np.isin(graph.kind, DEVICE_OPS))
    start = trace.epoch_ns + trace.start_ns[graph.event[ops]]
    columns = np.stack([getattr(labels, field)[ops].astype(np.int64) for field in FIELDS], axis=1)
    keys = zip(graph.rank[ops].tolist(), start.tolist(), graph.kind[ops].tolist(), strict=True)
    return dict(zip(keys, columns.tolist(), strict=True))


def test_every_device_op_is_what_it_is_in_the_kineto_form(ascend: Path, sample: Path) -> None:
    """Of the same run, with its ranges."""
    kineto = labelled([sample / f"rank{rank}.json.gz" for rank in RANKS], sample / "run.json")
    found = labelled([ascend], sample / "run.json")
    assert by_start(*found) == by_start(*kineto)
    assert unassigned_pct(found[1], found[2]) == 0


def test_the_step_comes_back(ascend: Path, sample: Path) -> None:
    """Replayed and laid out anew within 3 % of what was measured."""
    _, graph, labels = labelled([ascend], sample / "run.json")
    laid_out = synthesise(lift(graph, labels), labels.layout)
    for step in (simulate(graph).step_ns, simulate(laid_out.graph).step_ns):
        assert step == pytest.approx(graph.measured_step_ns, rel=0.03)
