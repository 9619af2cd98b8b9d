"""A small transformer that really trains: chunks of layers with an MLP or with routed experts, on one thread.

Experts have a capacity (GShard, Switch Transformer): each gets ``CAPACITY`` times its balanced share of every rank's
rows, what the router sends beyond it is dropped, and what is missing is zero. So shapes do not depend on the data.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as fn

from traces.record.cpu_ranges import Ranges
from traces.record.job import Job

CAPACITY = 1.25


class _AllToAll(torch.autograd.Function):
    """Equal parts of the rows to every member of a group; its backward is the same exchange."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return _exchange(rows, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _exchange(gradients[0], ctx.group), None


def _exchange(rows: Tensor, group: Any) -> Tensor:
    received = torch.empty_like(rows)
    dist.all_to_all_single(received, rows.contiguous(), group=group)
    return received


class Attention(nn.Module):
    """Pre-norm causal self-attention with its residual connection."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self._heads = job.model.heads
        self.norm = nn.LayerNorm(job.model.hidden)
        self.qkv = nn.Linear(job.model.hidden, 3 * job.model.hidden, bias=False)
        self.proj = nn.Linear(job.model.hidden, job.model.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        sequences, length, hidden = x.shape
        qkv = self.qkv(self.norm(x)).view(sequences, length, 3, self._heads, hidden // self._heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = fn.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.proj(mixed.transpose(1, 2).reshape(sequences, length, hidden))


class Mlp(nn.Module):
    """Pre-norm SwiGLU with its residual connection."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(job.model.hidden)
        self.up = nn.Linear(job.model.hidden, 2 * job.model.ffn, bias=False)
        self.down = nn.Linear(job.model.ffn, job.model.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.up(self.norm(x)).chunk(2, dim=-1)
        return x + self.down(fn.silu(gate) * up)


class Experts(nn.Module):
    """Top-k routed SwiGLU experts, those of other ranks reached by all-to-all."""

    def __init__(self, job: Job, ranges: Ranges, group: Any) -> None:
        super().__init__()
        m = job.model
        self._ranges, self._group, self._ep = ranges, group, job.ep
        self._experts, self._topk = m.experts, m.topk
        self._capacity = math.ceil(CAPACITY * job.tokens * m.topk / m.experts)
        self.norm = nn.LayerNorm(m.hidden)
        self.router = nn.Linear(m.hidden, m.experts, bias=False)
        self.up = nn.Parameter(torch.randn(job.local_experts, m.hidden, 2 * m.moe_ffn) / math.sqrt(m.hidden))
        self.down = nn.Parameter(torch.randn(job.local_experts, m.moe_ffn, m.hidden) / math.sqrt(m.moe_ffn))

    def forward(self, x: Tensor) -> Tensor:
        routed: list[Tensor] = []
        rows = self._ranges.module("router", partial(self._route, routed), x)
        rows = self._ranges.module("dispatch", self._dispatch, rows)
        rows = self._ranges.module("experts", self._compute, rows)
        return x + self._ranges.module("combine", partial(self._combine, routed), rows).view_as(x)

    def _route(self, routed: list[Tensor], x: Tensor) -> Tensor:
        """Tokens in slots, expert by expert; ``routed`` gets slot and weight of every choice."""
        tokens = self.norm(x).flatten(0, 1)
        weights, chosen = self.router(tokens).softmax(-1).topk(self._topk)
        chosen = chosen.flatten()
        order = chosen.argsort(stable=True)
        first = torch.bincount(chosen, minlength=self._experts).cumsum(0)
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order))
        place = place - torch.cat([first.new_zeros(1), first[:-1]])[chosen]
        spare = self._experts * self._capacity
        slot = torch.where(place < self._capacity, chosen * self._capacity + place, spare)
        routed += [slot, weights.reshape(-1, 1)]
        copies = tokens.repeat_interleave(self._topk, dim=0)
        return copies.new_zeros(spare + 1, copies.shape[1]).index_copy(0, slot, copies)[:-1]

    def _dispatch(self, rows: Tensor) -> Tensor:
        """To the ranks of the experts: (experts here, rows of all ranks, hidden)."""
        if self._group is not None:
            rows = _AllToAll.apply(rows, self._group)
        parts = rows.view(self._ep, self._experts // self._ep, self._capacity, -1)
        return parts.transpose(0, 1).reshape(self._experts // self._ep, self._ep * self._capacity, -1)

    def _compute(self, rows: Tensor) -> Tensor:
        gate, up = torch.bmm(rows, self.up).chunk(2, dim=-1)
        return torch.bmm(fn.silu(gate) * up, self.down)

    def _combine(self, routed: list[Tensor], rows: Tensor) -> Tensor:
        """Back to the ranks of the tokens, and the weighted sum of every token's choices."""
        slot, weight = routed
        parts = rows.view(self._experts // self._ep, self._ep, self._capacity, -1).transpose(0, 1)
        rows = parts.reshape(self._experts * self._capacity, -1)
        if self._group is not None:
            rows = _AllToAll.apply(rows, self._group)
        rows = torch.cat([rows, rows.new_zeros(1, rows.shape[1])]).index_select(0, slot) * weight
        return rows.view(-1, self._topk, rows.shape[1]).sum(1)


class Chunk(nn.Module):
    """Layers of one virtual stage; embedding or head and loss where the model begins or ends."""

    def __init__(self, job: Job, stage: int, chunk: int, ranges: Ranges, experts: Any) -> None:
        super().__init__()
        m = job.model
        self._ranges = ranges
        self._numbers = tuple(job.chunk_layers(stage, chunk))
        self.embedding = nn.Embedding(m.vocab, m.hidden) if job.is_first(stage, chunk) else None
        self.attention = nn.ModuleList(Attention(job) for _ in self._numbers)
        self.ffn = nn.ModuleList(
            Mlp(job) if number < m.dense_layers else Experts(job, ranges, experts) for number in self._numbers
        )
        self.head = nn.Linear(m.hidden, m.vocab, bias=False) if job.is_last(stage, chunk) else None

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        if self.embedding is not None:
            x = self._ranges.module("embedding", self.embedding, x)
        for at, number in enumerate(self._numbers):
            x = self._ranges.module(f"layer={number}", partial(self._layer, at), x)
        return x if self.head is None else self._ranges.module("head", partial(self._loss, target), x)

    def expert_parameters(self) -> list[nn.Parameter]:
        """Parameters that differ between the ranks of an expert group."""
        return [p for module in self.ffn if isinstance(module, Experts) for p in (module.up, module.down)]

    def dense_parameters(self) -> list[nn.Parameter]:
        """All others."""
        expert = {id(p) for p in self.expert_parameters()}
        return [p for p in self.parameters() if id(p) not in expert]

    def _layer(self, at: int, x: Tensor) -> Tensor:
        x = self._ranges.module("attention", self.attention[at], x)
        ffn = self.ffn[at]
        return ffn(x) if isinstance(ffn, Experts) else self._ranges.module("mlp", ffn, x)

    def _loss(self, target: Tensor, x: Tensor) -> Tensor:
        assert self.head is not None
        return fn.cross_entropy(self.head(x).flatten(0, 1), target.flatten())
