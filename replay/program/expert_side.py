"""Expert parallelism of one layout in numbers: rows per expert, copies per token, bytes per token."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from replay.collectives.deduplicating import Router, remote_nodes, remote_ranks_inside
from replay.core.errors import RefusedError
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.groups import FAMILIES, members
from replay.trace import Trace

FP8_BLOCK = 128  # elements that share one FP32 scale (DeepSeek-V3, section 3.3; DeepEP's dispatch)
BF16_NBYTES = 2
_SEQ_WORD = re.compile(r"seq(?:_?len(?:gth)?)?[_-]?(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Experts:
    """The expert layers of a model, as far as re-timing needs them."""

    count: int
    topk: int
    hidden: int | None
    ffn: int | None  # intermediate size of one expert
    router: Router


@dataclass(frozen=True, slots=True)
class ExpertSide:
    """One side of a comparison: the experts laid out over ``ep`` ranks, ``ranks_per_node`` of them on one node."""

    experts: Experts
    ep: int
    ranks_per_node: int
    tokens: float | None  # per rank and micro-batch, None not known
    load: float = 1.0  # tokens of the busiest rank over the mean

    @property
    def local_experts(self) -> int:
        """E / ep."""
        return self.experts.count // self.ep

    @property
    def rows(self) -> float | None:
        """Rows that the busiest rank's experts get: tokens · k · load."""
        return None if self.tokens is None else self.tokens * self.experts.topk * self.load

    @property
    def rows_per_expert(self) -> float | None:
        """tokens · k · ep / E, times the load."""
        return None if self.rows is None else self.rows / self.local_experts

    @property
    def remote_nodes(self) -> float:
        """Expected copies of a token that leave its node."""
        return remote_nodes(self.experts.router, self.ep, self.ranks_per_node)

    @property
    def copies_inside(self) -> float:
        """Expected copies of a token that cross links inside a node."""
        return remote_ranks_inside(self.experts.router, self.ep, self.ranks_per_node)


def experts_of(model: ModelSpec) -> Experts:
    """The experts of a model; :class:`RefusedError` says what is missing and how to give it."""
    missing = [name for name in ("experts", "topk") if getattr(model, name) is None]
    if missing or model.experts is None or model.topk is None:
        raise RefusedError(
            f"the input does not say the model's {' and '.join(missing)}: give --model config.json "
            "(a Hugging Face config or a Megatron arguments dump)"
        )
    groups, admitted = model.router_groups or 1, model.router_topk_groups or model.router_groups or 1
    try:
        router = Router(model.experts, model.topk, groups, admitted)
    except ValueError as error:
        raise RefusedError(f"{error}: check --model") from None
    return Experts(model.experts, model.topk, model.hidden, model.moe_ffn or model.ffn, router)


def ranks_per_node(layout: Layout, devices_per_node: int) -> int:
    """How many ranks of an expert group share a node, nodes being runs of consecutive ranks."""
    group = members(layout, FAMILIES["ep"], 0)
    return sum(rank < devices_per_node for rank in group)


def check_fits(experts: Experts, layout: Layout) -> None:
    """Refuse an ep that does not divide the experts, with the sizes that would."""
    if experts.count % layout.ep:
        ranks = layout.world_size // (layout.pp * layout.etp)
        fits = [ep for ep in range(1, ranks + 1) if ranks % ep == 0 and experts.count % ep == 0]
        raise RefusedError(
            f"{experts.count} experts do not divide by ep {layout.ep}; ep may be one of {', '.join(map(str, fits))}"
        )


def dispatch_nbytes(experts: Experts, *, fp8: bool) -> float | None:
    """Bytes a token takes on its way to an expert: FP8 with one FP32 scale per 128 elements, or BF16."""
    if experts.hidden is None:
        return None
    return experts.hidden * (1 + 4 / FP8_BLOCK) if fp8 else float(experts.hidden * BF16_NBYTES)


def combine_nbytes(experts: Experts) -> float | None:
    """Bytes of a token on its way back: BF16 in both directions of training (DeepSeek-V3, section 3.3.3)."""
    return None if experts.hidden is None else float(experts.hidden * BF16_NBYTES)


def tokens_per_rank(trace: Trace, layout: Layout, model: ModelSpec) -> tuple[float | None, tuple[str, ...]]:
    """Tokens of a rank and micro-batch, and what was assumed for them, one sentence each.

    Sequence · micro-batch / (cp · tp), where sequence parallelism is assumed with tp. The sequence is the layout's, the
    model's, or a size spelled in the trace's or the file's name (``…_seqlen4096``).
    """
    seq, assumed = layout.seq or model.seq, []
    if seq is None:
        spelled = [trace.metadata.get("trace_name", ""), *(PurePath(name).name for name in trace.files)]
        found = next((match for match in map(_SEQ_WORD.search, spelled) if match), None)
        if found is None:
            return None, (
                "the tokens per rank are not known, so expert GEMMs scale by FLOPs alone: give --from seq=…,mbs=…",
            )
        seq = int(found.group(1))
        assumed.append(f"the sequence length is taken from the trace's name ({found.group(0)})")
    if layout.mbs is None:
        assumed.append("one sequence per micro-batch is assumed")
    if layout.tp > 1:
        assumed.append("sequence parallelism is assumed beside tensor parallelism")
    return seq * (layout.mbs or 1) / (layout.cp * layout.tp), tuple(assumed)
