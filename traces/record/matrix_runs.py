"""The runs of the matrix: what is recorded, so that predictions can be checked in every direction between them.

Most share one model and scale and differ in few sizes; the rest shows one habit each: tensor parallelism, dense layers,
an uneven last stage, overlapped gradient sums, blocking exchanges, no ranges. Counterfactual runs repeat one of the
others with one thing disturbed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from traces.record.disturbance import Disturbance
from traces.record.job import Job, Model
from traces.record.loads import read

SKEW = Path(__file__).parents[1] / "experts-zipf.csv"
SCALE = 0.4  # of all device durations: a step lasts one to three seconds


@dataclass(frozen=True, slots=True)
class Run:
    """A job to record; ``base`` names the run that a counterfactual one repeats, ``edit`` says it in options."""

    job: Job
    base: str = ""
    edit: str = ""

    @property
    def name(self) -> str:
        """Folder of the recording."""
        return self.job.name


MOE = Model()
DENSE = Model(dense_layers=8)
MIXED = Model(dense_layers=2)
SEVEN = Model(layers=7)


def _run(pp: int, dp: int, ep: int, microbatches: int, vpp: int = 1, *, mark: str = "", **habits: Any) -> Run:
    """Name and batch follow from the sizes; ``mark`` tells runs with other habits apart."""
    tp = habits.get("tp", 1)
    sizes = (f"tp{tp}" if tp > 1 else "", f"pp{pp}", f"vpp{vpp}" if vpp > 1 else "", f"dp{dp}", f"ep{ep}")
    name = "-".join(filter(None, (*sizes, f"mb{microbatches}", mark)))
    return Run(Job(name, pp, vpp, dp, ep, gbs=dp * microbatches, **habits))


def _skewed(pp: int, dp: int, ep: int, microbatches: int, vpp: int = 1) -> Run:
    load = read(str(SKEW), MOE.layers, MOE.experts)
    return _run(pp, dp, ep, microbatches, vpp, mark="skew", load=load)


def _again(base: Run, mark: str, edit: str, disturbance: Disturbance) -> Run:
    job = replace(base.job, name=f"{base.name}-{mark}", disturbance=disturbance)
    return Run(job, base.name, edit)


_BASE, _CHUNKED, _DEEP = _run(2, 4, 4, 8), _run(2, 4, 4, 8, 2), _run(4, 2, 2, 8)

_GRID = (
    _BASE, _run(2, 4, 2, 8), _CHUNKED, _run(1, 4, 4, 4), _run(2, 4, 4, 4), _skewed(2, 4, 4, 4), _DEEP,
    _run(2, 2, 2, 8), _run(2, 4, 4, 4, 2), _skewed(2, 4, 4, 4, 2), _run(2, 4, 2, 4), _run(4, 2, 2, 8, 2),
    _run(2, 8, 8, 4), _run(2, 8, 8, 4, 2), _run(2, 8, 4, 4), _run(4, 4, 4, 8), _run(1, 4, 2, 4), _run(1, 1, 1, 4),
    _run(2, 4, 1, 8), _run(2, 4, 4, 8, 4), _run(2, 4, 2, 8, 2), _run(4, 4, 4, 8, 2), _run(2, 2, 1, 8),
    _run(2, 2, 2, 8, 2), _run(2, 2, 2, 16), _run(2, 1, 1, 8), _run(2, 1, 1, 4), _run(4, 2, 1, 8), _run(4, 1, 1, 8),
    _run(4, 1, 1, 4), _run(1, 4, 1, 4), _run(1, 8, 8, 4), _run(1, 2, 2, 4), _run(1, 1, 1, 8), _skewed(2, 4, 2, 4),
    _skewed(1, 4, 4, 4), _run(2, 2, 2, 8, schedule="gpipe", mark="gpipe"),
    _run(4, 1, 1, 8, schedule="gpipe", mark="gpipe"),
)  # fmt: skip

_HABITS = (
    _run(2, 1, 2, 8, tp=2), _run(1, 2, 2, 4, tp=2),
    _run(2, 2, 1, 8, model=DENSE, mark="dense"), _run(2, 2, 1, 8, 2, model=DENSE, mark="dense"),
    _run(2, 2, 1, 4, model=DENSE, mark="dense"),
    _run(2, 2, 2, 8, model=MIXED, mark="mixed"), _run(2, 2, 2, 8, 2, model=MIXED, mark="mixed"),
    _run(2, 2, 2, 8, model=SEVEN, last_stage_layers=3, mark="uneven"),
    _run(4, 1, 1, 8, model=SEVEN, last_stage_layers=1, mark="uneven"),
    _run(2, 4, 2, 4, overlap_grads=True, mark="overlap"), _run(1, 4, 2, 4, overlap_grads=True, mark="overlap"),
    _run(4, 2, 2, 8, 2, overlap_p2p=False, mark="blocking"), _run(2, 2, 2, 8, ranges=False, mark="noranges"),
)  # fmt: skip

_COUNTERFACTUAL = (
    _again(_BASE, "attention", "--scale flash_attention=2", Disturbance(kernel="flash_attention", kernel_factor=2.0)),
    _again(_BASE, "link", "--link ep=0.5", Disturbance(link="ep", link_factor=2.0)),
    _again(_BASE, "stall", "--stall 0=60", Disturbance(stall_rank=0, stall_ms=60.0)),
    _again(_BASE, "straggler", "--scale @compute@3=1.3", Disturbance(slow_rank=3, slow_factor=1.3)),
    _again(_DEEP, "link", "--link pp=0.5", Disturbance(link="pp", link_factor=2.0)),
    _again(
        _CHUNKED, "experts", "--scale grouped_gemm_fc1=2", Disturbance(kernel="grouped_gemm_fc1", kernel_factor=2.0)
    ),
)

RUNS = (*_GRID, *_HABITS, *_COUNTERFACTUAL)

TARGETS_ONLY = frozenset({
    "pp2-vpp2-dp8-ep8-mb4", "pp2-dp8-ep4-mb4", "pp4-vpp2-dp4-ep4-mb8", "pp2-dp2-ep2-mb16", "pp2-dp4-ep1-mb8",
    "pp1-dp8-ep8-mb4", "pp2-vpp2-dp4-ep2-mb8", "cpu-dp2-mb8", "cpu-dp2-ep2-mb8", "cpu-pp2-mb16",
})  # fmt: skip
"""Runs with the largest traces: their steps are predicted, but nothing from them, which keeps the archive small."""
