"""Pipelines that sends link ranks to, where nothing names them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from replay.core.columns import Ragged
from replay.session.recorded_pipelines import recorded_stages
from replay.trace import CollectiveKind, Collectives, Trace
from tests.program.events import span, trace_of

Way = tuple[int, int]


def recorded(world: int, ways: list[Way]) -> Trace:
    """Sends (sender, receiver), recorded by their senders."""
    base = trace_of([span(f"send {k}", 0, 10 * k, 10 * k + 5) for k in range(len(ways))])
    unknown, none = np.full(len(ways), -1, np.int64), Ragged.from_rows([[] for _ in ways])
    i32 = unknown.astype(np.int32)
    peer = np.array([receiver for _, receiver in ways], np.int32)
    kind = np.full(len(ways), CollectiveKind.SEND, np.int8)
    evidence = np.zeros(len(ways), np.int8)
    comms = Collectives(kind, i32, unknown, unknown, unknown, peer, evidence, ("",) * len(ways), none, none)
    senders = np.array([sender for sender, _ in ways], base.rank.dtype)
    comm = np.arange(len(ways)).astype(base.comm.dtype)
    return replace(base, rank=senders, comm=comm, world_size=world, collectives=comms)


def both(*pairs: Way) -> list[Way]:
    """Activations one way, gradients the other."""
    return [way for a, b in pairs for way in ((a, b), (b, a))]


@pytest.mark.parametrize(
    ("world", "ways", "stages"),
    [
        (4, both((0, 2), (1, 3)), 2),
        (4, both((0, 1), (1, 2), (2, 3)), 4),
        (4, both((0, 1), (2, 3)), None),  # neighbours: stages are outermost
        (4, [(0, 1), (1, 2), (2, 3), (3, 0)], None),  # a ring of context parallelism
        (4, both((0, 2)), 2),  # of which ranks 1 and 3 were not recorded
        (4, [], None),
    ],
)
def test_pipelines_are_chains_of_ranks_equally_far_apart(world: int, ways: list[Way], stages: int | None) -> None:
    assert recorded_stages(recorded(world, ways)) == stages
