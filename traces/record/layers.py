"""Modules of the model on one rank: the operators of each, forward and backward.

Tensor parallelism is Megatron's, with sequence parallelism: outside attention, MLP and head a rank holds its part of
the sequence; column-parallel GEMMs gather it first, row-parallel ones scatter their sum. The backward gathers the
column-parallel GEMM's input again for its weight gradient.

Every backward module holds one operator for each of the forward's, in reverse: operators are matched by that order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from traces.record import groups
from traces.record.job import Job
from traces.record.kernels import Kernels
from traces.record.ops import BF16_BYTES, FP32_BYTES, Collective, Kernel, Module, Op, Operator
from traces.record.schedules import Phase


@dataclass(frozen=True)
class Layers:
    """Builds modules; they come in execution order of the phase asked for."""

    job: Job
    make: Kernels

    def layer(self, phase: Phase, layer: int) -> tuple[Module, ...]:
        """Attention, then an MLP (dense layers) or router, dispatch, experts, combine; reversed in backward."""
        if layer < self.job.model.dense_layers:
            forward, backward = self._mlp(), self._mlp_backward()
        else:
            forward, backward = self._experts(layer), self._experts_backward(layer)
        if phase == "forward":
            return ("attention", self._attention()), *forward
        return *backward, ("attention", self._attention_backward())

    def embedding(self, phase: Phase) -> Module:
        """Lookup of one row a token, or its scatter-add."""
        nbytes = self.job.tokens * self.job.model.hidden * BF16_BYTES
        scatter = "_ReduceScatterToSequenceParallelRegion"
        if phase == "forward":
            lookup = Operator("aten::embedding", (self.make.memory("embedding", 2 * nbytes),))
            parts = [lookup, Operator(scatter, self.make.tensor_scatter(self._width))]
        else:
            add = Operator("aten::embedding", (self.make.memory("embedding_bwd", 4 * nbytes),))
            parts = [Operator(scatter, self.make.tensor_gather(self._width)), add]
        return "embedding", tuple(part for part in parts if part.ops)

    def head(self, phase: Phase) -> Module:
        """Vocabulary GEMM and cross entropy."""
        rows, vocab, hidden = self.job.tokens, self.job.model.vocab // self.job.tp, self.job.model.hidden
        nbytes = rows * vocab * (BF16_BYTES + FP32_BYTES)
        linear, loss = "LinearWithGradAccumulationAndAsyncCommunication", "_VocabParallelCrossEntropy"
        if phase == "forward":
            gemm: tuple[Op, ...] = (
                *self.make.tensor_gather(self._width),
                self.make.gemm("head_gemm", rows, vocab, hidden),
            )
            entropy: tuple[Op, ...] = (self.make.memory("cross_entropy", nbytes), *self._loss_sums())
            return "head", (self._over_hidden(linear, *gemm), Operator(loss, entropy, ((*self._shape, vocab),)))
        return "head", (
            Operator(loss, (self.make.memory("cross_entropy_bwd", nbytes),)),
            Operator(linear, self._column_gradients("head_gemm", vocab, hidden)),
        )

    @property
    def _width(self) -> int:
        """Elements of one micro-batch's hidden states."""
        return self.job.tokens * self.job.model.hidden

    @property
    def _shape(self) -> tuple[int, int]:
        """Sequence and batch of a rank's hidden states."""
        return self.job.model.seq // self.job.tp, self.job.mbs

    @cached_property
    def _local(self) -> int:
        """Elements of hidden states on this rank."""
        return self.job.local_tokens * self.job.model.hidden

    def _over_hidden(self, name: str, *ops: Op) -> Operator:
        return Operator(name, ops, ((*self._shape, self.job.model.hidden),))

    def _attention(self) -> tuple[Operator, ...]:
        hidden, rows, tp = self.job.model.hidden, self.job.tokens, self.job.tp
        qkv: tuple[Op, ...] = (
            *self.make.tensor_gather(self._width),
            self.make.gemm("qkv_gemm", rows, 3 * hidden // tp, hidden),
        )
        proj: tuple[Op, ...] = (
            self.make.gemm("proj_gemm", rows, hidden, hidden // tp),
            *self.make.tensor_scatter(self._width),
        )
        heads = (self.job.mbs, self.job.model.seq, self.job.model.heads // tp, hidden // self.job.model.heads)
        return (
            self._over_hidden("_LayerNormLinear", *qkv),
            Operator("FlashAttnFunc", (self.make.attention(backward=False),), (heads,) * 3),
            Operator("_Linear", proj, ((self.job.model.seq, self.job.mbs, hidden // tp),)),
        )

    def _attention_backward(self) -> tuple[Operator, ...]:
        hidden, tp = self.job.model.hidden, self.job.tp
        return (
            Operator("_Linear", self._row_gradients("proj_gemm", hidden, hidden // tp)),
            Operator("FlashAttnFunc", (self.make.attention(backward=True),)),
            Operator("_LayerNormLinear", self._column_gradients("qkv_gemm", 3 * hidden // tp, hidden)),
        )

    def _mlp(self) -> Iterator[Module]:
        hidden, ffn, rows = self.job.model.hidden, self.job.model.ffn // self.job.tp, self.job.tokens
        up: tuple[Op, ...] = (*self.make.tensor_gather(self._width), self.make.gemm("fc1_gemm", rows, 2 * ffn, hidden))
        down: tuple[Op, ...] = (self.make.gemm("fc2_gemm", rows, hidden, ffn), *self.make.tensor_scatter(self._width))
        yield (
            "mlp",
            (
                self._over_hidden("_LayerNormLinear", *up),
                Operator("SwiGLUFunction", (self.make.memory("swiglu", 3 * rows * ffn * BF16_BYTES),)),
                Operator("_Linear", down, ((self.job.model.seq, self.job.mbs, ffn),)),
            ),
        )

    def _mlp_backward(self) -> Iterator[Module]:
        hidden, ffn = self.job.model.hidden, self.job.model.ffn // self.job.tp
        swiglu = self.make.memory("swiglu_bwd", 5 * self.job.tokens * ffn * BF16_BYTES)
        yield (
            "mlp",
            (
                Operator("_Linear", self._row_gradients("fc2_gemm", hidden, ffn)),
                Operator("SwiGLUFunction", (swiglu,)),
                Operator("_LayerNormLinear", self._column_gradients("fc1_gemm", 2 * ffn, hidden)),
            ),
        )

    def _experts(self, layer: int) -> Iterator[Module]:
        m, rows = self.job.model, self._expert_rows(layer)
        sent, received = self._exchanged(layer)
        yield (
            "router",
            (
                self._over_hidden("RouterGatingLinearFunction", self._routing("router_topk")),
                self._over_hidden("_moe_permute_mask_map", self._copy("permute")),
            ),
        )
        yield "dispatch", self._exchange(sent, received)
        fc1 = (self.make.grouped("grouped_gemm_fc1", rows, 2 * m.moe_ffn, m.hidden),)
        fc2 = (self.make.grouped("grouped_gemm_fc2", rows, m.hidden, m.moe_ffn),)
        yield (
            "experts",
            (
                Operator("_GroupedLinear", fc1, ((sum(rows), m.hidden),)),
                Operator("_GroupedLinear", fc2, ((sum(rows), m.moe_ffn),)),
            ),
        )
        unpermute = Operator("_moe_unpermute_mask_map", (self._copy("unpermute"),), ((sum(sent), m.hidden),))
        yield "combine", (*self._exchange(received, sent), unpermute)

    def _experts_backward(self, layer: int) -> Iterator[Module]:
        m, rows = self.job.model, self._expert_rows(layer)
        sent, received = self._exchanged(layer)
        unpermute = Operator("_moe_unpermute_mask_map", (self._copy("unpermute_bwd"),))
        yield "combine", (unpermute, *self._exchange(sent, received))
        yield (
            "experts",
            (
                Operator("_GroupedLinear", self.make.grouped_gradients("grouped_gemm_fc2", rows, m.hidden, m.moe_ffn)),
                Operator(
                    "_GroupedLinear", self.make.grouped_gradients("grouped_gemm_fc1", rows, 2 * m.moe_ffn, m.hidden)
                ),
            ),
        )
        yield "dispatch", self._exchange(received, sent)
        yield (
            "router",
            (
                Operator("_moe_permute_mask_map", (self._copy("permute_bwd"),)),
                Operator("RouterGatingLinearFunction", (self._routing("router_bwd"),)),
            ),
        )

    def _exchange(self, sent: tuple[int, ...], received: tuple[int, ...]) -> tuple[Operator, ...]:
        ops = self.make.all_to_all(sent, received)
        return (Operator("_AllToAll", ops, ((sum(sent), self.job.model.hidden),)),) if ops else ()

    def _routed(self, layer: int) -> tuple[int, ...]:
        """Rows that one rank sends to each expert."""
        total = self.job.local_tokens * self.job.model.topk
        return self.job.load.rows(layer, total, self.job.model.experts)

    def _expert_rows(self, layer: int) -> tuple[int, ...]:
        """Rows of each local expert, from all members of the expert group."""
        first = self.job.expert_rank(self.make.rank) * self.job.local_experts
        return tuple(rows * self.job.ep for rows in self._routed(layer)[first : first + self.job.local_experts])

    def _exchanged(self, layer: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Rows to and from each member of the expert group; every member sends alike."""
        routed, local = self._routed(layer), self.job.local_experts
        sent = tuple(sum(routed[first : first + local]) for first in range(0, len(routed), local))
        return sent, (sent[self.job.expert_rank(self.make.rank)],) * self.job.ep

    def _routing(self, name: str) -> Kernel:
        """Router scores and top-k: reads the hidden states twice."""
        return self.make.memory(name, 2 * self._local * BF16_BYTES)

    def _copy(self, name: str) -> Kernel:
        """Tokens into expert order or back: one read, k writes."""
        return self.make.memory(name, (1 + self.job.model.topk) * self._local * BF16_BYTES)

    def _column_gradients(self, name: str, columns: int, inner: int) -> tuple[Op, ...]:
        """Input gathered again, then both gradients; the input's sum is scattered."""
        gather, scatter = self.make.tensor_gather(self._width), self.make.tensor_scatter(self._width)
        to_input, to_weight = self.make.gemm_gradients(name, self.job.tokens, columns, inner)
        return (*gather, to_input, *scatter, to_weight)

    def _row_gradients(self, name: str, columns: int, inner: int) -> tuple[Op, ...]:
        """The output's gradient is gathered first."""
        gather = self.make.tensor_gather(self._width)
        return (*gather, *self.make.gemm_gradients(name, self.job.tokens, columns, inner))

    def _loss_sums(self) -> tuple[Collective, ...]:
        """Maximum, target's logit and sum of exponentials, one number a token each, over the vocabulary's parts."""
        if self.job.tp == 1:
            return ()
        return (self.make.all_reduce(groups.TENSOR, self.job.tp, self.job.tokens),) * 3
