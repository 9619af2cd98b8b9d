"""vidur's profiling tables: ``time_stats.<op>.{min,max,mean,median,std}`` in ms, with the sizes of a model in columns.

The files name neither device nor data type: the device is taken from the file's name where it says one, the type is
FP16, as vidur profiles. The median is the time; latencies are quantised to 1 us.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.samples._collective_words import op_of
from parsers.samples._operands import operand_sizes
from parsers.samples._table import Measured, Table, to_samples
from replay.core.columns import Float64
from replay.core.errors import TraceError
from replay.core.units import NS_PER_MS
from replay.samples import Samples, concatenate

FORMAT = "vidur table"

_DTYPE = "fp16"
_WIDTH = 2.0
_DEVICES = ("a100", "h100", "a40", "h200", "h800", "a800", "b200", "mi300x")
_MLP = {"num_tokens", "n_head", "n_kv_head", "n_embd", "n_expanded_embd", "num_tensor_parallel_workers"}
_ATTENTION = {"batch_size", "prefill_chunk_size", "kv_cache_size", "n_q_head", "n_kv_head", "n_embd"}
_COLLECTIVE = {"num_workers", "size", "devices_per_node"}


def claims(columns: Sequence[str]) -> bool:
    """Its statistics, and the sizes of one of its tables."""
    stats = any(name.startswith("time_stats.") for name in columns)
    return stats and any(needs <= set(columns) for needs in (_MLP, _ATTENTION, _COLLECTIVE))


def read_table(table: Table) -> Samples:
    """The samples of an MLP, attention or collective table."""
    known = set(table.columns)
    if known >= _COLLECTIVE:
        return _collective(table)
    return _attention(table) if known >= _ATTENTION else _mlp(table)


def _collective(table: Table) -> Samples:
    named = [name.split(".")[1] for name in table.columns if name.endswith(".median")]
    if len(named) != 1:
        raise TraceError(f"{table.name}:1: needs the statistics of one collective, has {', '.join(named) or 'none'}")
    ranks = table.numbers("num_workers")
    each = np.minimum(table.numbers("devices_per_node"), ranks)
    sizes = {"nbytes": table.numbers("size"), "ranks": ranks, "nodes": np.ceil(ranks / each), "ranks_per_node": each}
    return _part(table, named[0], op_of(named[0]), sizes)


def _mlp(table: Table) -> Samples:
    """GEMMs of the layer as matrices, the other ops by the bytes they move."""
    tokens, hidden = table.numbers("num_tokens"), table.numbers("n_embd")
    tp = table.numbers("num_tensor_parallel_workers")
    head = hidden / table.numbers("n_head")
    query = hidden / tp
    key_value = 2.0 * head * np.maximum(1.0, table.numbers("n_kv_head") / tp)
    inner = table.numbers("n_expanded_embd") / tp
    gates = 1.0 + np.nan_to_num(table.numbers("use_gated_mlp"))
    gemms = {
        "attn_pre_proj": (query + key_value, hidden),
        "attn_post_proj": (hidden, query),
        "mlp_up_proj": (gates * inner, hidden),
        "mlp_down_proj": (hidden, inner),
    }
    moved = {
        "input_layernorm": (hidden, hidden),
        "post_attention_layernorm": (hidden, hidden),
        "mlp_act": (gates * inner, inner),
        "add": (2.0 * hidden, hidden),
        "attn_rope": (query + key_value / 2.0, query + key_value / 2.0),
    }
    parts = [_part(table, op, "gemm", {"m": tokens, "n": n, "k": k}) for op, (n, k) in gemms.items()]
    for op, (read, written) in moved.items():
        sizes = {"read_nbytes": _WIDTH * tokens * read, "written_nbytes": _WIDTH * tokens * written}
        parts.append(_part(table, op, "memory", sizes))
    return concatenate([part for part in parts if len(part)])


def _attention(table: Table) -> Samples:
    """Prefill (a chunk of queries over the cache before it, causal) and decode (one query each)."""
    tp = np.nan_to_num(table.numbers("num_tensor_parallel_workers"), nan=1.0)
    heads = table.numbers("n_q_head")
    chunk, cached = table.numbers("prefill_chunk_size"), table.numbers("kv_cache_size")
    head_dim = table.numbers("n_embd") / heads
    common = {
        "batch": table.numbers("batch_size"),
        "heads": heads / tp,
        "kv_heads": np.maximum(1.0, table.numbers("n_kv_head") / tp),
        "head_dim": head_dim,
        "v_head_dim": head_dim,
        "backward": np.zeros(len(table)),
    }
    one, zero = np.ones(len(table)), np.zeros(len(table))
    prefill = common | {"seq": chunk, "kv_seq": chunk + cached, "causal": one}
    decode = common | {"seq": one, "kv_seq": cached + 1.0, "causal": zero}
    parts = [_part(table, "attn_prefill", "attention", prefill), _part(table, "attn_decode", "attention", decode)]
    return concatenate([part for part in parts if len(part)])


def _part(table: Table, op: str, kind: str, sizes: dict[str, Float64]) -> Samples:
    """Samples of one op of the table; rows without its time are of another op and not worth a note."""
    time_ms = table.numbers(f"time_stats.{op}.median")
    there = np.isfinite(time_ms) & (time_ms > 0)
    words = {"dtype": table.constant(_DTYPE), "device": table.constant(_device(table.name))}
    words |= {"software": table.constant("vidur"), "variant": table.constant(op)}
    if kind == "gemm":
        sizes = sizes | operand_sizes(words["dtype"])
    spread = table.numbers(f"time_stats.{op}.std") * NS_PER_MS
    times = time_ms * NS_PER_MS
    return to_samples(table, Measured(table.constant(kind), times, sizes, words, spread_ns=spread, keep=there))


def _device(name: str) -> str:
    return next((device.upper() for device in _DEVICES if device in name.lower()), "")
