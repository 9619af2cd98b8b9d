"""FLOP of one training iteration from the model's sizes, and what a device's peak makes of them.

Convention: *model* FLOP. A multiply-add is two operations; backward costs twice the forward (weight and data
gradients), so the iteration is three forwards; recomputation is not counted (Chowdhery et al., PaLM, appendix B). Only
matrix products count: projections, attention scores and values, MLPs, head. The embedding lookup, norms, softmax and
the router are left out. ``causal`` counts the half of the attention matrix that a causal model needs, as Megatron-LM's
``num_floating_point_operations`` does since core 0.12; without it the whole matrix counts, as in Narayanan et al.
(SC21, eq. 3) and PaLM.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from replay.model import ModelSpec

PASSES = 3  # forward, weight gradient, data gradient
FLOP_PER_MAC = 2


@dataclass(frozen=True, slots=True)
class TrainingFlops:
    """FLOP of one iteration over all devices, forward and backward, by part."""

    attention_projections: float
    attention_core: float
    dense_mlp: float
    routed_experts: float
    shared_experts: float
    prediction: float  # projections of multi-token prediction layers; their attention and MLP count above
    head: float

    @property
    def total(self) -> float:
        """Sum of the parts."""
        return float(sum(getattr(self, f.name) for f in fields(self)))

    @property
    def layers(self) -> float:
        """Everything but the output head: what full recomputation runs again."""
        return self.total - self.head


def lacking(model: ModelSpec) -> tuple[str, ...]:
    """Sizes that the count needs and the model does not state."""
    needed = ["layers", "hidden", "heads", "seq", "vocab", "gated"]
    needed += ["topk", "moe_ffn"] if model.experts else []
    needed += ["ffn"] if dense_layers(model) else []
    needed += ["head_dim", "rope_dim", "value_dim"] if model.kv_lora_rank else []
    return tuple(name for name in needed if getattr(model, name) in (None, 0) and getattr(model, name) is not False)


def training_flops(model: ModelSpec, sequences: int, *, causal: bool = True) -> TrainingFlops:
    """FLOP of an iteration over ``sequences`` sequences of ``model.seq`` tokens.

    Per token: attention projections of every layer; 2·s·q of scores and values (half when causal); k·h·f of a dense
    MLP, with k = 3 matrices where it is gated, else 2; k·h·f_e·top-k of routed and k·h·f_s of shared experts; h·V of
    the head. A multi-token prediction layer is one more layer like the last, a 2h → h projection and a head. The model
    must lack nothing (:func:`lacking`).
    """
    hidden, seq = model.hidden or 0, model.seq or 0
    ahead = model.mtp_layers or 0
    expert_layers = _expert_layers(model) + (ahead if model.experts else 0)
    plain_layers = dense_layers(model) + (0 if model.experts else ahead)
    matrices = 3 if model.gated else 2
    flop = float(PASSES * FLOP_PER_MAC * sequences * seq)  # per MAC of one token
    all_layers = (model.layers or 0) + ahead
    return TrainingFlops(
        attention_projections=flop * all_layers * projection_macs(model),
        attention_core=flop * all_layers * core_macs(model) / (2 if causal else 1),
        dense_mlp=flop * plain_layers * matrices * hidden * (model.ffn or 0),
        routed_experts=flop * expert_layers * matrices * hidden * (model.moe_ffn or 0) * (model.topk or 0),
        shared_experts=flop * expert_layers * matrices * hidden * shared_ffn(model),
        prediction=flop * ahead * 2 * hidden**2,
        head=flop * (1 + ahead) * hidden * (model.vocab or 0),
    )


def projection_macs(model: ModelSpec) -> float:
    """Multiply-adds of one token in one layer's attention projections.

    Grouped queries: h·(q + 2·g·d) + q·h with q = n·d. Multi-latent (DeepSeek-V2): queries through their rank where
    they have one, keys and values through theirs, the shared rotary key, and the output.
    """
    hidden, heads = model.hidden or 0, model.heads or 0
    size = head_size(model)
    if not model.kv_lora_rank:
        query, key_value = heads * size, (model.kv_heads or heads) * size
        return hidden * (query + 2 * key_value) + query * hidden
    rope, value = model.rope_dim or 0, model.value_dim or 0
    query = heads * (size + rope)
    queries = model.q_lora_rank * (hidden + query) if model.q_lora_rank else hidden * query
    latent = model.kv_lora_rank * (hidden + heads * (size + value))
    return queries + latent + hidden * rope + heads * value * hidden


def core_macs(model: ModelSpec) -> float:
    """Multiply-adds of one token in one layer's attention: scores and values over the whole sequence, s·(q + v)."""
    size, heads = head_size(model), model.heads or 0
    if not model.kv_lora_rank:
        return 2 * (model.seq or 0) * heads * size
    return (model.seq or 0) * heads * (size + (model.rope_dim or 0) + (model.value_dim or 0))


def head_size(model: ModelSpec) -> float:
    """Size of one head's queries without their rotary part: as stated, else hidden / heads."""
    return model.head_dim if model.head_dim else (model.hidden or 0) / (model.heads or 1)


def shared_ffn(model: ModelSpec) -> int:
    """Intermediate size of the shared experts together."""
    if model.shared_ffn is not None:
        return model.shared_ffn
    return (model.shared_experts or 0) * (model.moe_ffn or 0)


def dense_layers(model: ModelSpec) -> int:
    """Layers with a dense MLP."""
    return (model.layers or 0) - _expert_layers(model)


def _expert_layers(model: ModelSpec) -> int:
    if not model.experts:
        return 0
    return (model.layers or 0) - (model.dense_layers or 0) if model.moe_layers is None else model.moe_layers


def with_recomputation(flops: TrainingFlops, recompute: str | None) -> float:
    """FLOP that the devices execute: ``full`` runs every layer's forward again, ``selective`` the attention core's.

    With the whole attention matrix and ``full`` this is Narayanan et al. (SC21), eq. 3:
    96·B·s·l·h²·(1 + s/6h + V/16lh).
    """
    again = {"full": flops.layers, "selective": flops.attention_core}.get(recompute or "", 0.0)
    return flops.total + again / PASSES


def utilisation(flop: float, step_s: float, devices: int, peak_flop_per_s: float) -> float:
    """Achieved share of the peak: FLOP / (step · devices · peak). MFU for model FLOP, HFU for executed FLOP."""
    return flop / (step_s * devices * peak_flop_per_s)
