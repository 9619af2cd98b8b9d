"""What to record: parallel sizes, model sizes, batch and habits of one training job."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from traces.record.disturbance import NONE, Disturbance
from traces.record.loads import BALANCED, Load

_ONE_CHUNK_SCHEDULES = ("1f1b", "gpipe")


@dataclass(frozen=True, slots=True)
class Model:
    """Sizes of a transformer: elements, not bytes. The first ``dense_layers`` layers have an MLP instead of experts."""

    layers: int = 8
    hidden: int = 4096
    moe_ffn: int = 2048
    heads: int = 32
    seq: int = 4096
    vocab: int = 32000
    experts: int = 16
    topk: int = 2
    dense_layers: int = 0
    ffn: int = 8192  # of the MLP in dense layers

    def to_json(self) -> dict[str, Any]:
        """Sizes that the model has: none of dense layers where there are none, nor of experts where there are none."""
        dense, sparse = ("dense_layers", "ffn"), ("moe_ffn", "experts", "topk")
        absent = (dense if not self.dense_layers else ()) + (sparse if self.dense_layers >= self.layers else ())
        return {key: value for key, value in asdict(self).items() if key not in absent}


@dataclass(frozen=True, slots=True)
class Job:
    """One training job. Rank order is Megatron's tp-cp-ep-dp-pp with cp = 1; experts are not split over tp ranks.

    ``last_stage_layers`` is Megatron's ``--decoder-last-pipeline-num-layers``: other stages share the rest equally.
    ``schedule`` is ``1f1b`` or ``interleaved`` by the number of chunks unless it is said to be ``gpipe``. Megatron
    overlaps pipeline exchanges only when interleaving, and demands it there over two stages.
    """

    name: str
    pp: int = 2
    vpp: int = 1
    dp: int = 8
    ep: int = 4
    mbs: int = 1
    gbs: int = 64
    model: Model = Model()
    tp: int = 1
    schedule: str = ""
    last_stage_layers: int | None = None
    overlap_p2p: bool | None = None
    overlap_grads: bool = False
    load: Load = BALANCED
    ranges: bool = True
    disturbance: Disturbance = NONE

    def __post_init__(self) -> None:
        default = {"schedule": "1f1b" if self.vpp == 1 else "interleaved", "overlap_p2p": self.vpp > 1}
        for name, value in default.items():
            if getattr(self, name) in ("", None):
                object.__setattr__(self, name, value)  # frozen: the one place where a default is filled in
        self._check_sizes()
        self._check_schedule()

    def _check_sizes(self) -> None:
        last = self._last_layers
        others = max(self.pp - 1, 1)
        divisions = (
            ("tensor- and data-parallel ranks", self.tp * self.dp, "ep", self.ep),
            ("experts", self.model.experts, "ep", self.ep),
            ("layers of the last stage", last, "vpp", self.vpp),
            ("layers", self.model.layers - (last if self.last_stage_layers else 0), "pp x vpp", self._sharing),
            ("other layers", self.model.layers - last, "other stages x vpp", others * self.vpp),
            ("global batch", self.gbs, "dp x mbs", self.dp * self.mbs),
            ("sequence", self.model.seq, "tp", self.tp),
        )
        for what, size, by, divisor in divisions:
            if divisor < 1 or size % divisor:
                raise ValueError(f"{what} ({size}) must divide by {by} ({divisor})")

    def _check_schedule(self) -> None:
        if (self.schedule in _ONE_CHUNK_SCHEDULES) != (self.vpp == 1):
            raise ValueError(f"schedule {self.schedule} does not go with vpp {self.vpp}")
        if self.vpp > 1 and self.microbatches % self.pp:
            raise ValueError(f"interleaving needs micro-batches ({self.microbatches}) divisible by pp ({self.pp})")
        if self.vpp > 1 and self.pp <= 2 and not self.overlap_p2p:
            raise ValueError("interleaving over two stages needs overlapped exchanges")
        if self.vpp == 1 and self.overlap_p2p:
            raise ValueError(f"schedule {self.schedule} has no overlapped exchanges")

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.pp * self.stage_ranks

    @property
    def stage_ranks(self) -> int:
        """Ranks of one pipeline stage."""
        return self.dp * self.tp

    @property
    def microbatches(self) -> int:
        """Micro-batches of one step on each rank."""
        return self.gbs // (self.dp * self.mbs)

    @property
    def tokens(self) -> int:
        """Tokens of one micro-batch of a data-parallel rank."""
        return self.model.seq * self.mbs

    @property
    def local_tokens(self) -> int:
        """Tokens of one micro-batch on one rank outside tensor-parallel regions (sequence parallelism)."""
        return self.tokens // self.tp

    @property
    def local_experts(self) -> int:
        """Experts that live on one rank."""
        return self.model.experts // self.ep

    @property
    def _last_layers(self) -> int:
        return self.last_stage_layers or self.model.layers // self.pp

    @property
    def _sharing(self) -> int:
        return (max(self.pp - 1, 1) if self.last_stage_layers else self.pp) * self.vpp

    def stage(self, rank: int) -> int:
        """Pipeline stage of a rank (pp is the outermost dimension)."""
        return rank // self.stage_ranks

    def expert_rank(self, rank: int) -> int:
        """Place of a rank in its expert group."""
        return rank % self.stage_ranks % self.ep

    def chunk_layers(self, stage: int, chunk: int) -> range:
        """Global layer numbers of a chunk: virtual stage ``chunk·pp + stage`` holds the layers in model order."""
        last = self._last_layers // self.vpp
        others = (self.model.layers - self._last_layers) // (max(self.pp - 1, 1) * self.vpp)
        sizes = ([others] * (self.pp - 1) + [last]) * self.vpp
        first = sum(sizes[: chunk * self.pp + stage])
        return range(first, first + sizes[stage])

    def is_first(self, stage: int, chunk: int) -> bool:
        """Whether the chunk starts with the embedding."""
        return stage == 0 and chunk == 0

    def is_last(self, stage: int, chunk: int) -> bool:
        """Whether the chunk ends with head and loss."""
        return stage == self.pp - 1 and chunk == self.vpp - 1

    def layout(self) -> dict[str, Any]:
        """Layout as written to ``run.json``; key names are those of the toolkit's JSON output."""
        return {
            "tp": self.tp, "pp": self.pp, "vpp": self.vpp, "dp": self.dp, "cp": 1, "ep": self.ep, "etp": 1,
            "mbs": self.mbs, "gbs": self.gbs, "microbatches": self.microbatches, "seq": self.model.seq,
            "world_size": self.world_size, "schedule": self.schedule, "dispatcher": "alltoall",
            "group_size": self.pp, "overlap_p2p": self.overlap_p2p, "rank_order": "tp-cp-ep-dp-pp",
        }  # fmt: skip

    def options(self) -> dict[str, Any]:
        """What else was asked for, as written to ``run.json``."""
        stages, chunks = range(self.pp), range(self.vpp)
        return {
            "experts": self.load.name,
            "overlap_grads": self.overlap_grads,
            "ranges": self.ranges,
            "chunk_layers": [[len(self.chunk_layers(s, c)) for c in chunks] for s in stages],
            "disturbance": self.disturbance.to_json(),
        }

    def model_json(self) -> dict[str, Any]:
        """Model sizes as written to ``run.json``."""
        return self.model.to_json()
