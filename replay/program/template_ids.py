"""Template numbers: ops that are instances of one op of the program share one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from replay.core.columns import Int32, Int64
from replay.graph.types import Graph
from replay.layout import Layout
from replay.program.groups import coordinates
from replay.program.kernel_words import kernel_codes
from replay.program.origins import Origins
from replay.program.types import Phase, Role

MOE_ROLES = (Role.ROUTER, Role.DISPATCH, Role.EXPERTS, Role.SHARED_EXPERT, Role.COMBINE)


def row_ids(*columns: npt.NDArray[Any]) -> Int64:
    """One number per row, equal for equal rows: columns are folded in one by one, so that nothing overflows."""
    ids = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        _, code = np.unique(column, return_inverse=True)
        _, ids = np.unique(ids * (code.max(initial=0) + 1) + code, return_inverse=True)
    return ids.astype(np.int64)


def occurrence(ids: Int64) -> Int64:
    """How many earlier rows have the same id."""
    order = np.argsort(ids, kind="stable")
    starts = np.r_[0, np.flatnonzero(np.diff(ids[order])) + 1]
    lengths = np.diff(np.r_[starts, len(order)])
    position = np.empty(len(ids), dtype=np.int64)
    position[order] = np.arange(len(order)) - np.repeat(starts, lengths)
    return position


def is_moe(rank: Int32, keys: dict[str, Int64]) -> npt.NDArray[np.bool_]:
    """True for ops of layers that route, dispatch or combine anywhere; decided by content, not by layer number."""
    key = row_ids(rank, keys["chunk"], keys["layer"])
    routed = np.zeros(key.max(initial=-1) + 1, dtype=np.bool_)
    routed[key[np.isin(keys["role"], MOE_ROLES)]] = True
    return routed[key] & (keys["layer"] >= 0)


def template_ids(graph: Graph, places: Origins, layout: Layout, keys: dict[str, Int64]) -> Int32:
    """Template of every op, -1 where neither phase nor role is known.

    Equal templates: same stage, chunk, phase, role, layer kind (dense or expert), op kind, kernel, and the same number
    of earlier ops of that kind and kernel in their range instance, in launch order. ``keys`` are columns by label name.
    """
    known = np.flatnonzero((keys["phase"] != Phase.NONE) | (keys["role"] != Role.NONE))
    template = np.full(len(graph), -1, dtype=np.int32)
    if not len(known):
        return template
    known = known[np.argsort(places.time_ns[known], kind="stable")]
    stage = {int(r): coordinates(layout, int(r))["pp"] for r in np.unique(graph.rank)}
    stages = np.array([stage[int(r)] for r in graph.rank[known]])
    kernel = kernel_codes(graph)
    in_instance = row_ids(*(c[known] for c in (graph.rank, keys["instance"], graph.kind, kernel)))
    same_op = (keys["chunk"], keys["phase"], keys["role"], is_moe(graph.rank, keys), graph.kind, kernel)
    template[known] = row_ids(stages, occurrence(in_instance), *(column[known] for column in same_op))
    return template
