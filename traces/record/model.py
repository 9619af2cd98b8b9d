"""Device work of one rank: kernels and collectives of every module, forward and backward, with their durations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from traces.record import groups
from traces.record.durations import Durations
from traces.record.job import Job
from traces.record.schedules import Phase

BF16_BYTES = 2
FP32_BYTES = 4


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compute kernel; ``op`` and ``dims`` name the framework operator that launches it, where shapes matter."""

    name: str
    duration_ns: int
    op: str = ""
    dims: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective over this rank's group of that description; counts are elements of ``dtype``."""

    name: str
    collective: str  # NCCL's word: all_to_allv, allreduce
    group: str
    elements: int
    dtype: str
    duration_ns: int


Op = Kernel | Collective
Module = tuple[str, tuple[Op, ...]]


class DeviceWork:
    """Builds the ops of a job. Modules come in execution order of the phase asked for."""

    def __init__(self, job: Job, durations: Durations) -> None:
        self.job = job
        self.durations = durations

    def layer(self, phase: Phase) -> tuple[Module, ...]:
        """Attention, router, dispatch, experts, combine; reversed in backward."""
        return tuple(self._forward_layer() if phase == "forward" else self._backward_layer())

    def embedding(self, phase: Phase) -> Module:
        """Lookup of one row a token, or its scatter-add."""
        nbytes = self.job.tokens * self.job.model.hidden * BF16_BYTES * (2 if phase == "forward" else 4)
        return "embedding", (Kernel(_name("embedding", phase), self.durations.memory(nbytes)),)

    def head(self, phase: Phase) -> Module:
        """Vocabulary GEMM and cross entropy."""
        m, rows = self.job.model, self.job.tokens
        loss = Kernel(_name("cross_entropy", phase), self.durations.memory(rows * m.vocab * (BF16_BYTES + FP32_BYTES)))
        if phase == "forward":
            return "head", (self._gemm("head_gemm", rows, m.vocab, m.hidden), loss)
        return "head", (loss, *self._gemm_backward("head_gemm", rows, m.vocab, m.hidden))

    def grad_sync(self, stage: int, chunk: int) -> tuple[Collective, ...]:
        """Gradients in one bucket a chunk: dense parameters over DATA, experts over EXPERT_DATA (32-bit sums)."""
        sizes = (
            (groups.DATA, self.job.dp, self.dense_parameters(stage, chunk)),
            (groups.EXPERT_DATA, self.job.dp // self.job.ep, self.expert_parameters(stage, chunk)),
        )
        return tuple(self._all_reduce(group, size, elements) for group, size, elements in sizes if size > 1)

    def grad_norm(self) -> tuple[Collective, ...]:
        """Squared norms of dense and expert gradients: one number each over the model-parallel ranks."""
        sizes = ((groups.MODEL, self.job.pp), (groups.EXPERT_NORM, self.job.pp * self.job.ep))
        return tuple(self._all_reduce(group, size, 1) for group, size in sizes if size > 1)

    def optimizer(self, stage: int) -> tuple[Kernel, ...]:
        """Adam on this rank's parameters: reads gradient, master weight and two moments, writes three and BF16."""
        chunks = range(self.job.vpp)
        dense = sum(self.dense_parameters(stage, c) for c in chunks)
        expert = sum(self.expert_parameters(stage, c) for c in chunks)
        nbytes = 7 * FP32_BYTES + BF16_BYTES
        return tuple(Kernel("adam", self.durations.memory(nbytes * count)) for count in (dense, expert))

    def dense_parameters(self, stage: int, chunk: int) -> int:
        """Attention and router of the chunk's layers, and embedding or head where they live."""
        m = self.job.model
        ends = self.job.is_first(stage, chunk) + self.job.is_last(stage, chunk)
        layers = len(self.job.chunk_layers(stage, chunk))
        return layers * (4 * m.hidden * m.hidden + m.hidden * m.experts) + ends * m.vocab * m.hidden

    def expert_parameters(self, stage: int, chunk: int) -> int:
        """Gate, up and down projections of this rank's experts."""
        m = self.job.model
        return len(self.job.chunk_layers(stage, chunk)) * self.job.local_experts * 3 * m.hidden * m.moe_ffn

    def activation_elements(self) -> int:
        """Elements that one stage sends to the next."""
        return self.job.tokens * self.job.model.hidden

    def transfer_ns(self) -> int:
        """Duration of one activation or gradient message between stages."""
        return self.durations.point_to_point(self.activation_elements() * BF16_BYTES)

    def _forward_layer(self) -> Iterator[Module]:
        m, rows = self.job.model, self.job.tokens
        yield (
            "attention",
            (
                self._gemm("qkv_gemm", rows, 3 * m.hidden, m.hidden),
                Kernel("flash_attention", self.durations.attention(rows, m.seq, m.hidden, backward=False)),
                self._gemm("proj_gemm", rows, m.hidden, m.hidden),
            ),
        )
        yield "router", (self._routing("router_topk"), self._copy("permute"))
        yield "dispatch", self._all_to_all()
        yield (
            "experts",
            (
                self._grouped("grouped_gemm_fc1", 2 * m.moe_ffn, m.hidden),
                self._grouped("grouped_gemm_fc2", m.hidden, m.moe_ffn),
            ),
        )
        yield "combine", (*self._all_to_all(), self._copy("unpermute"))

    def _backward_layer(self) -> Iterator[Module]:
        m, rows = self.job.model, self.job.tokens
        yield "combine", (self._copy("unpermute_bwd"), *self._all_to_all())
        yield (
            "experts",
            (
                *self._grouped_backward("grouped_gemm_fc2", m.hidden, m.moe_ffn),
                *self._grouped_backward("grouped_gemm_fc1", 2 * m.moe_ffn, m.hidden),
            ),
        )
        yield "dispatch", self._all_to_all()
        yield "router", (self._copy("permute_bwd"), self._routing("router_bwd"))
        yield (
            "attention",
            (
                *self._gemm_backward("proj_gemm", rows, m.hidden, m.hidden),
                Kernel("flash_attention_bwd", self.durations.attention(rows, m.seq, m.hidden, backward=True)),
                *self._gemm_backward("qkv_gemm", rows, 3 * m.hidden, m.hidden),
            ),
        )

    def _routing(self, name: str) -> Kernel:
        """Router scores and top-k: reads the hidden states twice."""
        return Kernel(name, self.durations.memory(2 * self.activation_elements() * BF16_BYTES))

    def _copy(self, name: str) -> Kernel:
        """Tokens into expert order or back: one read, k writes."""
        return Kernel(name, self.durations.memory((1 + self.job.model.topk) * self.activation_elements() * BF16_BYTES))

    def _gemm(self, name: str, rows: int, columns: int, inner: int) -> Kernel:
        return Kernel(name, self.durations.gemm(rows, columns, inner), "emu::gemm", ((rows, inner), (inner, columns)))

    def _gemm_backward(self, name: str, rows: int, columns: int, inner: int) -> tuple[Kernel, Kernel]:
        dgrad = self.durations.gemm(rows, inner, columns)
        wgrad = self.durations.gemm(rows, columns, inner) + self.durations.accumulate(columns * inner)
        return (
            Kernel(f"{name}_dgrad", dgrad, "emu::gemm", ((rows, columns), (columns, inner))),
            Kernel(f"{name}_wgrad", wgrad, "emu::gemm", ((inner, rows), (rows, columns))),
        )

    def _grouped(self, name: str, columns: int, inner: int) -> Kernel:
        rows = [self.job.rows_per_expert] * self.job.local_experts
        dims = ((sum(rows), inner), (len(rows), inner, columns))
        return Kernel(name, self.durations.grouped_gemm(rows, columns, inner), "emu::grouped_gemm", dims)

    def _grouped_backward(self, name: str, columns: int, inner: int) -> tuple[Kernel, Kernel]:
        dgrad = self._grouped(f"{name}_dgrad", inner, columns)
        rows = [self.job.rows_per_expert] * self.job.local_experts
        nanoseconds = self.durations.grouped_gemm(rows, columns, inner)
        nanoseconds += self.durations.accumulate(len(rows) * columns * inner)
        dims = ((inner, sum(rows)), (sum(rows), columns), (len(rows), inner, columns))
        return dgrad, Kernel(f"{name}_wgrad", nanoseconds, "emu::grouped_gemm", dims)

    def _all_to_all(self) -> tuple[Collective, ...]:
        """Every token to the ranks of its k experts; none where all experts are local."""
        if self.job.ep == 1:
            return ()
        elements = self.activation_elements() * self.job.model.topk
        nanoseconds = self.durations.all_to_all(elements * BF16_BYTES // self.job.ep, self.job.ep)
        return (Collective("emuAllToAll", "all_to_allv", groups.EXPERT, elements, "BFloat16", nanoseconds),)

    def _all_reduce(self, group: str, size: int, elements: int) -> Collective:
        nanoseconds = self.durations.all_reduce(elements * FP32_BYTES, size)
        return Collective("emuAllReduce", "allreduce", group, elements, "Float", nanoseconds)


def _name(base: str, phase: Phase) -> str:
    return base if phase == "forward" else f"{base}_bwd"
