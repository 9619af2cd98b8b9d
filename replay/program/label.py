"""Labels: a device op is what the host said it was doing when it launched it.

Every op has one *origin*: a host lane and a time (the launch of device work, the own begin of host work). The ranges
open there, from the outermost to the innermost, say phase, role, micro-batch, chunk and layer. A thread that opened no
phase of its own (the autograd engine) inherits the backward ranges open on the other threads of its rank. What ranges
leave unsaid is found by weaker evidence: operators, the autograd engine, repetition (:mod:`replay.program.structure`).
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import replace

import numpy as np

from replay.core.columns import Int32, Int64
from replay.core.units import percent
from replay.graph.types import Graph
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.layers import layers_of_ops, number_by_occurrence
from replay.program.open_ranges import FIELDS, UNSAID, OpenRanges, inside, open_ranges
from replay.program.origins import Origins, origins
from replay.program.pass_numbers import number_passes
from replay.program.roles import refine_roles
from replay.program.structure._find import Source, find
from replay.program.template_ids import row_ids, template_ids
from replay.program.types import Labels, Phase
from replay.trace import MISSING, Trace

PHASE, ROLE, CHUNK, LAYER = (FIELDS.index(field) for field in ("phase", "role", "chunk", "layer"))


def label(
    graph: Graph, trace: Trace, layout: Layout, model: ModelSpec, assumed: frozenset[str] = frozenset()
) -> Labels:
    """Phase, role, micro-batch, chunk, layer and template of every op, ranges first, then weaker evidence.

    Where ranges name a module but no layer, layers are numbered by occurrence (backward counts down); where they name
    passes but no micro-batch, so are micro-batches. Ops of which nothing is known keep template -1;
    :func:`unassigned_pct` measures their share. The layout gets the number of micro-batches found where it has none;
    its ``assumed`` sizes give way to those that the step shows.
    """
    places = origins(graph, trace)
    passes = number_passes(trace, places) if layout.vpp == 1 else {}
    opened = open_ranges(trace, passes)
    states = _states(places, trace, opened)
    numbered = _with_chunks(layout, graph.rank, states, assumed)
    if numbered != layout:
        return label(graph, trace, numbered, model, assumed - {"vpp"})
    counted = number_by_occurrence(trace, states)
    states[:, ROLE] = refine_roles(graph, states[:, ROLE].astype(np.int8))
    states[:, LAYER] = layers_of_ops(layout, model, graph.rank, states, counted)
    seen = find(graph, trace, places, Source(layout, model, assumed), states)
    if any(getattr(seen.layout, name) != getattr(layout, name) for name in assumed):
        return label(graph, trace, seen.layout, model)
    layout, states = seen.layout, seen.states
    phase, role, microbatch, chunk, layer, event = states.T
    found = row_ids(graph.rank, phase, microbatch, chunk, layer, role)
    instance = np.where(event == MISSING, len(trace) + found, event)
    keys = {"phase": phase, "role": role, "chunk": chunk, "layer": layer, "instance": instance}
    if layout.microbatches is None and (microbatch >= 0).any():
        layout = replace(layout, microbatches=int(microbatch.max()) + 1)
    return Labels(
        phase.astype(np.int8),
        role.astype(np.int8),
        microbatch.astype(np.int32),
        chunk.astype(np.int32),
        layer.astype(np.int32),
        template_ids(graph, places, layout, keys),
        layout,
        model,
        (*_evidence(opened, counted, passes), *seen.sentences),
    )


def unassigned_pct(graph: Graph, labels: Labels) -> float:
    """Device time with neither phase nor role, in percent of all device time."""
    weight = graph.device_time_ns
    return percent(weight[labels.template < 0].sum(), weight.sum())


def _states(places: Origins, trace: Trace, opened: dict[int, OpenRanges]) -> Int64:
    """State (columns: FIELDS) at the origin of every op."""
    states = np.tile(UNSAID, (len(places.lane), 1))
    for lane, ranges in opened.items():
        here = places.lane == lane
        states[here] = ranges.at(places.time_ns[here])
    for lane, ranges in opened.items():
        elsewhere = (places.rank == trace.lanes[lane].rank) & (states[:, PHASE] == Phase.NONE)
        outer = ranges.at(places.time_ns[elsewhere])
        outer[~np.isin(outer[:, PHASE], (Phase.BACKWARD, Phase.WEIGHT))] = UNSAID
        states[elsewhere] = inside(states[elsewhere], outer)
    return states


def _with_chunks(layout: Layout, rank: Int32, states: Int64, assumed: frozenset[str]) -> Layout:
    """``layout`` with the chunks that ranges number, 0 to v - 1 on every rank, where their number is assumed."""
    chunk = states[:, CHUNK]
    numbers = {tuple(np.unique(chunk[(rank == one) & (chunk >= 0)]).tolist()) for one in np.unique(rank)}
    most = max((len(own) for own in numbers), default=0)
    if "vpp" not in assumed or most < 2 or numbers != {tuple(range(most))}:
        return layout
    return replace(layout, vpp=most)


def _evidence(opened: Sized, counted: Sized, passes: Sized) -> tuple[str, ...]:
    if not len(opened):
        return ("no range of the trace names a phase or a module",)
    sentences = [f"explicit ranges on {len(opened)} host {'thread' if len(opened) == 1 else 'threads'}"]
    if len(counted):
        sentences.append(f"layers of {len(counted)} ranges numbered by occurrence")
    if len(passes):
        sentences.append(f"micro-batches of {len(passes)} ranges numbered by occurrence")
    return tuple(sentences)
