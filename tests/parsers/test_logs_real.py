"""Every real log: layout, model, iterations, steady step, memory and parameters as read by hand from the file."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import parsers
from replay.layout import Layout
from replay.runlog import STARTUP, RunLog, steady_rows, steady_step

MIB = 1 << 20
MEG_DS = "meg_ds_3d_gpt2_perf_n16-ds-off.out"
BASE_16 = "meg_gpt2_base_n16_dp1_tp4_pp16-1809577.out"
BASE_4 = "meg_gpt2_base_n4_dp1_tp4_pp4-1809579.out"
PERF_16 = "meg_gpt2_perf_n16-1999618.out.gz"
PYXIS = "megatron-pyxis-12384.out"
MLPERF = "mlperf_v5.1_llama31_8b_8.txt.gz"


@dataclass(frozen=True)
class Read:
    """What a person reads in a file; ``layout`` as tp, pp, dp, mbs, gbs, seq, world."""

    lines: int
    first: tuple[int, float]  # iteration, ms
    last: tuple[int, float]
    step_ms: float
    spread_pct: float
    layout: tuple[int, ...] = ()
    model: tuple[int | None, ...] = ()  # layers, hidden, ffn, heads, kv heads, vocabulary
    peak_mib: float = 0.0
    reports: int = 0
    parameters: tuple[int, int] = (0, 0)  # on the first and on the second pipeline rank


LOGS = {
    MEG_DS: Read(62, (1, 144915.6), (62, 125247.8), 126640.6, 1.8, (4, 16, 1, 4, 1024, 1024, 64),
                 (64, 8192, 32768, 32, None, 50688), 17504.84619140625, 64, (917757952, 805560320)),
    BASE_16: Read(9, (10, 5837.9), (90, 2739.0), 2739.0, 0.25, (4, 16, 1, 1, 4, 1024, 64),
                  (64, 9216, 36864, 32, None, 50688), 24762.8134765625, 64, (1145723904, 1019501568)),
    BASE_4: Read(20, (10, 2152.2), (200, 1382.2), 1380.6, 0.13, (4, 4, 1, 1, 4, 1024, 16),
                 (40, 6144, 24576, 32, None, 50688), 26204.5595703125, 16, (1217086464, 1132938240)),
    PERF_16: Read(4, (1, 150891.7), (4, 122224.0), 123896.3, 0.69, (4, 16, 1, 4, 1024, 1024, 64),
                  (64, 8192, 32768, 32, None, 50688), 0.0, 0, (917757952, 805560320)),
    PYXIS: Read(10, (1, 302028.1), (10, 19019.0), 19007.55, 0.26, (1, 1, 64, 4, 256, 8192, 64),
                (80, 8192, 28672, 64, 8, 128256), 140046.63720703125, 1, (70553706496, 0)),
    MLPERF: Read(360, (32, 335.63876152038574), (11520, 344.7446823120117), 345.6, 0.40),
}  # fmt: skip


@cache
def _read(path: Path) -> RunLog:
    log = parsers.read([path])
    assert isinstance(log, RunLog)
    return log


@pytest.fixture(params=LOGS)
def case(request: pytest.FixtureRequest, shared_data: Path) -> tuple[RunLog, Read]:
    """A log and what it holds."""
    return _read(shared_data / "logs" / request.param), LOGS[request.param]


def test_iterations(case: tuple[RunLog, Read]) -> None:
    """No more lines and no fewer; the first and the last one."""
    log, read = case
    iterations = log.iterations
    assert (len(iterations), log.runs) == (read.lines, 1)
    ends = [(int(iterations.iteration[k]), iterations.elapsed_ns[k] / 1e6) for k in (0, -1)]
    assert ends[0] == pytest.approx(read.first)
    assert ends[1] == pytest.approx(read.last)


def test_steady_step(case: tuple[RunLog, Read]) -> None:
    """Median and half the 10-90 % range."""
    log, read = case
    step = steady_step(log)
    assert step is not None
    assert step.spread_pct is not None
    assert step.step_ns / 1e6 == pytest.approx(read.step_ms, rel=1e-4)
    assert step.spread_pct == pytest.approx(read.spread_pct, abs=0.05)


def test_layout_and_model(case: tuple[RunLog, Read]) -> None:
    """Sizes of the arguments dump and the start-up lines."""
    log, read = case
    if not read.layout:
        assert log.layout is None
        assert log.stated == {"gbs": 16, "seq": 8192}
        return
    layout, model = log.layout, log.model
    assert isinstance(layout, Layout)
    sizes = (layout.tp, layout.pp, layout.dp, layout.mbs, layout.gbs, layout.seq, layout.world_size)
    assert sizes == read.layout
    assert (layout.cp, layout.vpp, layout.ep) == (1, 1, 1)
    assert (model.layers, model.hidden, model.ffn, model.heads, model.kv_heads, model.vocab) == read.model


def test_memory_and_parameters(case: tuple[RunLog, Read]) -> None:
    """One report of every rank, also where several were written into one line."""
    log, read = case
    memory = log.memory
    assert len(memory) == read.reports
    assert len(set(memory.rank.tolist())) == read.reports
    assert memory.max_allocated_nbytes.max(initial=0) / MIB == pytest.approx(read.peak_mib)
    assert log.parameters.get((0, 0), 0) == read.parameters[0]
    assert log.parameters.get((0, 1), 0) == read.parameters[1]


def test_nothing_was_lost(case: tuple[RunLog, Read]) -> None:
    """Whole files: no line dropped, none cut."""
    log, _ = case
    assert (log.health.dropped, log.health.clipped) == ({}, {})


def test_evaluation_lies_in_the_next_interval(shared_data: Path) -> None:
    """The line after `validation loss at iteration 100` is 184 ms slower; after 200 no line follows."""
    iterations = _read(shared_data / "logs" / BASE_4).iterations
    assert iterations.iteration[iterations.is_evaluation].tolist() == [110]
    assert iterations.elapsed_ns[iterations.is_evaluation].tolist() == [1_564_100_000]
    assert iterations.iteration[iterations.skipped > 0].tolist() == [10, 20, 30]


def test_skipped_updates_are_kept_where_nothing_else_is(shared_data: Path) -> None:
    """All four iterations of the log lowered the loss scale."""
    log = _read(shared_data / "logs" / PERF_16)
    step = steady_step(log)
    assert step is not None
    assert not step.updates
    assert log.iterations.elapsed_ns[steady_rows(log.iterations, 0)].tolist() == [
        123_896_300_000, 124_362_200_000, 122_224_000_000,
    ]  # fmt: skip


def test_missing_loss_is_missing(shared_data: Path) -> None:
    """The line of iteration 10 has no loss: every update was skipped."""
    loss = _read(shared_data / "logs" / BASE_16).iterations.loss
    assert np.isnan(loss[0])
    assert loss[1] == pytest.approx(12.49319)


def test_timers_of_one_line(shared_data: Path) -> None:
    """The block after iteration 90 of PP16, and the start-up blocks."""
    timers = _read(shared_data / "logs" / BASE_16).timers
    here = timers.iteration == 90
    values = {timers.names[n]: v / 1e6 for n, v in zip(timers.name[here], timers.mean_ns[here], strict=True)}
    assert values["forward-compute"] == pytest.approx(147.78)
    assert values["backward-embedding-all-reduce"] == pytest.approx(1542.51)
    start = timers.iteration == STARTUP
    assert "model-and-optimizer-setup" in {timers.names[n] for n in timers.name[start]}


def test_timers_across_ranks(shared_data: Path) -> None:
    """(714.28, 893.91) and (52.93, 87.29), at start-up only."""
    timers = _read(shared_data / "logs" / PYXIS).timers
    assert (timers.min_ns / 1e6).tolist() == pytest.approx([714.28, 52.93])
    assert (timers.max_ns / 1e6).tolist() == pytest.approx([893.91, 87.29])
    assert set(timers.mean_ns.tolist()) == {-1}
    assert set(timers.iteration.tolist()) == {STARTUP}


def test_theoretical_memory(shared_data: Path) -> None:
    """Megatron's own estimate, MB of 2^20 bytes, and its parameter counts."""
    found = _read(shared_data / "logs" / PYXIS).theoretical
    assert found["weight and optimizer nbytes"] / MIB == pytest.approx(1211157.28)
    assert found["total number of parameters"] == pytest.approx(70.56e9)


def test_mlperf_step_is_that_of_its_blocks(shared_data: Path) -> None:
    """A block's own average, printed without a step, is near ours: 0.34526 s of the first, 0.34607 s of the second."""
    log = _read(shared_data / "logs" / MLPERF)
    step = steady_step(log)
    assert step is not None
    assert step.step_ns / 1e6 == pytest.approx(statistics.mean((345.260, 346.066)), rel=2e-3)
    assert log.device == "NVIDIA GB200"
    assert int(log.iterations.is_evaluation.sum()) == 14  # fifteen evaluations, the last one at the end
