"""Device work of one rank: all modules, gradient sums in buckets, gradient norm, optimizer, pipeline messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from traces.record import groups
from traces.record.durations import Durations
from traces.record.job import Job
from traces.record.kernels import Kernels
from traces.record.layers import Layers
from traces.record.ops import BF16_BYTES, FP32_BYTES, Collective, Kernel, Module
from traces.record.schedules import Phase

HEAD, EMBEDDING = "head", "embedding"
Place = int | str  # a layer's number, HEAD or EMBEDDING

_LEAST_BUCKET, _BUCKET_PER_RANK = 40_000_000, 1_000_000  # parameters, Megatron's DistributedDataParallelConfig


class DeviceWork:
    """Builds the ops of a rank. Modules come in execution order of the phase asked for."""

    def __init__(self, job: Job, durations: Durations, rank: int = 0) -> None:
        self.job = job
        self.durations = durations
        self._make = Kernels(job, durations, rank)
        self._layers = Layers(job, self._make)
        self.layer = cache(self._layers.layer)
        self.buckets = cache(self._buckets)

    def embedding(self, phase: Phase) -> Module:
        """Lookup of one row a token, or its scatter-add."""
        return self._layers.embedding(phase)

    def head(self, phase: Phase) -> Module:
        """Vocabulary GEMM and cross entropy."""
        return self._layers.head(phase)

    def grad_sync(self, stage: int, chunk: int) -> tuple[Collective, ...]:
        """Gradients of a chunk, not in buckets: dense parameters over DATA, experts over EXPERT_DATA, 32-bit sums."""
        sizes = (
            (groups.DATA, self.job.dp, self.dense_parameters(stage, chunk)),
            (groups.EXPERT_DATA, self._replicas, self.expert_parameters(stage, chunk)),
        )
        return tuple(self._sum(group, size, elements) for group, size, elements in sizes if size > 1 and elements)

    def _buckets(self, stage: int, chunk: int) -> Mapping[Place, tuple[Collective, ...]]:
        """Gradients of a chunk in buckets, by the place in the backward pass after which each is complete.

        Parameters enter in the order of the backward pass; a bucket is full from max(40 M, 1 M·dp) parameters on.
        """
        ready: dict[Place, tuple[Collective, ...]] = {}
        for group, size in ((groups.DATA, self.job.dp), (groups.EXPERT_DATA, self._replicas)):
            if size == 1:
                continue
            filled = 0
            places = list(self._places(stage, chunk))
            for place in places:
                filled += self._parameters(place, group)
                if filled and (place == places[-1] or filled >= max(_LEAST_BUCKET, _BUCKET_PER_RANK * size)):
                    ready[place] = (*ready.get(place, ()), self._sum(group, size, filled))
                    filled = 0
        return ready

    def grad_norm(self) -> tuple[Collective, ...]:
        """Squared norms of dense and expert gradients: one number each over the model-parallel ranks."""
        pp, tp, ep = self.job.pp, self.job.tp, self.job.ep
        sizes = [(groups.MODEL, pp * tp)] + ([(groups.EXPERT_NORM, pp * ep)] if self._sparse else [])
        return tuple(self._sum(group, size, 1) for group, size in sizes if size > 1)

    def optimizer(self, stage: int) -> tuple[Kernel, ...]:
        """Adam on this rank's parameters: reads gradient, master weight and two moments, writes three and BF16."""
        chunks = range(self.job.vpp)
        dense = sum(self.dense_parameters(stage, c) for c in chunks)
        expert = sum(self.expert_parameters(stage, c) for c in chunks)
        nbytes = 7 * FP32_BYTES + BF16_BYTES
        return tuple(self._make.memory("adam", nbytes * count) for count in (dense, expert) if count)

    def dense_parameters(self, stage: int, chunk: int) -> int:
        """Attention, router and MLP of the chunk's layers, and embedding or head where they live."""
        return sum(self._parameters(place, groups.DATA) for place in self._places(stage, chunk))

    def expert_parameters(self, stage: int, chunk: int) -> int:
        """Gate, up and down projections of this rank's experts."""
        return sum(self._parameters(place, groups.EXPERT_DATA) for place in self._places(stage, chunk))

    def activation_elements(self) -> int:
        """Elements that a rank of one stage sends to the next."""
        return self.job.local_tokens * self.job.model.hidden

    def transfer_ns(self) -> int:
        """Duration of one activation or gradient message between stages."""
        slowness = self.job.disturbance.slowness("pp")
        return self.durations.point_to_point(self.activation_elements() * BF16_BYTES, slowness)

    @property
    def _replicas(self) -> int:
        """Ranks that hold the same experts."""
        return self.job.stage_ranks // self.job.ep

    @property
    def _sparse(self) -> bool:
        return self.job.model.dense_layers < self.job.model.layers

    def _places(self, stage: int, chunk: int) -> Iterator[Place]:
        """Parts of a chunk in the order of its backward pass."""
        if self.job.is_last(stage, chunk):
            yield HEAD
        yield from reversed(self.job.chunk_layers(stage, chunk))
        if self.job.is_first(stage, chunk):
            yield EMBEDDING

    def _parameters(self, place: Place, group: str) -> int:
        """Parameters of a part on this rank whose gradients are summed over that group."""
        m, tp = self.job.model, self.job.tp
        dense = place not in (HEAD, EMBEDDING) and int(place) < m.dense_layers
        if group == groups.EXPERT_DATA:
            sparse = place not in (HEAD, EMBEDDING) and not dense
            return self.job.local_experts * 3 * m.hidden * m.moe_ffn if sparse else 0
        if place in (HEAD, EMBEDDING):
            return m.vocab * m.hidden // tp
        return 4 * m.hidden * m.hidden // tp + (3 * m.hidden * m.ffn // tp if dense else m.hidden * m.experts)

    def _sum(self, group: str, size: int, elements: int) -> Collective:
        return self._make.all_reduce(group, size, elements)
