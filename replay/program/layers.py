"""Layer numbers by occurrence, where ranges name modules but no layer."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from replay.core.columns import Int32, Int64
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.groups import coordinates
from replay.program.open_ranges import FIELDS
from replay.program.ranges import MISSING
from replay.program.types import Phase, Role
from replay.trace import EventKind, Trace

IN_LAYERS = (
    Role.ATTENTION,
    Role.MLP,
    Role.ROUTER,
    Role.DISPATCH,
    Role.EXPERTS,
    Role.SHARED_EXPERT,
    Role.COMBINE,
)
"""Roles that occur once in a layer and pass, so that counting them counts layers."""


def number_by_occurrence(trace: Trace, states: Int64) -> dict[int, int]:
    """Layer within its chunk of every range (by trace event) that states such a role but no layer.

    The k-th range of a name in one pass (rank, phase, micro-batch, chunk) is layer k going forward; the backward passes
    walk the layers down. Numbering is per pass, so every micro-batch starts again at 0. Calls of modules are left out:
    they nest as the model does, which tells more than counting (:mod:`replay.program.structure.modules`).
    """
    passes: dict[tuple[int, ...], list[int]] = defaultdict(list)
    _, first = np.unique(states[:, FIELDS.index("event")], return_index=True)
    for phase, role, microbatch, chunk, layer, event in states[first].tolist():
        if role in IN_LAYERS and layer == MISSING and event != MISSING and trace.kind[event] != EventKind.MODULE:
            passes[int(trace.rank[event]), phase, role, microbatch, chunk].append(event)
    numbers: dict[int, int] = {}
    for key, events in passes.items():
        events.sort(key=lambda event: int(trace.start_ns[event]))
        downwards = key[1] in (Phase.BACKWARD, Phase.WEIGHT)
        numbers.update({event: len(events) - 1 - k if downwards else k for k, event in enumerate(events)})
    return numbers


def first_layer(layout: Layout, model: ModelSpec, rank: int, chunk: int) -> int:
    """First layer of a chunk: (chunk · pp + stage) · layers / (pp · vpp), Megatron's interleaved assignment.

    0 where the model's depth is unknown or does not divide.
    """
    chunks = layout.pp * layout.vpp
    if not model.layers or model.layers % chunks:
        return 0
    stage = coordinates(layout, rank)["pp"]
    return (max(chunk, 0) * layout.pp + stage) * (model.layers // chunks)


def layers_of_ops(layout: Layout, model: ModelSpec, rank: Int32, states: Int64, by_range: dict[int, int]) -> Int32:
    """Layer of every op: what its ranges state, else its range's number by occurrence from its chunk's first layer."""
    chunk, layer, event = (states[:, FIELDS.index(name)] for name in ("chunk", "layer", "event"))
    counted = np.array([by_range.get(e, MISSING) for e in event.tolist()], dtype=np.int64)
    first = np.zeros(len(layer), dtype=np.int64)
    for r, c in {(int(r), int(c)) for r, c in zip(rank, chunk, strict=True)}:
        first[(rank == r) & (chunk == c)] = first_layer(layout, model, r, c)
    unstated = (layer == MISSING) & (counted != MISSING)
    return np.where(unstated, first + counted, layer).astype(np.int32)
