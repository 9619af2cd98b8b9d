"""Hand-made device work in launch order, as evidence without any host events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import NamedTuple

import numpy as np

from replay.graph.types import CommTable, Edges, Graph, GraphHealth, OpKind
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.open_ranges import UNSAID
from replay.program.origins import Origins
from replay.program.structure._autograd import autograd
from replay.program.structure._calls import calls_of
from replay.program.structure._evidence import UNKNOWN_PASS, Evidence
from replay.trace import CollectiveKind, Group, Health, Lane
from tests.program.events import trace_of

FINDERS = ("kernel_phases", "tail", "device_passes", "schedules", "pipeline_transfers", "repeated_layers")


class Work(NamedTuple):
    """One device op of 1 us; collectives have a kind and the description of their group."""

    name: str
    collective: CollectiveKind | None = None
    group: str = ""
    nbytes: int = 1 << 20


def kernels(names: str) -> list[Work]:
    """Compute kernels by name."""
    return [Work(name) for name in names.split()]


def transfer(kind: CollectiveKind) -> list[Work]:
    """A pipeline send or receive."""
    return [Work(f"nccl{kind.name}", kind, "PIPELINE_MODEL_PARALLEL_GROUP")]


@dataclass(frozen=True)
class Found:
    """What the finders of device evidence say of the device ops of each rank, collectives once."""

    evidence: Evidence
    sentences: tuple[str, ...]

    def column(self, field: str, rank: int = 0) -> list[int]:
        """One field in launch order."""
        graph = self.evidence.graph
        own = (graph.rank == rank) & (graph.kind != OpKind.TRANSFER)
        return [int(value) for value in self.evidence.said(field)[own]]


def find(
    ranks: Sequence[Sequence[Work]], layout: Layout, model: ModelSpec | None = None, assumed: Sequence[str] = (),
    health: Health | None = None,
) -> Found:  # fmt: skip
    """Asks the finders of device evidence, in order."""
    evidence = replace(evidence_of(ranks, layout, model or ModelSpec()), assumed=frozenset(assumed))
    evidence = replace(evidence, trace=replace(evidence.trace, health=health or Health()))
    sentences: list[str] = []
    for name in FINDERS:
        finding = import_module(f"replay.program.structure.{name}").find(evidence)
        evidence = evidence.with_finding(finding)
        sentences += finding.sentences
    return Found(evidence, tuple(sentences))


def evidence_of(ranks: Sequence[Sequence[Work]], layout: Layout, model: ModelSpec) -> Evidence:
    """One graph op a kernel, arrival and transfer a collective, launched 1 us after each other."""
    flat = [(rank, place, work) for rank, works in enumerate(ranks) for place, work in enumerate(works)]
    rows = [(r, t, w, kind) for r, t, w in flat for kind in _kinds(w)]
    names = {name: code for code, name in enumerate(dict.fromkeys(work.name for _, _, work in flat))}
    groups = {name: code for code, name in enumerate(dict.fromkeys(w.group for *_, w in flat if w.collective))}
    comms = [work for _, _, work in flat if work.collective is not None]
    members = iter(range(len(comms)))
    comm = [next(members) if kind is OpKind.ARRIVAL else -1 for *_, kind in rows]
    comm = [comm[i - 1] if row[3] is OpKind.TRANSFER else comm[i] for i, row in enumerate(rows)]
    rank, time = (np.array(column, np.int64) for column in zip(*((r, t * 1000) for r, t, *_ in rows), strict=True))
    zeros = np.zeros(len(rows), np.int64)
    graph = Graph(
        np.array([0 if kind is OpKind.ARRIVAL else 1000 for *_, kind in rows], np.int64),
        zeros,
        zeros,
        time.copy(),
        time + 1000,
        rank.astype(np.int32),
        rank.astype(np.int32),
        np.array([kind for *_, kind in rows], np.int8),
        np.array([names[work.name] for _, _, work, _ in rows], np.int32),
        zeros - 1,
        np.array(comm, np.int32),
        zeros.astype(np.int8),
        _no_edges(len(rows)),
        _table(comms, groups),
        tuple(names),
        tuple(Lane(r, True, "stream 7") for r in range(len(ranks))),
        tuple(Group(name, name) for name in groups),
        int(time.max()) + 1000,
        GraphHealth(),
    )
    places = Origins(graph.lane, time, graph.rank, np.ones(len(rows), np.bool_))
    trace = trace_of([])
    calls = calls_of(trace, places)
    states, passes = np.tile(UNSAID, (len(rows), 1)), np.full(len(rows), UNKNOWN_PASS, np.int64)
    return Evidence(graph, trace, places, calls, autograd(trace, calls), layout, model, states, passes)


def _kinds(work: Work) -> tuple[OpKind, ...]:
    return (OpKind.COMPUTE,) if work.collective is None else (OpKind.ARRIVAL, OpKind.TRANSFER)


def _table(comms: Sequence[Work], groups: dict[str, int]) -> CommTable:
    n = len(comms)
    kinds = np.array([int(work.collective or 0) for work in comms], np.int8)
    group = np.array([groups[work.group] for work in comms], np.int32)
    nbytes = np.array([work.nbytes for work in comms], np.int64)
    two, zero = np.full(n, 2, np.int32), np.zeros(n, np.int64)
    return CommTable(kinds, group, nbytes, np.arange(n), two, two, zero, zero)


def _no_edges(n: int) -> Edges:
    none = np.zeros(0, np.int64)
    no = none.astype(np.bool_)
    return Edges.build(n, none, none, none, no, none.astype(np.int8), no)
