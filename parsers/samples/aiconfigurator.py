"""aiconfigurator's measured tables: GEMM, MoE, attention, NCCL and DeepEP latencies (``*_perf`` files).

Latencies are ms; DeepEP's columns end in ``_us``. ``message_size`` of the NCCL tables counts elements (half at N and
int8 at 2 N take the same time), so bytes are elements times width. ``num_tokens`` of MoE tables is that of the whole
expert group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from parsers.samples._collective_words import op_of
from parsers.samples._operands import operand_sizes
from parsers.samples._table import Measured, Table, to_samples
from replay.core.columns import Float64
from replay.core.dtypes import canonical, element_nbytes
from replay.core.errors import TraceError
from replay.core.units import NS_PER_MS, NS_PER_US
from replay.samples import Samples, Words, concatenate

FORMAT = "aiconfigurator table"

_DEVICES_PER_NODE = 8  # of the machines that DeepEP was measured on


def claims(columns: Sequence[str]) -> bool:
    """Framework, version and device, and the sizes of one of its ops."""
    return {"framework", "version", "device"} <= set(columns) and _reader(columns) is not None


def read_table(table: Table) -> Samples:
    """The samples of one of its tables."""
    reader = _reader(table.columns)
    if reader is None:
        raise TraceError(f"{table.name}:1: an aiconfigurator table of an unknown op")
    return reader(table)


def _reader(columns: Sequence[str]) -> Callable[[Table], Samples] | None:
    """What a table holds, by the columns that only it has."""
    known = set(columns)
    kinds: tuple[tuple[set[str], Callable[[Table], Samples]], ...] = (
        ({"gemm_dtype", "m", "n", "k", "latency"}, _gemm),
        ({"moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "latency"}, _moe),
        ({"nccl_dtype", "num_gpus", "message_size", "latency"}, _collective),
        ({"dispatch_transmit_us", "combine_transmit_us", "num_token", "num_topk"}, _deepep_normal),
        ({"dispatch_avg_t_us", "combine_avg_t_us", "num_token", "num_topk"}, _deepep_low_latency),
        ({"batch_size", "isl", "num_heads", "head_dim", "latency"}, _attention),
    )
    return next((reader for needs, reader in kinds if needs <= known), None)


def _words(table: Table, dtype: Words) -> dict[str, Words]:
    framework = table.words("framework").present()
    return {
        "dtype": dtype.map(canonical),
        "device": table.words("device"),
        "software": table.words("version").map(lambda version: " ".join((*framework, version))),
        "variant": table.words("kernel_source").map(lambda source: source.rsplit("/", 1)[-1]),
    }


def _gemm(table: Table) -> Samples:
    words = _words(table, table.words("gemm_dtype"))
    sizes = {name: table.numbers(name) for name in ("m", "n", "k")} | operand_sizes(words["dtype"])
    return to_samples(table, Measured(table.constant("gemm"), table.numbers("latency") * NS_PER_MS, sizes, words))


def _moe(table: Table) -> Samples:
    words = _words(table, table.words("moe_dtype"))
    sizes = {
        "tokens": table.numbers("num_tokens"),
        "hidden": table.numbers("hidden_size"),
        "inter": table.numbers("inter_size"),
        "topk": table.numbers("topk"),
        "experts": table.numbers("num_experts"),
        "moe_tp": table.numbers("moe_tp_size"),
        "moe_ep": table.numbers("moe_ep_size"),
        "skew": table.words("distribution").numbers(_skew),
        **operand_sizes(words["dtype"]),
    }
    return to_samples(table, Measured(table.constant("moe"), table.numbers("latency") * NS_PER_MS, sizes, words))


def _collective(table: Table) -> Samples:
    words = _words(table, table.words("nccl_dtype"))
    op = table.words("op_name").map(op_of)
    width = words["dtype"].numbers(lambda name: element_nbytes(name) or np.nan)
    ranks = table.numbers("num_gpus")
    sizes = {
        "nbytes": table.numbers("message_size") * width,
        "ranks": ranks,
        "nodes": np.ones(len(table)),
        "ranks_per_node": ranks,
    }
    return to_samples(table, Measured(op, table.numbers("latency") * NS_PER_MS, sizes, words))


def _attention(table: Table) -> Samples:
    """Context (prefill: isl queries, causal) and generation (one query over ``step`` keys) attention."""
    decode = table.words("op_name").numbers(lambda name: float("generation" in name)) > 0
    steps = np.nan_to_num(table.numbers("step"))
    isl = table.numbers("isl")
    kv_heads = table.numbers("num_key_value_heads")
    head_dim = table.numbers("head_dim")
    sizes = {
        "batch": table.numbers("batch_size"),
        "seq": np.where(decode, 1.0, isl),
        "kv_seq": np.where(decode, steps + isl, isl + steps),
        "heads": table.numbers("num_heads"),
        "kv_heads": np.where(np.nan_to_num(kv_heads) > 0, kv_heads, table.numbers("num_heads")),
        "head_dim": head_dim,
        "v_head_dim": head_dim,
        "causal": np.where(decode, 0.0, 1.0),
        "backward": np.zeros(len(table)),
    }
    words = _words(table, table.words("attn_dtype") if "attn_dtype" in table.columns else table.words("mla_dtype"))
    return to_samples(table, Measured(table.constant("attention"), table.numbers("latency") * NS_PER_MS, sizes, words))


def _deepep_normal(table: Table) -> Samples:
    parts = [_deepep(table, op, table.numbers(f"{op}_transmit_us"), table.numbers(f"{op}_sms"), "normal")
             for op in ("dispatch", "combine")]  # fmt: skip
    return concatenate(parts)


def _deepep_low_latency(table: Table) -> Samples:
    """Low-latency kernels; the bytes are bandwidth · time of the table (FP8 with scales out, BF16 back)."""
    parts = []
    for op in ("dispatch", "combine"):
        times = table.numbers(f"{op}_avg_t_us")
        nbytes = table.numbers(f"{op}_bandwidth_gbps") * 1e3 * times
        parts.append(_deepep(table, op, times, np.full(len(table), np.nan), "low_latency", nbytes))
    return concatenate(parts)


def _deepep(table: Table, op: str, time_us: Float64, sms: Float64, mode: str, nbytes: Float64 | None = None) -> Samples:
    nodes = table.numbers("node_num")
    sizes = {
        "tokens": table.numbers("num_token"),
        "hidden": table.numbers("hidden_size"),
        "topk": table.numbers("num_topk"),
        "experts": table.numbers("num_experts"),
        "nodes": nodes,
        "ranks_per_node": np.full(len(table), float(_DEVICES_PER_NODE)),
        "ranks": nodes * _DEVICES_PER_NODE,
        "sms": sms,
    } | ({} if nbytes is None else {"nbytes": nbytes})
    words = _words(table, table.constant("")) | {"variant": table.constant(f"deepep {mode}")}
    return to_samples(table, Measured(table.constant(op), time_us * NS_PER_US, sizes, words))


def _skew(distribution: str) -> float:
    """Exponent of the power law of expert loads: "power_law_1.2" is 1.2, "balanced" (and "uniform") 0."""
    return float(distribution.rsplit("_", 1)[1]) if distribution.startswith("power_law_") else 0.0
