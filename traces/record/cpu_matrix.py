"""CPU jobs that differ in one or two of PP, VPP, DP, EP and micro-batches, each small enough for two cores.

All but one keep two cores busy. Cores share the last cache and the memory: with weights and gradients of 50 MB, adding
up gradients took 1.4 times as long beside a busy neighbour, which no rule can know. So the model is small and its batch
long: what all ranks hold fits in a cache of 32 MB, and most of the time is arithmetic.
"""

from __future__ import annotations

from dataclasses import replace

from traces.record.job import Job, Model

EXPERTS = Model(layers=4, hidden=192, moe_ffn=256, heads=4, seq=512, vocab=1024, experts=4, topk=2)
DENSE = replace(EXPERTS, dense_layers=4, ffn=768)
TINY = replace(EXPERTS, hidden=96, moe_ffn=192, seq=256, vocab=512)


def _job(
    name: str, model: Model = EXPERTS, *, pp: int = 1, vpp: int = 1, dp: int = 1, ep: int = 1, gbs: int = 8
) -> Job:
    return Job(name, pp, vpp, dp, ep, gbs=gbs, model=model)


JOBS: dict[str, Job] = {
    job.name: job
    for job in (
        _job("cpu-pp2-mb4", pp=2, gbs=4),
        _job("cpu-pp2-mb8", pp=2),
        _job("cpu-pp2-mb16", pp=2, gbs=16),
        _job("cpu-pp2-vpp2-mb4", pp=2, vpp=2, gbs=4),
        _job("cpu-pp2-vpp2-mb8", pp=2, vpp=2),
        _job("cpu-dp2-mb4", dp=2),
        _job("cpu-dp2-mb8", dp=2, gbs=16),
        _job("cpu-dp2-ep2-mb4", dp=2, ep=2),
        _job("cpu-dp2-ep2-mb8", dp=2, ep=2, gbs=16),
        _job("cpu-dense-pp2-mb8", DENSE, pp=2),
        _job("cpu-dense-pp2-vpp2-mb8", DENSE, pp=2, vpp=2),
        _job("cpu-alone-mb8"),
    )
}
"""The matrix, by name."""

LIVE: dict[str, Job] = {
    job.name: job for job in (_job("cpu-tiny-pp2-mb4", TINY, pp=2, gbs=4), _job("cpu-tiny-pp2-mb8", TINY, pp=2))
}
"""Recorded within seconds, to see whether predictions hold here and now."""
