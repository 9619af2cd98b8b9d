"""CPU jobs that differ in one or two of PP, VPP, DP, EP and micro-batches, each small enough for two cores.

All but two keep both cores busy: a kernel beside which the other core works is slower than one alone, as they share
the last cache and the memory, and no rule can know by how much (see the notes on contention in ``traces/README.md``).
"""

from __future__ import annotations

from dataclasses import replace

from traces.record.job import Job, Model

EXPERTS = Model(layers=4, hidden=256, moe_ffn=512, heads=4, seq=256, vocab=2048, experts=8, topk=2)
DENSE = replace(EXPERTS, dense_layers=4, ffn=1024)
TINY = replace(EXPERTS, hidden=128, moe_ffn=256, seq=128, vocab=512)


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
