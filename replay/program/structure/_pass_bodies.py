"""The work of every pass as a sequence of symbols, and its layers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool, Int64, groups_of
from replay.graph.parallel_kind import ParallelKind
from replay.graph.types import OpKind
from replay.program.comm_ops import comm_kind
from replay.program.expert_ops import GEMM, GROUPED
from replay.program.groups import coordinates
from replay.program.kernel_words import kernel_words
from replay.program.keys import PASS_PHASES
from replay.program.op_class import ATTENTION
from replay.program.roles import ROUTING
from replay.program.structure._anchors import SOFTMAX, Strand, base_name, choose
from replay.program.structure._bodies import Body, layers_of
from replay.program.structure._evidence import UNKNOWN_PASS, Evidence
from replay.program.structure._layer_roles import LayerWork, roles
from replay.program.structure._sequence import SUMS, group_kinds, sequences, symbols
from replay.program.types import Phase, Role
from replay.trace import MISSING, CollectiveKind

BEST = re.compile(r"aten::topk$")
"""The framework's choice of the k best: in a layer, behind attention, of experts (elsewhere of samples, or keys)."""

EXCHANGES = (CollectiveKind.ALL_TO_ALL, CollectiveKind.DISPATCH, CollectiveKind.COMBINE)


@dataclass(frozen=True, slots=True)
class Pass:
    """Ops that make the sequence of one pass (compute, collectives), the embedding's side first.

    ``chunk`` counts over the whole model; MISSING where a rank of a pipeline does not know its chunks.
    """

    phase: Phase
    chunk: int
    op: Int64


@dataclass(frozen=True, slots=True)
class Cut:
    """Layers of passes of one phase, counted from 0 in each chunk."""

    passes: Sequence[Pass]
    layers: Sequence[Int64]
    roles: Sequence[Int64]  # Role of the work in layers
    how: str  # what the anchor is

    def counts(self) -> dict[int, int]:
        """Layers of each chunk: what most of its passes have."""
        votes: dict[int, Counter[int]] = {}
        for item, layer in zip(self.passes, self.layers, strict=True):
            votes.setdefault(item.chunk, Counter())[int(layer.max(initial=-1)) + 1] += 1
        return {chunk: counter.most_common(1)[0][0] for chunk, counter in votes.items()}


def passes_of(evidence: Evidence) -> list[Pass]:
    """Passes of ranks none of whose passes has a layer yet."""
    graph, phase, layer = evidence.graph, evidence.said("phase"), evidence.said("layer")
    wanted = (graph.kind == OpKind.COMPUTE) | (
        (graph.kind == OpKind.ARRIVAL) & (evidence.said("role") != Role.GRAD_SYNC)
    )
    wanted &= (evidence.passes != UNKNOWN_PASS) & np.isin(phase, PASS_PHASES)
    found: list[Pass] = []
    for sequence in sequences(evidence):
        op = sequence.op[wanted[sequence.op] & ~sequence.transfer]
        if not len(op) or (layer[op] != MISSING).any():
            continue
        key = evidence.passes[op] * (max(Phase) + 1) + phase[op]
        order = np.argsort(key, kind="stable")
        for rows in np.split(op[order], np.flatnonzero(np.diff(key[order])) + 1):
            one = Phase(int(phase[rows[0]]))
            found.append(Pass(one, _chunk(evidence, int(rows[0])), rows if one is Phase.FORWARD else rows[::-1]))
    return found


def _chunk(evidence: Evidence, op: int) -> int:
    layout, chunk = evidence.layout, int(evidence.said("chunk")[op])
    if chunk == MISSING:
        return 0 if layout.pp == layout.vpp == 1 else MISSING
    return chunk * layout.pp + coordinates(layout, int(evidence.graph.rank[op]))["pp"]


def cut(evidence: Evidence, passes: Sequence[Pass], forward: Sequence[Pass] = ()) -> Cut | None:
    """Layers of the passes of one phase; ``None`` where nothing in them recurs.

    Attention that ``forward`` passes run too is recomputed there, and is no anchor if there is another.
    """
    if not passes:
        return None
    _, symbol = np.unique(symbols(evidence), return_inverse=True)
    alike: dict[tuple[bytes, int], list[int]] = {}
    for index, item in enumerate(passes):
        alike.setdefault((symbol[item.op].tobytes(), item.chunk), []).append(index)
    distinct = [passes[members[0]] for members in alike.values()]
    strands = [Strand(symbol[item.op], evidence.graph.duration_ns[item.op].astype(np.float64)) for item in distinct]
    attention, softmax = (_numbered(evidence, symbol, word, forward) for word in (ATTENTION, SOFTMAX))
    chosen = choose(strands, attention, softmax, _expected(evidence))
    if chosen is None:
        return None
    bodies = [
        _body(evidence, item, symbol, chosen.symbols, times=len(members))
        for item, members in zip(distinct, alike.values(), strict=True)
    ]
    layers = layers_of(bodies)
    facts = facts_of(evidence)
    role = [_roles(item, body, layer, facts) for item, body, layer in zip(distinct, bodies, layers, strict=True)]
    same = np.zeros(len(passes), np.int64)
    for number, members in enumerate(alike.values()):
        same[members] = number
    return Cut(passes, [layers[k] for k in same], [role[k] for k in same], chosen.how)


def _expected(evidence: Evidence) -> int | None:
    """Layers of a chunk where the model's are known and divide evenly."""
    layers, chunks = evidence.model.layers, evidence.layout.pp * evidence.layout.vpp
    return layers // chunks if layers and layers % chunks == 0 else None


def _numbered(evidence: Evidence, symbol: Int64, word: re.Pattern[str], elsewhere: Sequence[Pass]) -> Int64:
    """Number of the so named kernel that every symbol is, -1 for other work; what runs elsewhere only if all does."""
    graph = evidence.graph
    kernels = [base_name(text) if word.search(text) else "" for text in kernel_words(graph)]
    codes = {name: code for code, name in enumerate(dict.fromkeys(name for name in kernels if name))}
    by_name = np.array([codes.get(name, -1) for name in kernels], np.int64)
    found = np.full(int(symbol.max(initial=-1)) + 1, -1, np.int64)
    compute = graph.kind == OpKind.COMPUTE
    found[symbol[compute]] = by_name[graph.name[compute]]
    own = found.copy()
    for item in elsewhere:
        own[symbol[item.op]] = -1
    return own if (own >= 0).any() else found


def facts_of(evidence: Evidence) -> LayerWork:
    """What names and collectives say of every op of the graph."""
    graph = evidence.graph
    compute, kinds = graph.kind == OpKind.COMPUTE, comm_kind(graph)
    groups = group_kinds(graph)

    def named(pattern: re.Pattern[str]) -> Bool:
        told = np.array([bool(pattern.search(text)) for text in kernel_words(graph)], np.bool_)
        return np.asarray(compute & told[graph.name])

    gemm = named(GEMM)
    return LayerWork(
        attention=named(ATTENTION) | named(SOFTMAX),
        gemm=gemm,
        grouped=gemm & named(GROUPED),
        exchange=np.isin(kinds, EXCHANGES) & ((groups == ParallelKind.EP) | (groups < 0)),
        routing=named(ROUTING) | named(BEST),
        loose=np.isin(kinds, SUMS),
    )


def _roles(item: Pass, body: Body, layer: Int64, facts: LayerWork) -> Int64:
    """Roles of the work of one pass that lies in layers."""
    role = np.full(len(layer), Role.NONE, np.int64)
    for here in groups_of(layer):
        op = item.op[here]
        work = LayerWork(
            attention=facts.attention[op] & body.anchor[here],
            gemm=facts.gemm[op],
            grouped=facts.grouped[op],
            exchange=facts.exchange[op],
            routing=facts.routing[op],
            loose=body.loose[here],
        )
        role[here] = roles(work, projections=1 if item.phase is Phase.FORWARD else 2)
    return role


def _body(evidence: Evidence, item: Pass, symbol: Int64, anchors: Int64, *, times: int) -> Body:
    """A pass with its anchors. Sums end a layer and gathers begin one, in the order of execution."""
    kinds = comm_kind(evidence.graph)[item.op]
    loose = SUMS if item.phase is Phase.FORWARD else (CollectiveKind.ALL_GATHER,)
    last = evidence.layout.pp * evidence.layout.vpp - 1
    own = symbol[item.op]
    return Body(
        symbol=own,
        anchor=np.isin(own, anchors),
        loose=np.isin(kinds, loose),
        opening=item.chunk in (0, MISSING),
        closing=item.chunk in (last, MISSING),
        times=times,
    )
