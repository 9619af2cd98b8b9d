"""Formulas that frameworks have used for the TFLOP/s in their logs, and which one a log implies.

The same model, step and devices give figures up to 2x apart, so a logged TFLOP/s means nothing without its formula.
Symbols: B sequences, s tokens a sequence, l layers, h hidden, n heads, g key-value heads, q = n·head size, V
vocabulary.
A new generation is one function and one entry in :data:`GENERATIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replay.costs.training_flops import head_size, lacking, shared_ffn, training_flops
from replay.model import ModelSpec

AGREES = 0.005  # logged figures have three or four digits; the steps averaged over differ by this much


@dataclass(frozen=True, slots=True)
class Iteration:
    """What a formula is applied to: a complete model, ``sequences`` an iteration, and what is recomputed."""

    model: ModelSpec
    sequences: int
    recompute: str | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """One formula: where it is found, and what it counts."""

    name: str
    counts: str
    flop: Callable[[Iteration], float]


@dataclass(frozen=True, slots=True)
class Implied:
    """The formula nearest to a log: ``ratio`` = logged / formula; ``same`` are others that give the same number."""

    generation: Generation
    ratio: float
    same: tuple[Generation, ...]


def narayanan(it: Iteration) -> float:
    """24·f·B·s·l·h²·(1 + s/6h + V/16lh), with f = 4 where activations are recomputed, else 3."""
    _, s, layers, h, v = _sizes(it)
    return (
        24
        * (4 if it.recompute == "full" else 3)
        * it.sequences
        * s
        * layers
        * h**2
        * (1 + s / (6 * h) + v / (16 * layers * h))
    )


def narayanan_recomputing(it: Iteration) -> float:
    """The same with f = 4 always: 96·B·s·l·h²·(1 + s/6h + V/16lh)."""
    _, s, layers, h, v = _sizes(it)
    return 96 * it.sequences * s * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h))


def core_0_5(it: Iteration) -> float:
    """60·B·s·l·h²·(1 + g/5n + s/5h + V/10lh): ffn = 4h, no gating."""
    n, s, layers, h, v = _sizes(it)
    groups = it.model.kv_heads or n
    return 60 * it.sequences * s * layers * h**2 * (1 + groups / (5 * n) + s / (5 * h) + v / (10 * layers * h))


def core_0_6(it: Iteration) -> float:
    """12·B·s·l·h²·(1 + g/n + s/h + k·f/h·top-k + V/2lh), k = 3/2 with SwiGLU; every layer with experts, q = h."""
    return _core(it, query_share=1.0, shared=0)


def core_0_8(it: Iteration) -> float:
    """As 0.6, the attention terms times q/h."""
    return _core(it, query_share=it.model.heads * head_size(it.model) / it.model.hidden, shared=0)  # type: ignore[operator]


def core_0_11(it: Iteration) -> float:
    """As 0.8, and k·f_shared/h of shared experts."""
    share = it.model.heads * head_size(it.model) / it.model.hidden  # type: ignore[operator]
    return _core(it, query_share=share, shared=shared_ffn(it.model))


def whole_attention(it: Iteration) -> float:
    """Layers told apart (dense, experts of their own size, shared experts); the whole attention matrix."""
    return training_flops(it.model, it.sequences, causal=False).total


def causal_attention(it: Iteration) -> float:
    """The same with half the attention matrix; multi-latent attention and multi-token prediction known."""
    return training_flops(it.model, it.sequences).total


def deepspeed(it: Iteration) -> float:
    """2·(3 or 4 forwards), recomputation counted; key-value projections as 2 // (n/g), an integer division."""
    n, s, layers, h, v = _sizes(it)
    m = it.model
    projections = (2 + 2 // max(1, n // (m.kv_heads or n))) * h**2
    core = 2 * (h // n) * n * s
    mlp = (3 if m.gated else 2) * (m.ffn or 0) * h * (m.topk or 1)
    forward = it.sequences * s * (layers * (projections + core + mlp) + v * h)
    again = {"full": forward, "selective": it.sequences * s * layers * core}.get(it.recompute or "", 0)
    return 2.0 * (3 * forward + again)


GENERATIONS: tuple[Generation, ...] = (
    Generation("Megatron-LM core 0.12 and later, Bridge, NeMo 2", "half the attention matrix, MoE layers, MLA",
               causal_attention),
    Generation("Megatron-LM core 0.8 to 0.10", "the whole attention matrix, every layer with experts", core_0_8),
    Generation("Megatron-LM core 0.11", "as 0.8, with shared experts", core_0_11),
    Generation("Megatron-LM core 0.6 and 0.7", "as 0.8, with query size = hidden", core_0_6),
    Generation("Megatron-LM between core 0.11 and 0.12", "the whole attention matrix, MoE layers told apart",
               whole_attention),
    Generation("Megatron-LM core 0.5", "the whole attention matrix, ffn = 4 x hidden, no gating", core_0_5),
    Generation("Megatron-LM 2021, Megatron-DeepSpeed to 2023",
               "Narayanan et al. SC21 eq. 3, recomputation counted where used", narayanan),
    Generation("Megatron-LM 2021, always recomputing", "Narayanan et al. SC21 eq. 3, recomputation always counted",
               narayanan_recomputing),
    Generation("Megatron-DeepSpeed from 2023",
               "the whole attention matrix, recomputation counted, key-value heads rounded", deepspeed),
)  # fmt: skip
"""Newest first within a family: of formulas that give the same number, the first is named."""


def implied(logged_flop: float, it: Iteration, resolution: float = 1e-4) -> Implied | None:
    """The generation whose FLOP an iteration agree best with the logged ones; ``None`` where none is within 0.5 %.

    ``logged_flop`` = TFLOP/s per device · 10¹² · seconds · devices. ``resolution`` is the relative step of the printed
    number: formulas that differ by less are not told apart.
    """
    if lacking(it.model) or logged_flop <= 0:
        return None
    ratios = {generation: logged_flop / generation.flop(it) for generation in GENERATIONS}
    agreeing = [generation for generation, ratio in ratios.items() if abs(ratio - 1) <= AGREES]
    if not agreeing:
        return None
    nearest = min(abs(ratios[generation] - 1) for generation in agreeing)
    candidates = [generation for generation in agreeing if abs(ratios[generation] - 1) <= nearest + resolution]
    best, *same = candidates
    return Implied(best, ratios[best], tuple(same))


def _sizes(it: Iteration) -> tuple[int, int, int, int, int]:
    """n, s, l, h, V of a complete model."""
    m = it.model
    return m.heads or 0, m.seq or 0, m.layers or 0, m.hidden or 0, m.vocab or 0


def _core(it: Iteration, *, query_share: float, shared: int) -> float:
    n, s, layers, h, v = _sizes(it)
    m = it.model
    attention = (1 + (m.kv_heads or n) / n + s / h) * query_share
    gate = 1.5 if m.gated else 1.0
    mlp = ((m.ffn or 0) * (m.topk if m.experts and m.topk else 1) + shared) / h * gate
    return 12 * it.sequences * s * layers * h**2 * (attention + mlp + v / (2 * layers * h))
