"""Every way of writing an iteration, timers, memory and arguments, in logs of a few lines."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import parsers
from parsers.model_config import read_model
from replay.core.errors import TraceError
from replay.runlog import RunLog, steady_step
from replay.trace import Trace
from tests.parsers import chrome

SIZES = """\
using world size: 16, data-parallel size: 2, context-parallel size: 1, hierarchical context-parallel sizes: None\
tensor-model-parallel size: 2, encoder-tensor-model-parallel size: 0, pipeline-model-parallel size: 4
------------------------ arguments ------------------------
  encoder_tensor_model_parallel_size .............. 0
  expert_model_parallel_size ...................... 4
  expert_tensor_parallel_size ..................... 1
  ffn_hidden_size ................................. 18432
  global_batch_size ............................... 64
  group_query_attention ........................... False
  hidden_size ..................................... 7168
  kv_channels ..................................... 56
  kv_lora_rank .................................... 512
  log_interval .................................... 5
  micro_batch_size ................................ 1
  microbatch_group_size_per_vp_stage .............. 4
  moe_ffn_hidden_size ............................. 2048
  moe_layer_freq .................................. [0, 1, 1, 1]
  moe_router_topk ................................. 8
  moe_shared_expert_intermediate_size ............. 4096
  moe_token_dispatcher_type ....................... flex
  multi_latent_attention .......................... True
  num_attention_heads ............................. 128
  num_experts ..................................... 256
  num_layers ...................................... 4
  num_query_groups ................................ 1
  pipeline_model_parallel_size .................... 4
  qk_head_dim ..................................... 128
  qk_pos_emb_head_dim ............................. 64
  seq_length ...................................... 4096
  swiglu .......................................... True
  tensor_model_parallel_size ...................... 2
  use_tp_pp_dp_mapping ............................ True
  v_head_dim ...................................... 128
  virtual_pipeline_model_parallel_size ............ 2
  a_name_so_long_that_no_dots_fit_between_it_and_value  7
-------------------- end of arguments ---------------------
"""


def read(tmp_path: Path, text: str, name: str = "train.log") -> RunLog:
    """The log of such a text."""
    path = tmp_path / name
    path.write_bytes(text.encode())
    log = parsers.read([path])
    assert isinstance(log, RunLog)
    return log


def times(log: RunLog) -> list[tuple[int, float]]:
    """(iteration, ms) of every line."""
    iterations = log.iterations
    return [(int(n), t / 1e6) for n, t in zip(iterations.iteration, iterations.elapsed_ns, strict=True)]


LINES = {
    "v1.0": (
        (" iteration        7/     100 | elapsed time per iteration (ms): 512.5 | learning rate: 1.5E-04 | "
        "lm loss: 9.0E+00 | loss scale: 1.0 |"),
        {"loss": 9.0, "learning_rate": 1.5e-4},
    ),
    "core 0.19, behind torchrun and srun": (
        ("12: [default3]: [2026-01-02 03:04:05.678901] iteration        7/    1000 | consumed samples:        10240 | "
        "skipped samples:  3 | elapsed time per iteration (ms): 512.5 | throughput per GPU (TFLOP/s/GPU): 391.2 | "
        "energy per GPU (J/iter/GPU): 100.0 | power per GPU (W/GPU): 650.5 | learning rate: 1.2E-05 | "
        "global batch size:   256 | lm loss: 7.6E+00 | load_balancing_loss: 1.0E+00 | loss scale: 1.0 | "
        "grad norm: 1.234 | number of skipped iterations:   0 | number of nan iterations:   0 |"),
        {"tflops_per_device": 391.2, "consumed_samples": 10240, "global_batch": 256, "grad_norm": 1.234,
         "power per gpu (w/gpu)": 650.5, "load balancing loss": 1.0},
    ),
    "Megatron-DeepSpeed": (
        (" iteration        7/  100 | consumed samples: 70 | consumed tokens:  143360 | elapsed time per iteration "
        "(ms): 512.5 | learning rate: 1E-4 | global batch size: 10 | lm-loss: 8.0E+00 | loss scale: -1.0 | "
        "actual seqlen:  2048 | number of skipped iterations:   1 | number of nan iterations:   2 | "
        "samples per second: 19.512 | tokens per gpu per second (tgs): 624.390 | TFLOPs: 45.67 |"),
        {"tflops_per_device": 45.67, "tokens_per_s_per_device": 624.39, "loss": 8.0, "skipped": 1, "nan": 2},
    ),
    "MindSpeed --op-cal-tflops": (
        (" [2026-07-21 03:04:05] iteration 7/ 100 | consumed samples: 70 | elapsed time per iteration (ms): 512.5 | "
        "theoretical throughput per NPU (TFLOP/s/NPU): 90.0 | actual throughput per NPU (TFLOP/s/NPU): 80.5 | "
        "actual throughput per NPU with recompute (TFLOP/s/NPU): 100.0 | learning rate: 1E-4 |"),
        {"tflops_per_device": 80.5},
    ),
    "MindSpeed-LLM FSDP2": (
        (" iteration        7/     100 | consumed samples:         70 | consumed tokens:     143360 | elapsed time per "
        "iteration (ms): 512.50 | tokens/s: 40000.00 | mfu: 38.20 | learning rate: 1E-5 | global batch size: 10 | "
        "lm loss: 2.5E+00 | max_memory_allocated(GB): 50.1 |"),
        {"loss": 2.5, "tokens/s": 40000.0, "mfu": 38.2},
    ),
    "Primus, coloured, current/average": (
        ("\x1b[32m[20251023 12:39:12]\x1b[0m\x1b[1m[rank-63/64][INFO ]\x1b[0m [--------trainer.py:2382] :  iteration"
        "        7/   40000 | consumed samples:        27136 | elapsed time per iteration (ms): 512.5/17219.3 | hip "
        "mem usage/free/total/usage_ratio: 253.38GB/2.60GB/255.98GB/98.98% | throughput per GPU "
        "(TFLOP/s/GPU): 11.9/11.5 | tokens per GPU (tokens/s/GPU): 246.7/238.1 | "
        "learning rate: 9.9E-06 | global batch size:    64 |\x1b[0m"),
        {"tflops_per_device": 11.9, "tokens_per_s_per_device": 246.7, "global_batch": 64},
    ),
    "Primus 26.5": (
        ("[rank-7/8] iteration 7/ 5000 | elapsed time per iteration (ms): 512.5 (avg 513.0) | compute per GPU "
        "(TFLOP/s/GPU): 615.5 (avg 615.4) | tokens/s/GPU inst/harmonic mean: 11941.8/11941.7 |"),
        {"tflops_per_device": 615.5, "tokens_per_s_per_device": 11941.8},
    ),
    "Megatron-Bridge": (
        ("Step Time : 0.51s GPU utilization: 390.1MODEL_TFLOP/s/GPU\n"
        " [2026-01-02 03:04:05] iteration        7/     100 | elapsed time per iteration (ms): 512.5 |"),
        {"tflops_per_device": 390.1},
    ),
    "NeMo 2": (
        ("Training epoch 0, iteration 7/99 | lr: 1.2e-05 | global_batch_size: 128 | global_step: 7 | "
        "reduced_train_loss: 9.87 | train_step_timing in s: 0.5125 | consumed_samples: 1664 | "
        "tflops_per_sec_per_gpu: 400.5 |"),
        {"loss": 9.87, "consumed_samples": 1664, "global_batch": 128, "tflops_per_device": 400.5},
    ),
    "NeMo 1's progress bar": (
        ("Epoch 0: :   6%|6  | 6/100 [00:39<04:40, reduced_train_loss=9.9, global_step=6.000, "
        "train_step_timing in s=0.600]\r"
        "Epoch 0: :   7%|7  | 7/100 [00:39<04:40, reduced_train_loss=9.870, global_step=7.000, "
        "consumed_samples=1664.0, train_step_timing in s=0.5125]"),
        {"loss": 9.87, "consumed_samples": 1664},
    ),
    "DLLogger": (
        'DLLL {"timestamp":"1","type":"LOG","step":[0, 7],"data":{"train_step_timing in s":0.5125,"lr":0.5}}',
        {"learning_rate": 0.5},
    ),
    "DeepSpeed engine": ("steps: 7 loss: 7.1 iter time (s): 0.5125 samples/sec: 3.2", {"loss": 7.1}),
    "MLPerf behind a launcher": (
        ('233: :::MLLOG {"key": "tracked_stats", "value": {"train_step_time": 0.5125, "reduced_train_loss": 8.1}, '
        '"metadata": {"step": 6.0, "samples_count": 112}}'),
        {"loss": 8.1, "consumed_samples": 112},
    ),
}  # fmt: skip


@pytest.mark.parametrize("dialect", LINES)
def test_a_line_of_each_dialect(tmp_path: Path, dialect: str) -> None:
    """Iteration 7 took 512.5 ms; the other segments by column, or under their own names."""
    line, expected = LINES[dialect]
    log = read(tmp_path, line + "\n")
    assert times(log)[-1] == (7, pytest.approx(512.5))
    for name, value in expected.items():
        column = log.iterations.other[name] if name in log.iterations.other else getattr(log.iterations, name)
        assert column[-1] == pytest.approx(value), name


@pytest.mark.parametrize(
    "line",
    [
        "elapsed time per iteration: nan",
        "elapsed time per iteration: 19124.9",
        " validation loss at iteration 100 | lm loss value: 8.0E+00 | lm loss PPL: 3.0E+03 |",
        "iteration 7/100 | learning rate: 1E-4 |",
        " iteration 7/ 100 | elapsed time per iteration (ms): nan |",
        " iteration 7/ 100 | elapsed time per iteration (ms): -1.0 |",
    ],
)
def test_what_is_no_iteration(tmp_path: Path, line: str) -> None:
    """Summaries, evaluations and lines without a time."""
    log = read(tmp_path, f"{SIZES}{line}\n")
    assert len(log.iterations) == 0
    assert steady_step(log) is None


def test_layout_and_model_of_a_dump(tmp_path: Path) -> None:
    """MLA with experts: sizes without effect (kv_channels, query groups, encoder sizes) stay out."""
    log = read(tmp_path, SIZES)
    layout, model = log.layout, log.model
    assert layout is not None
    assert (layout.tp, layout.pp, layout.dp, layout.vpp, layout.ep, layout.etp, layout.world_size) == (
        2,
        4,
        2,
        2,
        4,
        1,
        16,
    )
    assert (layout.schedule, layout.dispatcher, layout.rank_order) == ("interleaved", "deepep", "tp-cp-ep-pp-dp")
    assert (layout.microbatches, layout.group_size) == (32, 4)
    assert (model.experts, model.topk, model.moe_ffn, model.shared_ffn) == (256, 8, 2048, 4096)
    assert (model.head_dim, model.rope_dim, model.value_dim, model.kv_lora_rank) == (128, 64, 128, 512)
    assert (model.dense_layers, model.moe_layers, model.gated) == (1, 3, True)
    assert log.arguments["a_name_so_long_that_no_dots_fit_between_it_and_value"] == 7


def test_sizes_without_experts_are_left_out(tmp_path: Path) -> None:
    """A dense model's dump prints top-k 2 and latent sizes all the same."""
    text = SIZES.replace("256\n  num_layers", "None\n  num_layers")
    text = text.replace("attention .......................... True", "attention .......................... False")
    for model in (read(tmp_path, text).model, read_model(tmp_path / "train.log")):
        assert (model.experts, model.topk, model.moe_ffn, model.kv_lora_rank, model.rope_dim) == (None,) * 5
        assert model.kv_heads == 128  # no grouped queries: every head has its own


def test_sizes_of_a_launch_command(tmp_path: Path) -> None:
    """Where no dump was printed."""
    command = (
        "+ CMD='python -m torch.distributed.launch --nproc_per_node 4 --nnodes 4 pretrain_gpt.py "
        "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --num-layers 24 --hidden-size 1024 "
        "--micro-batch-size 2 --global-batch-size 64'\n"
    )
    log = read(tmp_path, command)
    assert log.layout is not None
    assert (log.layout.tp, log.layout.pp, log.layout.dp, log.layout.world_size) == (4, 2, 2, 16)
    assert (log.model.layers, log.model.hidden) == (24, 1024)


def test_a_printed_configuration(tmp_path: Path) -> None:
    """Bridge and Primus print YAML, Primus behind its prefix; other `word: word` lines are no settings."""
    text = (
        "[20251023 12:39:12][rank-0/8][INFO ] [-------x.py:1] : num_layers: 32\n  hidden_size: 4096\n"
        "  tensor_model_parallel_size: 2\n  world_size: 8\n  loss: 4\n"
        "iteration 1/2 | elapsed time per iteration (ms): 5.0 |\n"
    )
    log = read(tmp_path, text)
    assert (log.model.layers, log.model.hidden) == (32, 4096)
    assert log.layout is not None
    assert (log.layout.tp, log.layout.dp) == (2, 4)
    assert "loss" not in log.arguments


BLOCK = """\
 iteration        1/       9 | elapsed time per iteration (ms): 10.0 |
(min, max) time across ranks (ms):
    forward-backward ...............................: (7.50, 8.25)
    optimizer ......................................: (1.00, 1.00)
 iteration        2/       9 | elapsed time per iteration (ms): 10.0 |
max time across ranks (ms):
    all-grads-sync .................................: 2.25
 iteration        3/       9 | elapsed time per iteration (ms): 10.0 |
times across ranks (ms):
  forward-compute:
     rank  0: 3.00
     rank  1: 5.00
 iteration        4/       9 | elapsed time per iteration (ms): 10.0 |
time (ms) | batch generator: 0.50 | forward: 4.00
time (ms)
"""


def test_timer_blocks(tmp_path: Path) -> None:
    """Ranges, maxima, ranks one by one, and one line; an empty block is none."""
    timers = read(tmp_path, BLOCK).timers
    found = {
        (int(timers.iteration[k]), timers.names[timers.name[k]]): tuple(
            int(column[k]) / 1e6 if column[k] >= 0 else None
            for column in (timers.min_ns, timers.max_ns, timers.mean_ns)
        )
        for k in range(len(timers))
    }
    assert found == {
        (1, "forward-backward"): (7.5, 8.25, None),
        (1, "optimizer"): (1.0, 1.0, None),
        (2, "all-grads-sync"): (2.25, 2.25, None),
        (3, "forward-compute"): (3.0, 5.0, 4.0),
        (4, "batch generator"): (0.5, 0.5, 0.5),
        (4, "forward"): (4.0, 4.0, 4.0),
    }


def test_glued_output_of_several_ranks(tmp_path: Path) -> None:
    """Two reports and an iteration in one line, in any order."""
    report = (
        "[Rank {}] (after 1 iterations) memory (MB) | allocated: 1.5 | max allocated: {} | reserved: 4.0 | "
        "max reserved: 5.0"
    )
    line = " iteration 1/ 9 | elapsed time per iteration (ms): 10.0 | lm loss: 2.0E+00 |"
    log = read(tmp_path, f"{report.format(3, 2.0)}{line}{report.format(1, 3.5)}{report.format(2, 3.0)}\n")
    assert sorted(log.memory.rank.tolist()) == [1, 2, 3]
    assert int(log.memory.max_allocated_nbytes.max()) == 3.5 * (1 << 20)
    assert times(log) == [(1, 10.0)]
    assert set(log.iterations.other) == set()


def test_parameter_counts_of_each_spelling(tmp_path: Path) -> None:
    """(tensor, pipeline), with a dimension in between, and before pipelines."""
    text = (
        " > number of parameters on (tensor, pipeline) model parallel rank (1, 2): 100\n"
        " > number of parameters on (tensor, gtp_weight_remat, pipeline) model parallel rank (0, 0, 3): 200\n"
        " > number of parameters on model parallel rank 4: 300\n"
    )
    assert read(tmp_path, text + SIZES).parameters == {(0, 3): 200, (1, 2): 100, (4, 0): 300}


def lines_of(*steps: tuple[int, float], total: int = 99, more: str = "") -> str:
    """Iteration lines of (iteration, ms)."""
    return "".join(f" iteration {n}/ {total} | elapsed time per iteration (ms): {t} |{more}\n" for n, t in steps)


def test_several_runs_in_one_file(tmp_path: Path) -> None:
    """A new dump begins a run, and so does an iteration that falls back; the longest run gives the step."""
    text = SIZES + lines_of((5, 90.0), (10, 20.0)) + SIZES + lines_of((15, 80.0), (20, 30.0), (25, 30.0), (30, 31.0))
    text += lines_of((5, 70.0), (10, 50.0))
    log = read(tmp_path, text)
    assert log.iterations.run.tolist() == [0, 0, 1, 1, 1, 1, 2, 2]
    assert log.iterations.span.tolist() == [5] * 8
    assert log.iterations.is_warmup.tolist() == [True, False] * 2 + [False] * 2 + [True, False]
    step = steady_step(log)
    assert step is not None
    assert (step.run, step.step_ns, step.lines) == (1, 30_000_000, 3)


def test_arguments_are_those_of_the_longest_run(tmp_path: Path) -> None:
    """A file with two jobs: the second is longer, and has its own sizes and parameters."""
    count = " > number of parameters on (tensor, pipeline) model parallel rank (0, {}): {}\n"
    first = SIZES + count.format(3, 100) + lines_of((1, 9.0), (2, 8.0))
    other = SIZES.replace("num_layers ...................................... 4", "num_layers ............ 8")
    second = other + count.format(0, 200) + lines_of((1, 9.0), (2, 8.0), (3, 8.0))
    log = read(tmp_path, first + second)
    assert (log.model.layers, log.parameters) == (8, {(0, 0): 200})
    log = read(tmp_path, second + first)
    assert (log.model.layers, log.parameters) == (8, {(0, 0): 200})


def test_two_dumps_before_the_first_iteration_are_one_run(tmp_path: Path) -> None:
    """Newer releases print the arguments twice."""
    assert read(tmp_path, SIZES + SIZES + lines_of((1, 9.0), (2, 8.0))).runs == 1


def test_checkpoint_and_evaluation_mark_the_next_line(tmp_path: Path) -> None:
    """Both happen after their iteration was printed."""
    text = lines_of((1, 50.0), (2, 10.0)) + "saving checkpoint at iteration 2 to x\n" + lines_of((3, 25.0), (4, 10.0))
    text += " validation loss at iteration 4 | lm loss value: 1E+0 |\n" + lines_of((5, 18.0), (6, 10.0))
    log = read(tmp_path, text)
    assert log.iterations.iteration[log.iterations.is_checkpoint].tolist() == [3]
    assert log.iterations.iteration[log.iterations.is_evaluation].tolist() == [5]
    step = steady_step(log)
    assert step is not None
    assert (step.step_ns, step.lines) == (10_000_000, 3)


def test_iterations_told_in_two_ways_count_once(tmp_path: Path) -> None:
    """DeepSpeed's engine prints its own line before Megatron's."""
    engine = "steps: {} loss: 7.1 iter time (s): 0.011 samples/sec: 3.2\n"
    text = "".join(engine.format(n) + lines_of((n, 10.0)) for n in range(1, 5))
    log = read(tmp_path, text)
    assert times(log) == [(n, 10.0) for n in range(1, 5)]
    assert sum(log.health.skipped.values()) == 4


def test_a_long_prelude_and_gzip(tmp_path: Path) -> None:
    """Launchers print megabytes first; the format is found all the same."""
    text = "module purge\n" * 20_000 + lines_of((1, 10.0), (2, 10.0))
    path = tmp_path / "train.log.gz"
    path.write_bytes(gzip.compress(text.encode()))
    log = parsers.read([path])
    assert isinstance(log, RunLog)
    assert len(log.iterations) == 2


def test_a_log_beside_traces_gives_way(tmp_path: Path) -> None:
    """A folder of traces with the job's output in it is a folder of traces; the log is said to be left out."""
    (tmp_path / "train.log").write_text(lines_of((1, 10.0), (2, 10.0)))
    (tmp_path / "rank0.json").write_bytes(chrome.text([chrome.span("op", 1_700_000_000_000_000)]))
    trace = parsers.read([tmp_path])
    assert isinstance(trace, Trace)
    assert any("train.log" in warning for warning in trace.health.warnings)


def test_a_log_without_anything_to_use_is_an_error(tmp_path: Path) -> None:
    """The message says what is needed."""
    with pytest.raises(TraceError, match="none of them an iteration"):
        read(tmp_path, "iteration 1/ 9 | no time |\n")


def test_columns_are_frozen_and_become_a_table(tmp_path: Path) -> None:
    """One row a line."""
    log = read(tmp_path, lines_of((1, 10.0), (2, 10.0), more=" power: 3.0 |"))
    assert not log.iterations.elapsed_ns.flags.writeable
    frame = log.iterations.to_frame()
    assert frame["power"].tolist() == [3.0, 3.0]
    assert np.isnan(frame["loss"]).all()
