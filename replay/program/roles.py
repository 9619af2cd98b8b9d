"""Roles that an op's own name tells better than the range around it."""

from __future__ import annotations

import re

import numpy as np

from replay.core.columns import Int8
from replay.graph.types import Graph
from replay.program.expert_ops import GEMM, GROUPED
from replay.program.types import Role
from replay.trace import CollectiveKind

ROUTING = re.compile(r"gatherTopK|topk_(?:sum|softmax|idx)|moe_?gat(?:e|ing)|grouped?_?topk", re.IGNORECASE)
"""Kernel names of routing."""

PERMUTING = (
    (re.compile(r"Moe(?:TokenPermute|InitRouting|ReRouting)"), Role.DISPATCH),
    (re.compile(r"Moe(?:TokenUnpermute|FinalizeRouting)"), Role.COMBINE),
)
"""CANN's kernels that bring tokens into the order of experts, and back; a gradient names what it is of first."""

BY_COLLECTIVE = {
    CollectiveKind.SEND: Role.P2P,
    CollectiveKind.RECV: Role.P2P,
    CollectiveKind.SEND_RECV: Role.P2P,
    CollectiveKind.DISPATCH: Role.DISPATCH,
    CollectiveKind.COMBINE: Role.COMBINE,
}
"""Role of a communication op that no range names."""

REFINABLE = (Role.NONE, Role.MLP)
"""Roles that a kernel's name may sharpen; any other was stated on purpose."""


def refine_roles(graph: Graph, stated: Int8) -> Int8:
    """The stated roles, sharpened by kernel and collective names where the range leaves room."""
    by_name = np.array([_role_of_name(name) for name in graph.names], dtype=np.int8)
    role = stated.copy()
    told = by_name[graph.name] if len(by_name) else np.zeros(len(graph), np.int8)
    open_to_name = np.isin(stated, REFINABLE) & (told != Role.NONE)
    role[open_to_name] = told[open_to_name]
    member = np.flatnonzero((graph.comm >= 0) & (stated == Role.NONE))
    kinds = graph.comms.kind[graph.comm[member]]
    for kind, meant in BY_COLLECTIVE.items():
        role[member[kinds == kind]] = meant
    return role


def _role_of_name(name: str) -> Role:
    if ROUTING.search(name):
        return Role.ROUTER
    if GROUPED.search(name) and GEMM.search(name):
        return Role.EXPERTS
    return next((role for pattern, role in PERMUTING if pattern.search(name)), Role.NONE)
