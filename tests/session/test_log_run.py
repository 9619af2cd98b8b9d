"""What an inspection says about training logs, and why run refuses them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from replay import api
from replay.core.errors import LayoutError, RefusedError
from replay.report.result import Inspection
from replay.session.question import Facts

GPT = """\
using world size: 8, data-parallel-size: 2, tensor-model-parallel size: 2, pipeline-model-parallel size: 2
------------------------ arguments ------------------------
  ffn_hidden_size ................................. 4096
  global_batch_size ............................... 16
  hidden_size ..................................... 1024
  micro_batch_size ................................ 2
  num_attention_heads ............................. 16
  num_layers ...................................... 24
  recompute_granularity ........................... full
  seq_length ...................................... 2048
  timing_log_level ................................ 2
-------------------- end of arguments ---------------------
 > padded vocab (size: 50257) with 943 dummy tokens (new size: 51200)
"""
LINE = (
    " iteration {0}/ 9 | elapsed time per iteration (ms): {1} | throughput per GPU (TFLOP/s/GPU): {2} | global batch "
    "size: 16 | number of skipped iterations: 0 |\n"
)
TIMERS = (
    "(min, max) time across ranks (ms):\n    forward-compute ......: (400.0, 500.0)\n    optimizer ....: (10.0, 20.0)\n"
)
REPORT = (
    "[Rank {0}] (after 1 iterations) memory (MB) | allocated: 1.0 | max allocated: {1} | reserved: 4096.0 | "
    "max reserved: 5120.0\n"
)

FLOP = 6 * 16 * 2048 * (24 * 12 * 1024**2 + 24 * 2048 * 1024 + 51200 * 1024)
"""Hand count: 12·h² a layer, s·h of causal attention, h·V."""


def inspect(tmp_path: Path, text: str, **facts: Any) -> Inspection:
    """The inspection of such a log."""
    path = tmp_path / "train.log"
    path.write_text(text)
    return api.inspect([path], Facts(**facts))


@pytest.fixture
def log_text() -> str:
    """Eight iterations of 1000 ms after a slow one, at core 0.12's TFLOP/s; memory of four ranks; timers."""
    tflops = FLOP / 1.0 / 8 / 1e12
    reports = "".join(REPORT.format(rank, 1024.0 * (rank + 1)) for rank in (0, 1, 4, 5))
    lines = "".join(LINE.format(n, 9000.0 if n == 1 else 1000.0, f"{tflops:.1f}") + TIMERS for n in range(1, 10))
    return GPT + reports + lines


def test_the_step_and_what_follows_from_it(tmp_path: Path, log_text: str) -> None:
    """16 sequences of 2048 tokens a second on 8 devices; our FLOP by hand; MFU of the peak given."""
    found = inspect(tmp_path, log_text, source_hardware="a100-sxm-80gb")
    assert (found.iterations_logged, found.measured_step_ms, found.measured_step_spread_pct) == (9, 1000.0, 0.0)
    assert found.metrics["tokens_per_s"] == pytest.approx(32768)
    assert found.metrics["tokens_per_s_per_device"] == pytest.approx(4096)
    assert found.log is not None
    assert found.log.flops.flop == pytest.approx(FLOP)
    assert found.metrics["mfu"] == pytest.approx(FLOP / 8 / 312e12)
    assert found.log.flops.hfu == pytest.approx((FLOP + (FLOP - 6 * 16 * 2048 * 51200 * 1024) / 3) / 8 / 312e12)


def test_an_mfu_beyond_reason_is_questioned(tmp_path: Path, log_text: str) -> None:
    """Ten times as fast, above the BF16 peak of a V100: the precision is another one."""
    fast = log_text.replace("1000.0 |", "10.0 |")
    found = inspect(tmp_path, fast, source_hardware="v100-sxm2-32gb")
    assert any("lower precision" in warning for warning in found.warnings)


def test_memory_by_stage(tmp_path: Path, log_text: str) -> None:
    """Ranks 0 to 3 are stage 0, ranks 4 to 7 stage 1; the largest of each."""
    memory = inspect(tmp_path, log_text).memory
    assert memory["per_stage_gib"] == pytest.approx([2.0, 6.0])
    assert (memory["peak_gib"], memory["peak_reserved_gib"]) == pytest.approx((6.0, 5.0))


def test_timers_and_their_warning(tmp_path: Path, log_text: str) -> None:
    """Largest first, share of the step; level 2 perturbs what it measures."""
    found = inspect(tmp_path, log_text)
    assert found.log is not None
    rows = [(row.name, row.min_ms, row.max_ms, row.mean_ms, row.share_pct, row.level_2) for row in found.log.timers]
    assert rows == [
        ("forward-compute", 400.0, 500.0, None, 50.0, True),
        ("optimizer", 10.0, 20.0, None, 2.0, False),
    ]
    assert any("level 2" in warning for warning in found.warnings)


def test_the_formula_of_the_logged_tflops(tmp_path: Path, log_text: str) -> None:
    """Named beside the number; a number of no formula is said to be that."""
    found = inspect(tmp_path, log_text)
    assert found.log is not None
    assert found.log.logged_formula is not None
    assert found.log.logged_formula.name.startswith("Megatron-LM core 0.12")
    odd = inspect(tmp_path, log_text.replace("(TFLOP/s/GPU): ", "(TFLOP/s/GPU): 7"))
    assert odd.log is not None
    assert odd.log.logged_formula is None
    assert any("none of the formulas" in warning for warning in odd.warnings)


def test_given_sizes_win(tmp_path: Path, log_text: str) -> None:
    """--from replaces a size and dp follows; sizes that make no layout are refused."""
    layout = inspect(tmp_path, log_text, layout={"tp": 4}).layout
    assert (layout.source["tp"], layout.source["dp"], layout.evidence["tp"]) == (4, 1, "given by --from")
    with pytest.raises(LayoutError, match="tp 3"):
        inspect(tmp_path, log_text, layout={"tp": 3})


def test_sizes_that_were_given_are_not_asked_for(tmp_path: Path) -> None:
    lines = "".join(LINE.format(n, 5.0, 5.0) for n in (1, 2, 3))
    asked, told = inspect(tmp_path, lines), inspect(tmp_path, lines, layout={"tp": 1, "world_size": 8})
    assert any("--from tp=" in warning for warning in (*asked.health.warnings, *asked.warnings))
    assert not any("--from tp=" in warning for warning in (*told.health.warnings, *told.warnings))


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    """Two lines without anything else."""
    found = inspect(tmp_path, LINE.format(1, 9.0, 5.0) + LINE.format(2, 5.0, 5.0))
    document = json.loads(api.to_json(found))
    assert document["metrics"] == {"tokens_per_s": None, "tokens_per_s_per_device": None, "mfu": None}
    assert document["memory"]["peak_gib"] is None
    assert document["layout"]["source"]["tp"] is None
    assert document["measured_step_spread_pct"] is None
    assert "layers" in document["log"]["flops"]["lacking"]


def test_run_refuses_a_log(tmp_path: Path, log_text: str) -> None:
    """Exit code 3: what a log holds, what to give instead."""
    path = tmp_path / "train.log"
    path.write_text(log_text)
    with pytest.raises(RefusedError, match=r"no ops.*profiler trace") as refusal:
        api.run([path], ep=2)
    assert refusal.value.exit_code == 3


def test_the_report_reads_well(tmp_path: Path, log_text: str) -> None:
    """Step first, then throughput, memory, timers and warnings."""
    out = io.StringIO()
    api.render(inspect(tmp_path, log_text, source_hardware="a100-sxm-80gb"), out)
    text = out.getvalue()
    order = ("step: measured 1,000.0 ms (spread 0.00 %)", "1 warm-up", "Layout", "32,768 tokens/s, 4,096.0 a device",
             "MFU ", "as logged: ", "Memory", "peak 6.00 GiB", "forward-compute", "Trust", "Warnings")  # fmt: skip
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_the_real_log_that_prints_throughput(shared_data: Path) -> None:
    """Llama 3 70B's sizes, 64 devices, 829.5 to 830.1 TFLOP/s logged: Megatron's whole-matrix formula, to 0.1 %."""
    found = api.inspect([shared_data / "logs" / "megatron-pyxis-12384.out"], Facts())
    assert found.log is not None
    formula = found.log.logged_formula
    assert formula is not None
    assert formula.counts.startswith("the whole attention matrix")
    assert "0.8 to 0.10" in formula.name
    assert formula.ratio == pytest.approx(1, abs=1e-3)
    assert found.log.logged_tflops_per_device == pytest.approx(829.95, abs=0.2)
