"""Single kernels and collectives of one rank, with their durations and what disturbs them."""

from __future__ import annotations

from dataclasses import dataclass

from traces.record import groups
from traces.record.durations import Durations
from traces.record.job import Job
from traces.record.ops import BF16_BYTES, FP32_BYTES, Collective, Kernel

_NAMES = {
    "allreduce": "emuAllReduce",
    "_allgather_base": "emuAllGather",
    "_reduce_scatter_base": "emuReduceScatter",
    "all_to_allv": "emuAllToAll",
}


@dataclass(frozen=True, slots=True)
class Kernels:
    """Builds the ops of one rank."""

    job: Job
    durations: Durations
    rank: int

    def kernel(self, name: str, nanoseconds: int, op: str = "", dims: tuple[tuple[int, ...], ...] = ()) -> Kernel:
        """A kernel of that undisturbed duration."""
        return Kernel(name, self.job.disturbance.kernel_ns(name, self.rank, nanoseconds), op, dims)

    def memory(self, name: str, nbytes: int) -> Kernel:
        """A memory-bound kernel."""
        return self.kernel(name, self.durations.memory(nbytes))

    def gemm(self, name: str, rows: int, columns: int, inner: int) -> Kernel:
        """``(rows, inner) x (inner, columns)``."""
        dims = ((rows, inner), (inner, columns))
        return self.kernel(name, self.durations.gemm(rows, columns, inner), "aten::mm", dims)

    def gemm_gradients(self, name: str, rows: int, columns: int, inner: int) -> tuple[Kernel, Kernel]:
        """Gradients of input and weight; the latter is added to the 32-bit main gradient."""
        weight_ns = self.durations.gemm(rows, columns, inner) + self.durations.accumulate(columns * inner)
        input_ns = self.durations.gemm(rows, inner, columns)
        return (
            self.kernel(f"{name}_dgrad", input_ns, "aten::mm", ((rows, columns), (columns, inner))),
            self.kernel(f"{name}_wgrad", weight_ns, "aten::mm", ((inner, rows), (rows, columns))),
        )

    def grouped(self, name: str, rows: tuple[int, ...], columns: int, inner: int) -> Kernel:
        """One GEMM an expert, ``rows`` by expert."""
        dims = ((sum(rows), inner), (len(rows), inner, columns))
        nanoseconds = self.durations.grouped_gemm(rows, columns, inner)
        return self.kernel(name, nanoseconds, "emu::grouped_gemm", dims)

    def grouped_gradients(self, name: str, rows: tuple[int, ...], columns: int, inner: int) -> tuple[Kernel, Kernel]:
        """Gradients of inputs and weights of all local experts."""
        nanoseconds = self.durations.grouped_gemm(rows, columns, inner)
        nanoseconds += self.durations.accumulate(len(rows) * columns * inner)
        dims = ((inner, sum(rows)), (sum(rows), columns), (len(rows), inner, columns))
        return (
            self.grouped(f"{name}_dgrad", rows, inner, columns),
            self.kernel(f"{name}_wgrad", nanoseconds, "emu::grouped_gemm", dims),
        )

    def attention(self, *, backward: bool) -> Kernel:
        """Causal attention of this rank's heads."""
        m, width = self.job.model, self.job.model.hidden // self.job.tp
        nanoseconds = self.durations.attention(self.job.tokens, m.seq, width, backward=backward)
        return self.kernel("flash_attention_bwd" if backward else "flash_attention", nanoseconds)

    def all_reduce(self, group: str, size: int, elements: int) -> Collective:
        """Sum of 32-bit numbers."""
        nanoseconds = self.durations.all_reduce(elements * FP32_BYTES, size, self._slowness(group))
        return self._collective("allreduce", group, (elements, elements), "Float", nanoseconds)

    def tensor_gather(self, elements: int) -> tuple[Collective, ...]:
        """Activations of ``elements`` in all, from every tensor rank's part; nothing without tensor parallelism."""
        return self._tensor("_allgather_base", (elements // self.job.tp, elements))

    def tensor_scatter(self, elements: int) -> tuple[Collective, ...]:
        """Sum of ``elements`` over tensor ranks, a part to each."""
        return self._tensor("_reduce_scatter_base", (elements, elements // self.job.tp))

    def all_to_all(self, sent: tuple[int, ...], received: tuple[int, ...]) -> tuple[Collective, ...]:
        """Rows to and from the members of the expert group; the busiest member decides how long it takes.

        Its messages hold as many rows as the largest of any pair of members. Nothing where all experts are local.
        """
        size, hidden = len(sent), self.job.model.hidden
        if size == 1:
            return ()
        slowness = self._slowness(groups.EXPERT)
        nanoseconds = self.durations.all_to_all(max(sent + received) * hidden * BF16_BYTES, size, slowness)
        elements = (sum(sent) * hidden, sum(received) * hidden)
        splits = tuple(tuple(rows * hidden for rows in part) for part in (sent, received))
        return (self._collective("all_to_allv", groups.EXPERT, elements, "BFloat16", nanoseconds, splits),)

    def _tensor(self, collective: str, elements: tuple[int, int]) -> tuple[Collective, ...]:
        if self.job.tp == 1:
            return ()
        nbytes = max(elements) * BF16_BYTES
        nanoseconds = self.durations.all_gather(nbytes, self.job.tp, self._slowness(groups.TENSOR))
        return (self._collective(collective, groups.TENSOR, elements, "BFloat16", nanoseconds),)

    def _collective(
        self,
        collective: str,
        group: str,
        elements: tuple[int, int],
        dtype: str,
        nanoseconds: int,
        splits: tuple[tuple[int, ...], ...] = ((), ()),
    ) -> Collective:
        return Collective(_NAMES[collective], collective, group, *elements, dtype, nanoseconds, *splits)

    def _slowness(self, group: str) -> float:
        return self.job.disturbance.slowness(groups.LINKS.get(group, ""))
