"""Which ops of a labelled graph belong to expert parallelism, and how they depend on its size."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int64
from replay.graph.types import Graph, OpKind
from replay.layout import Layout
from replay.program.comm_ops import comm_group, comm_kind
from replay.program.groups import classify
from replay.program.kernel_words import kernel_words
from replay.program.types import Labels, Phase, Role
from replay.trace import CollectiveKind

GEMM = re.compile(
    r"gemm|matmul|cutlass|nvjet|xmma|cijk|_mm_|aten::(?:addmm|b?mm|baddbmm|linear|_grouped_mm|_scaled_mm)\b"
    r"|mla_?prolog|^ffn(?:v\d)?$",
    re.IGNORECASE,
)
"""Names of matrix multiplications: kernels, CANN's that hold several, and operators of ranks without a device."""

GROUPED = re.compile(r"grouped(?!_gemm::)|m_grouped|group_?problem", re.IGNORECASE)
"""Kernel names of GEMMs that serve all experts of a rank at once (a namespace ``grouped_gemm::`` says nothing)."""

_EXCHANGES = (CollectiveKind.ALL_TO_ALL, CollectiveKind.DISPATCH, CollectiveKind.COMBINE)
_GATHERS = (CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER)
_EXCHANGE_ROLES = (Role.DISPATCH, Role.EXPERTS, Role.COMBINE)


@dataclass(frozen=True, slots=True)
class ExpertOps:
    """Masks over the ops of a graph; an op is in one of them at most."""

    fused: Bool  # GEMMs of all local experts in one kernel
    separate: Bool  # GEMMs of one expert each
    rowwise: Bool  # other compute on the rows that experts receive
    dispatch: Bool  # deduplicating dispatch (DeepEP and alike)
    combine: Bool
    all_to_all: Bool  # flat exchange
    all_gather: Bool  # every token to every rank and, reduced, back (all-gather dispatcher)
    notify: Bool
    gradient_sync: Bool  # gradients or parameters over the expert-data group

    def exchanges(self) -> Bool:
        """Every op that moves tokens between experts' ranks."""
        return np.asarray(self.dispatch | self.combine | self.all_to_all | self.all_gather)


def expert_ops(graph: Graph, labels: Labels, layout: Layout, order_ns: Int64, local_experts: int) -> ExpertOps:
    """Classify every op. ``order_ns`` is the launch order (any increasing time), ``local_experts`` = E / ep."""
    gemm = gemm_ops(graph)
    grouped = gemm & _named(graph, GROUPED)
    stated = (labels.role == Role.EXPERTS) & (graph.kind == OpKind.COMPUTE)
    weights = gemm & ~grouped & (labels.role == Role.MLP) & (labels.phase == Phase.WEIGHT)
    separate = _runs(graph, labels, (stated & gemm & ~grouped) | weights, order_ns, local_experts)
    fused = (grouped & np.isin(labels.role, (Role.EXPERTS, Role.MLP))) | (stated & gemm & ~separate)
    kind, transfer = comm_kind(graph), graph.kind == OpKind.TRANSFER
    gathered = transfer & np.isin(kind, _GATHERS) & np.isin(labels.role, _EXCHANGE_ROLES)
    return ExpertOps(
        fused=fused & ~separate,
        separate=separate,
        rowwise=stated & ~gemm,
        dispatch=transfer & (kind == CollectiveKind.DISPATCH),
        combine=transfer & (kind == CollectiveKind.COMBINE),
        all_to_all=transfer & (kind == CollectiveKind.ALL_TO_ALL) & _is_exchange(graph, labels, layout),
        all_gather=gathered,
        notify=transfer & (kind == CollectiveKind.NOTIFY),
        gradient_sync=transfer & _in_family(graph, layout, "edp") & ~np.isin(kind, _EXCHANGES) & ~gathered,
    )


def gemm_ops(graph: Graph) -> Bool:
    """Kernels that multiply matrices, by name."""
    return np.asarray(_named(graph, GEMM) & (graph.kind == OpKind.COMPUTE))


def _named(graph: Graph, pattern: re.Pattern[str]) -> Bool:
    match = np.array([bool(pattern.search(word)) for word in kernel_words(graph)], dtype=np.bool_)
    return match[graph.name] if len(match) else np.zeros(len(graph), np.bool_)


def _in_family(graph: Graph, layout: Layout, family: str) -> Bool:
    """True for members of collectives whose group is of one family under the layout."""
    likely = ("ep",) if family == "ep" else ()
    found = [classify(group, layout, likely) for group in graph.groups]
    codes = [i for i, member in enumerate(found) if member is not None and member.name == family]
    return np.isin(comm_group(graph), codes)


def _is_exchange(graph: Graph, labels: Labels, layout: Layout) -> Bool:
    """All-to-alls of the expert group, or of a range that says so (context parallelism exchanges too)."""
    return np.asarray(_in_family(graph, layout, "ep") | np.isin(labels.role, _EXCHANGE_ROLES))


def _runs(graph: Graph, labels: Labels, candidates: Bool, order_ns: Int64, length: int) -> Bool:
    """The first ``length`` ops of every run of at least ``length`` equal kernels launched one after the other.

    A run ends at any other device op of its phase, layer and micro-batch, so one run is one weight matrix of all local
    experts; a longer one goes on with a GEMM of the shared expert.
    """
    inside = np.zeros(len(graph), dtype=np.bool_)
    if length < 2 or not candidates.any():
        return inside
    compute = np.flatnonzero(np.isin(graph.kind, (OpKind.COMPUTE, OpKind.TRANSFER)))
    compute = compute[np.lexsort((compute, order_ns[compute], graph.rank[compute]))]
    key = np.stack([graph.rank, graph.name, labels.phase, labels.role, labels.layer, labels.microbatch])[:, compute]
    broken = np.r_[True, np.any(key[:, 1:] != key[:, :-1], axis=0)] | ~candidates[compute]
    for run in np.split(compute, np.flatnonzero(broken)):
        if len(run) >= length and candidates[run[0]]:
            inside[run[:length]] = True
    return inside
