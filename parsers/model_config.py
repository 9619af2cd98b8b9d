"""Read a model description: a Hugging Face ``config.json`` or a dump of Megatron's arguments.

Both are key-value lists; one table says under which keys each field of :class:`ModelSpec` is found. A Megatron dump is
JSON, YAML-like ``key: value`` lines, or the log's ``  key ........ value`` lines (formats: Megatron ``print_args``).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from replay.core.errors import TraceError
from replay.model import ModelSpec

KEYS: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "num_layers", "n_layer", "n_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "dim"),
    "ffn": ("intermediate_size", "ffn_hidden_size", "n_inner", "d_ff"),
    "moe_ffn": ("moe_intermediate_size", "moe_ffn_hidden_size", "expert_intermediate_size"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_query_groups", "n_kv_heads"),
    "head_dim": ("head_dim", "kv_channels", "qk_nope_head_dim", "qk_head_dim"),
    "seq": ("seq_length",),  # max_position_embeddings is a limit, not the length trained with
    "vocab": ("vocab_size", "padded_vocab_size"),
    "experts": ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"),
    "topk": ("num_experts_per_tok", "moe_router_topk", "moe_topk", "num_experts_per_token"),
    "shared_experts": ("n_shared_experts", "num_shared_experts"),
    "shared_ffn": ("moe_shared_expert_intermediate_size", "shared_expert_intermediate_size"),
    "router_groups": ("n_group", "moe_router_num_groups"),
    "router_topk_groups": ("topk_group", "moe_router_group_topk"),
    "dense_layers": ("first_k_dense_replace",),
    "q_lora_rank": ("q_lora_rank",),
    "kv_lora_rank": ("kv_lora_rank",),
    "rope_dim": ("qk_rope_head_dim", "qk_pos_emb_head_dim"),
    "value_dim": ("v_head_dim",),
    "mtp_layers": ("num_nextn_predict_layers", "mtp_num_layers"),
}
"""Keys of every numeric field, the first one present counts."""

DTYPE = ("torch_dtype", "dtype", "params_dtype")
NAME = ("_name_or_path", "model_type")
_NESTED = ("text_config", "language_config", "llm_config", "thinker_config")
_DOTTED = re.compile(r"^\s*(?:\[[^\]]*\]:?\s*)?(\w+) (\.*) (\S.*?)\s*$")
_PAIR = re.compile(r"^\s*-{0,2}(\w+)\s*[:=]\s*(.*?)\s*$")
_LATENT = frozenset(("q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"))
_EXPERTS = frozenset((
    "moe_router_topk", "moe_topk", "moe_ffn_hidden_size", "moe_shared_expert_intermediate_size",
    "moe_router_num_groups", "moe_router_group_topk", "moe_layer_freq",
))  # fmt: skip
_HEAD = 1 << 26  # a description is small; a log may carry the dump at its start


def read_model(path: Path) -> ModelSpec:
    """The model that a file describes.

    Raises :class:`TraceError` for a file without layers, hidden size or experts, or with a value that is no number.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_HEAD).decode("utf-8", "replace")
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror}); give a model's config.json") from None
    return model_from(_pairs(text, path), str(path))


def model_from(values: Mapping[str, Any], where: str) -> ModelSpec:
    """The model that key-value pairs describe; ``where`` names them in messages."""
    values = _effective(values)
    found = {field: _number(values, keys, where) for field, keys in KEYS.items()}
    if not any(found[field] for field in ("layers", "hidden", "experts")):
        raise TraceError(
            f"{where}: names neither layers, hidden size nor experts of a model; give a Hugging Face config.json or a "
            "Megatron arguments dump"
        )
    if found["dense_layers"] is None:
        found["dense_layers"] = _leading_dense(values.get("moe_layer_freq"))
    if found["experts"]:
        found["moe_layers"] = _expert_layers(values.get("moe_layer_freq"), found["layers"])
    if found["moe_ffn"] is None and found["experts"]:
        found["moe_ffn"] = found["ffn"]  # Mixtral and old Megatron: every expert has the model's own size
    dtype, name = _first(values, DTYPE), _first(values, NAME)
    return ModelSpec(**found, gated=_gated(values), dtype=_bare(dtype), name=str(name or ""))


def _effective(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without the arguments that Megatron prints though they have no effect.

    Multi-latent sizes of a model without it, and the size of plain heads of one with it; one query group of a model
    without grouped queries; top-k and sizes of experts of a model without experts.
    """
    unused: set[str] = set()
    if values.get("multi_latent_attention") is False:
        unused |= _LATENT
    elif values.get("multi_latent_attention"):
        unused.add("kv_channels")
    if values.get("group_query_attention") is False:
        unused.add("num_query_groups")
        values = {**values, "num_key_value_heads": values.get("num_attention_heads")}
    if "num_experts" in values and values["num_experts"] in (None, "None", 0, 1):
        unused |= {*_EXPERTS, "num_experts"}
    return {key: value for key, value in values.items() if key not in unused}


def _pairs(text: str, path: Path) -> dict[str, Any]:
    """Key-value pairs of a JSON object (language part first, where it is nested), of dotted lines, or of YAML lines."""
    if text.lstrip().startswith("{"):
        try:
            document = msgspec.json.decode(text.encode())
        except msgspec.DecodeError as error:
            raise TraceError(f"{path}: is not JSON ({error})") from None
        inner: dict[str, Any] = next((document[key] for key in _NESTED if isinstance(document.get(key), dict)), {})
        return {**document, **inner}
    lines = text.splitlines()
    for pattern, value in ((_DOTTED, 3), (_PAIR, 2)):
        found = {match.group(1): _literal(match.group(value)) for match in map(pattern.match, lines) if match}
        if any(key in found for keys in KEYS.values() for key in keys):
            return found
    return {}


def _literal(text: str) -> Any:
    """A Python or YAML scalar as written; anything else stays text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text.strip("\"'")


def _first(values: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((values[key] for key in keys if values.get(key) not in (None, "", "None", "null")), None)


def _number(values: Mapping[str, Any], keys: tuple[str, ...], where: str) -> int | None:
    value = _first(values, keys)
    if value is None or value is False:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value % 1 != 0 or value < 0:
        key = next(key for key in keys if values.get(key) == value)
        raise TraceError(f"{where}: {key} must be a whole number, got {value!r}")
    return int(value)


def _leading_dense(frequency: Any) -> int | None:
    """Leading zeros of Megatron's list of expert layers, also as text such as ``([0]*3+[1]*58)``; else not known."""
    if isinstance(frequency, str) and (match := re.match(r"\(?\[0\]\*(\d+)", frequency.strip())):
        return int(match.group(1))
    if isinstance(frequency, list) and 1 in frequency:
        return frequency.index(1)
    return None


def _expert_layers(frequency: Any, layers: int | None) -> int | None:
    """Layers with experts of Megatron's list, or of every n-th layer; ``None`` where leading dense layers say it."""
    if isinstance(frequency, list) and all(flag in (0, 1) for flag in frequency):
        return sum(frequency)
    if isinstance(frequency, int) and frequency > 1 and layers:
        return -(-layers // frequency)
    return None


def _gated(values: Mapping[str, Any]) -> bool | None:
    """Whether the MLP is gated: Megatron says so, Hugging Face's SiLU models are."""
    stated = _first(values, ("swiglu", "gated_linear_unit"))
    if isinstance(stated, bool):
        return stated
    return True if values.get("hidden_act") == "silu" else None


def _bare(dtype: Any) -> str | None:
    """``torch.bfloat16`` as ``bfloat16``."""
    return None if dtype is None else str(dtype).rpartition(".")[2]
