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

LINKS = {TENSOR: "tp", DATA: "dp", EXPERT: "ep", EXPERT_DATA: "dp"}
"""Kind of link that a group's payload uses."""


def members(job: Job) -> dict[str, tuple[tuple[int, ...], ...]]:
    """All groups by description, each a tuple of global ranks.

    rank = (stage·dp + data rank)·tp + tensor rank; within a stage also expert replica·ep + expert rank.
    """
    stages, tensor, data = range(job.pp), range(job.tp), range(job.dp)
    experts, replicas = range(job.ep), range(job.stage_ranks // job.ep)

    def dense(stage: int, d: int, t: int) -> int:
        return stage * job.stage_ranks + d * job.tp + t

    def expert(stage: int, replica: int, e: int) -> int:
        return stage * job.stage_ranks + replica * job.ep + e

    return {
        TENSOR: tuple(tuple(dense(s, d, t) for t in tensor) for s in stages for d in data),
        PIPELINE: tuple(tuple(dense(s, d, t) for s in stages) for d in data for t in tensor),
        MODEL: tuple(tuple(dense(s, d, t) for s in stages for t in tensor) for d in data),
        DATA: tuple(tuple(dense(s, d, t) for d in data) for s in stages for t in tensor),
        EXPERT: tuple(tuple(expert(s, x, e) for e in experts) for s in stages for x in replicas),
        EXPERT_DATA: tuple(tuple(expert(s, x, e) for x in replicas) for s in stages for e in experts),
        EXPERT_NORM: tuple(tuple(expert(s, x, e) for s in stages for e in experts) for x in replicas),
    }
