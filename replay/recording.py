"""PipelineRecording: coarse measurements whose ops are whole chunk passes (MegatronApp, Primus, StragglerAnalysis)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from replay.core.columns import Int8, Int32, Int64, check_equal_length, freeze
from replay.layout import Layout
from replay.trace import Health

if TYPE_CHECKING:
    import pandas as pd


class PassKind(IntEnum):
    """What a recorded row is."""

    FORWARD = 0
    BACKWARD = 1
    FORWARD_SEND = 2
    FORWARD_RECV = 3
    BACKWARD_SEND = 4
    BACKWARD_RECV = 5
    PARAMS_ALL_GATHER = 6
    GRADS_REDUCE_SCATTER = 7
    LAYERNORM_GRADS = 8
    EMBEDDING_GRADS = 9
    CLIP_GRAD = 10
    OPTIMIZER = 11
    OTHER = 12  # gc, first-op, …: host work on the stage's timeline


@dataclass(frozen=True, slots=True)
class PipelineRecording:
    """Columns of length n, in recorded order on each worker. A worker is one (dp_rank, stage)."""

    step: Int64  # recorded iteration number
    dp_rank: Int32
    stage: Int32  # pipeline rank
    kind: Int8  # PassKind
    chunk: Int32  # virtual stage on this rank, 0-based; -1 not applicable or unknown
    microbatch: Int32  # -1 not applicable
    order: Int32  # k-th row of this kind on this worker in this step
    start_ns: Int64
    dur_ns: Int64
    names: tuple[str, ...]  # recorded op type per row
    layout: Layout
    resolution_ns: int  # coarsest spacing of recorded times
    format: str  # "megatronapp", "primus", "straggler-analysis"
    files: tuple[str, ...]
    health: Health
    steps_total_ns: dict[int, int] = field(default_factory=dict)  # iteration → recorded total, where the file says
    layers: int | None = None  # layers of the model, where the file says

    def __post_init__(self) -> None:
        columns = {
            name: getattr(self, name)
            for name in ("step", "dp_rank", "stage", "kind", "chunk", "microbatch", "order", "start_ns", "dur_ns")
        }
        check_equal_length("PipelineRecording", **columns)
        for column in columns.values():
            freeze(column)

    def __len__(self) -> int:
        return len(self.step)

    def to_frame(self) -> pd.DataFrame:
        """One row per recorded pass."""
        import pandas as pd  # noqa: PLC0415 - only notebook users pay for it

        return pd.DataFrame(
            {
                "step": self.step,
                "dp_rank": self.dp_rank,
                "stage": self.stage,
                "kind": [PassKind(k).name.lower() for k in self.kind],
                "chunk": self.chunk,
                "microbatch": self.microbatch,
                "order": self.order,
                "start_ns": self.start_ns,
                "dur_ns": self.dur_ns,
            }
        )
