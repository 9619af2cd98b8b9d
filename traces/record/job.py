"""What to record: parallel sizes, model sizes and batch of one training job."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Model:
    """Sizes of a mixture-of-experts transformer: elements, not bytes."""

    layers: int = 8
    hidden: int = 4096
    moe_ffn: int = 2048
    heads: int = 32
    seq: int = 4096
    vocab: int = 32000
    experts: int = 16
    topk: int = 2


@dataclass(frozen=True, slots=True)
class Job:
    """One training job. Rank order is Megatron's tp-cp-ep-dp-pp with tp = cp = 1."""

    name: str
    pp: int = 2
    vpp: int = 1
    dp: int = 8
    ep: int = 4
    mbs: int = 1
    gbs: int = 64
    model: Model = Model()

    def __post_init__(self) -> None:
        divisions = (
            ("data-parallel ranks", self.dp, "ep", self.ep),
            ("experts", self.model.experts, "ep", self.ep),
            ("layers", self.model.layers, "pp x vpp", self.pp * self.vpp),
            ("global batch", self.gbs, "dp x mbs", self.dp * self.mbs),
        )
        for what, size, by, divisor in divisions:
            if divisor < 1 or size % divisor:
                raise ValueError(f"{what} ({size}) must divide by {by} ({divisor})")
        if self.vpp > 1 and self.microbatches % self.pp:
            raise ValueError(f"interleaving needs micro-batches ({self.microbatches}) divisible by pp ({self.pp})")

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.pp * self.dp

    @property
    def microbatches(self) -> int:
        """Micro-batches of one step on each rank."""
        return self.gbs // (self.dp * self.mbs)

    @property
    def tokens(self) -> int:
        """Tokens of one micro-batch on one rank."""
        return self.model.seq * self.mbs

    @property
    def local_experts(self) -> int:
        """Experts that live on one rank."""
        return self.model.experts // self.ep

    @property
    def rows_per_expert(self) -> int:
        """Rows of one expert's GEMM when the router balances perfectly: tokens·k·ep / experts."""
        return self.tokens * self.model.topk * self.ep // self.model.experts

    def stage(self, rank: int) -> int:
        """Pipeline stage of a rank (pp is the outermost dimension)."""
        return rank // self.dp

    def chunk_layers(self, stage: int, chunk: int) -> range:
        """Global layer numbers of a chunk: virtual stage ``chunk·pp + stage`` holds the layers in model order."""
        per_chunk = self.model.layers // (self.pp * self.vpp)
        first = (chunk * self.pp + stage) * per_chunk
        return range(first, first + per_chunk)

    def is_first(self, stage: int, chunk: int) -> bool:
        """Whether the chunk starts with the embedding."""
        return stage == 0 and chunk == 0

    def is_last(self, stage: int, chunk: int) -> bool:
        """Whether the chunk ends with head and loss."""
        return stage == self.pp - 1 and chunk == self.vpp - 1

    def layout(self) -> dict[str, Any]:
        """Layout as written to ``run.json``; key names are those of the toolkit's JSON output."""
        return {
            "tp": 1, "pp": self.pp, "vpp": self.vpp, "dp": self.dp, "cp": 1, "ep": self.ep, "etp": 1,
            "mbs": self.mbs, "gbs": self.gbs, "microbatches": self.microbatches, "seq": self.model.seq,
            "world_size": self.world_size, "schedule": "1f1b" if self.vpp == 1 else "interleaved",
            "dispatcher": "alltoall", "group_size": self.pp, "overlap_p2p": self.vpp > 1,
            "rank_order": "tp-cp-ep-dp-pp",
        }  # fmt: skip

    def model_json(self) -> dict[str, Any]:
        """Model sizes as written to ``run.json``."""
        return asdict(self.model)
