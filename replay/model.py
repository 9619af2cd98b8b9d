"""ModelSpec: the architecture numbers that re-timing needs, as far as they are known."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A transformer, dense or mixture-of-experts. ``None`` means not known; sizes are elements, not bytes."""

    layers: int | None = None
    hidden: int | None = None
    ffn: int | None = None
    moe_ffn: int | None = None  # intermediate size of one routed expert
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    seq: int | None = None
    vocab: int | None = None
    experts: int | None = None
    topk: int | None = None
    shared_experts: int | None = None
    router_groups: int | None = None  # the router picks experts from at most router_topk_groups of these groups
    router_topk_groups: int | None = None
    dense_layers: int | None = None  # leading layers without experts
    q_lora_rank: int | None = None
    kv_lora_rank: int | None = None
    rope_dim: int | None = None
    value_dim: int | None = None
    mtp_layers: int | None = None
    gated: bool | None = None  # a gated MLP (SwiGLU) has three projections, a plain one two
    shared_ffn: int | None = None  # intermediate size of all shared experts together
    moe_layers: int | None = None  # layers with experts, where it is not layers - dense_layers
    dtype: str | None = None
    name: str = ""

    def to_json(self) -> dict[str, Any]:
        """Known numbers only."""
        return {key: value for key, value in asdict(self).items() if value not in (None, "")}
