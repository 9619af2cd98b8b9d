"""Layout and model from Megatron's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from parsers.model_config import model_from
from replay.core.errors import LayoutError, TraceError
from replay.layout import Layout
from replay.model import ModelSpec

SIZES = {
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "cp": "context_parallel_size",
    "dp": "data_parallel_size",
    "ep": "expert_model_parallel_size",
    "etp": "expert_tensor_parallel_size",
    "mbs": "micro_batch_size",
    "gbs": "global_batch_size",
    "seq": "seq_length",
    "world_size": "world_size",
}
LARGEST_WORLD = 1 << 20  # devices; a larger number is damage, not a size
LARGEST_BATCH = 1 << 40
FLAGS = ("recompute_granularity", "sequence_parallel", "use_distributed_optimizer", "overlap_grad_reduce",
         "overlap_param_gather", "fp8", "timing_log_level")  # fmt: skip


def stated_sizes(arguments: Mapping[str, Any]) -> dict[str, int | str | bool]:
    """Layout keys (DESIGN's names) and switches that the arguments state, nothing assumed."""
    found: dict[str, int | str | bool] = {}
    for key, name in SIZES.items():
        value = arguments.get(name)
        largest = LARGEST_BATCH if key in ("mbs", "gbs", "seq") else LARGEST_WORLD
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= largest:
            found[key] = value
    virtual = arguments.get("virtual_pipeline_model_parallel_size")
    if isinstance(virtual, int) and 1 < virtual <= LARGEST_WORLD:
        found["vpp"] = virtual
    if found.get("pp", 1) != 1:
        found["schedule"] = "interleaved" if "vpp" in found else "1f1b"
    if arguments.get("checkpoint_activations") is True:  # before recompute_granularity, 2022
        found["recompute"] = "full"
    for name in FLAGS:
        value = arguments.get(name)
        if isinstance(value, (int, str)) and value is not False and value != "":
            found["recompute" if name == "recompute_granularity" else name] = value
    if dispatcher := _dispatcher(arguments):
        found["dispatcher"] = dispatcher
    return found


def layout_from(stated: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[Layout | None, str]:
    """The layout that sizes make, or ``None`` and why not.

    dp = world / (tp·cp·pp) where one of both is missing; experts' tensor size defaults to 1 without experts, else tp.
    """
    if not stated.keys() & {"tp", "pp", "dp", "cp"}:
        return None, "the log states no parallel sizes; give them with --from tp=...,pp=...,world=..."
    sizes: dict[str, Any] = {key: stated.get(key, 1) for key in ("tp", "pp", "cp", "ep", "vpp")}
    model = prod(int(sizes[key]) for key in ("tp", "pp", "cp"))
    if "world_size" not in stated and "dp" not in stated:
        return None, "the log states neither world size nor data-parallel size; give it with --from world=..."
    world = int(stated.get("world_size", model * int(stated.get("dp", 1))))
    dp = world // model if world % model == 0 else stated.get("dp", 1)
    etp = stated.get("etp", sizes["tp"] if sizes["ep"] > 1 and "etp" not in stated else 1)
    batch: dict[str, Any] = {key: stated.get(key) for key in ("mbs", "gbs", "seq", "schedule", "dispatcher")}
    group = arguments.get("microbatch_group_size_per_vp_stage")
    if batch["gbs"] and batch["mbs"]:
        batch["microbatches"] = max(1, int(batch["gbs"]) // (int(batch["mbs"]) * int(dp)))
    more: dict[str, Any] = {
        "group_size": group if isinstance(group, int) and sizes["vpp"] > 1 else None,
        "overlap_p2p": arguments.get("overlap_p2p_comm") is True,
        "rank_order": "tp-cp-ep-pp-dp" if arguments.get("use_tp_pp_dp_mapping") is True else "tp-cp-ep-dp-pp",
    }
    try:
        return Layout(**sizes, dp=dp, etp=etp, world_size=world, **batch, **more), ""
    except LayoutError as error:
        return None, f"the sizes stated do not make a layout: {error}"


def spec_from(arguments: Mapping[str, Any]) -> ModelSpec:
    """The model; the vocabulary is the padded one where it is printed."""
    values = dict(arguments)
    experts = values.get("num_experts") or values.get("num_moe_experts")
    if isinstance(experts, list):  # Megatron-DeepSpeed: one number per group of layers
        experts = max((number for number in experts if isinstance(number, int)), default=None)
    values["num_experts"] = experts if isinstance(experts, int) else None
    values["vocab_size"] = values.get("padded_vocab_size") or values.get("vocab_size")
    values.setdefault("swiglu", values.get("gated_linear_unit", False))  # not printed before 2022: there was none
    try:
        return model_from(values, "arguments")
    except TraceError:
        return ModelSpec()


def _dispatcher(arguments: Mapping[str, Any]) -> str | None:
    """Megatron's dispatcher in this project's words; only models with experts have one."""
    kind = arguments.get("moe_token_dispatcher_type")
    experts = arguments.get("num_experts") or arguments.get("num_moe_experts")
    if not isinstance(kind, str) or not experts:
        return None
    if kind == "flex":
        backend = arguments.get("moe_flex_dispatcher_backend", "deepep")
        return "deepep" if backend == "deepep" else None
    return {"alltoall": "alltoall", "alltoall_seq": "alltoall", "allgather": "allgather"}.get(kind)
