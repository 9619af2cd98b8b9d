"""Communicators as Megatron creates them: which ranks form which group, under Megatron's descriptions."""

from __future__ import annotations

from traces.record.job import Job

BACKEND = "sharedgloo"  # what torch.distributed calls Gloo here, see gloo.py; traces say "gloo"

TENSOR = "TENSOR_MODEL_PARALLEL_GROUP"
PIPELINE = "PIPELINE_MODEL_PARALLEL_GROUP"
MODEL = "MODEL_PARALLEL_GROUP"
DATA = "DATA_PARALLEL_GROUP"
EXPERT = "EXPERT_MODEL_PARALLEL_GROUP"
EXPERT_DATA = "EXPERT_DATA_PARALLEL_GROUP"
EXPERT_NORM = "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP"


def members(job: Job) -> dict[str, tuple[tuple[int, ...], ...]]:
    """All groups by description, each a tuple of global ranks; rank = stage·dp + expert replica·ep + expert rank."""
    stages, replicas = range(job.pp), range(job.dp // job.ep)

    def rank(stage: int, replica: int, expert_rank: int) -> int:
        return stage * job.dp + replica * job.ep + expert_rank

    across_stages = tuple(tuple(s * job.dp + d for s in stages) for d in range(job.dp))
    return {
        TENSOR: tuple((r,) for r in range(job.world_size)),
        PIPELINE: across_stages,
        MODEL: across_stages,
        DATA: tuple(tuple(s * job.dp + d for d in range(job.dp)) for s in stages),
        EXPERT: tuple(tuple(rank(s, x, e) for e in range(job.ep)) for s in stages for x in replicas),
        EXPERT_DATA: tuple(tuple(rank(s, x, e) for x in replicas) for s in stages for e in range(job.ep)),
        EXPERT_NORM: tuple(tuple(rank(s, x, e) for s in stages for e in range(job.ep)) for x in replicas),
    }
