"""Feed-forward work of layers whose attention is known and whose other parts have no telling names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.open_ranges import FIELDS
from replay.program.structure.layer_rest import find
from replay.program.types import Phase, Role
from tests.program.structure.launched import evidence_of, kernels

ROLE = FIELDS.index("role")
NONE, MLP, ROUTER, EXPERTS, COMBINE = Role.NONE, Role.MLP, Role.ROUTER, Role.EXPERTS, Role.COMBINE


def behind_attention(names: str, told: Role = Role.NONE) -> list[int]:
    """Roles found in a forward pass through layer 0: attention, then these; ``told`` is known of the first."""
    evidence = evidence_of([kernels(f"flash_fwd {names}")], Layout(), ModelSpec())
    n = len(evidence.graph)
    states = evidence.states.copy()
    for field, value in (("phase", Phase.FORWARD), ("layer", 0)):
        states[:, FIELDS.index(field)] = value
    states[0, ROLE], states[1, ROLE] = Role.ATTENTION, told
    found = find(replace(evidence, states=states, passes=np.zeros(n, np.int64)))
    return [int(role) for role in found.states[1:, ROLE]]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("add fc_gemm gelu fc_gemm add", [MLP] * 5),
        ("router_gemm aten::topk fc_gemm silu fc_gemm index_add", [ROUTER] * 2 + [EXPERTS] * 3 + [COMBINE]),
        ("add norm", [NONE] * 2),  # nothing to say of a layer that only attends
    ],
)
def test_what_follows_attention(names: str, expected: list[Role]) -> None:
    assert behind_attention(names) == expected


def test_parts_that_are_known_are_enough() -> None:
    assert behind_attention("fc_gemm gelu", told=MLP) == [NONE] * 2
