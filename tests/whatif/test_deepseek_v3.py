"""DeepSeek's published training trace: ep 64 on 64 H800, one overlapped forward/backward pair of four MoE layers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import hwprofiles
import parsers
from parsers.model_config import read_model
from replay.core.units import percent
from replay.graph.build import build
from replay.graph.types import Graph
from replay.layout import Layout
from replay.program.label import label, unassigned_pct
from replay.program.retiming import Change, RetimeContext, Retiming
from replay.program.template_means import template_means
from replay.program.types import Labels, Phase, Role
from replay.simulate.engine import simulate
from replay.whatif.ep import retime

pytestmark = pytest.mark.shared


@dataclass(frozen=True)
class Case:
    """The measured step, its labels, and what ep 32 makes of it."""

    graph: Graph
    labels: Labels
    retiming: Retiming

    def change(self, name: str) -> Change:
        """The one change whose name starts with ``name``."""
        (found,) = (change for change in self.retiming.changes if change.name.startswith(name))
        return found

    def factors(self, word: str) -> np.ndarray:
        """Factors of the ops whose kernel's name contains a word."""
        codes = [code for code, name in enumerate(self.graph.names) if word in name]
        return self.retiming.factor[np.isin(self.graph.name, codes) & (self.graph.duration_ns > 0)]


@pytest.fixture(scope="module")
def case(shared_data: Path) -> Case:
    trace = parsers.read([shared_data / "kineto" / "deepseek_v3_train_h800.json"])
    assert isinstance(trace, parsers.Trace)
    model = read_model(shared_data.parent / "facts" / "models" / "deepseek-v3.json")
    graph, source = build(trace), Layout(ep=64, dp=64, world_size=64)
    labels = label(graph, trace, source, model)
    context = RetimeContext(trace, model, hwprofiles.match(trace.device))
    return Case(graph, labels, retime(graph, labels, source, source.change(ep=32), context))


def test_all_device_time_has_a_role_and_a_phase(case: Case) -> None:
    assert unassigned_pct(case.graph, case.labels) <= 2.0
    assert set(case.labels.layer[case.labels.role == Role.ATTENTION]) == {0, 1, 2, 3}
    assert {Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHT} <= set(case.labels.phase.tolist())


def test_template_means_replay_the_step(case: Case) -> None:
    lifted = case.graph.with_durations(template_means(case.graph.duration_ns, case.labels.template))
    assert abs(percent(simulate(lifted).step_ns - case.graph.measured_step_ns, case.graph.measured_step_ns)) <= 3.0


def test_attention_is_untouched(case: Case) -> None:
    attention = case.labels.role == Role.ATTENTION
    assert set(case.retiming.factor[attention]) == {1.0}
    assert set(case.retiming.reason[attention]) == {-1}


def test_expert_shapes(case: Case) -> None:
    """4096 tokens · top-8 · 64 / 256 experts = 8192 rows for each of 4 experts; at ep 32, 4096 rows for each of 8."""
    grouped = case.change("expert GEMMs, grouped")
    assert (grouped.before["experts_per_rank"], grouped.before["rows_per_expert"]) == (4, 8192)
    assert (grouped.after["experts_per_rank"], grouped.after["rows_per_expert"]) == (8, 4096)
    assert grouped.before["calls"] == 4 * 4  # four layers: two matrices forward, two backward


def test_weight_gradients_are_one_kernel_an_expert(case: Case) -> None:
    """Four layers, two matrices, 4 experts: 32 kernels of 60, the others are the shared expert's and attention's."""
    separate = case.change("expert weight gradients, one kernel an expert")
    assert (separate.before["calls"], separate.after["calls"]) == (32, 64)


def test_exchanges_follow_distinct_remote_nodes(case: Case) -> None:
    """3.18 to 2.20 remote nodes a token (derived in tests/collectives); FP8 + scales out, BF16 back, both ways."""
    for name, kernel, nbytes in (("dispatch (FP8", "internode::dispatch", 7392), ("combine (BF16", "::combine", 14336)):
        change = case.change(name)
        assert change.before["nbytes_per_token"] == nbytes
        assert change.before["calls"] == 2 * 4  # forward and backward of four layers
        assert case.factors(kernel) == pytest.approx(2.20 / 3.18, abs=0.002)


def test_notify_kernels_wait(case: Case) -> None:
    assert set(case.factors("notify")) == {1.0}
