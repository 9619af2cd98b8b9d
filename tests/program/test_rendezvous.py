"""The communication table of a step that is laid out anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from replay.graph.types import Rule
from replay.layout import Layout
from replay.program.rendezvous import Member, Rendezvous
from replay.trace import CollectiveKind
from tests.synthetic import Comm, comm_table


def test_groups_of_another_size_cross_links_that_are_not_known() -> None:
    """Two transfers between pairs; the first was a pair's in the source, the second that of a group of eight."""
    source = comm_table([Comm(CollectiveKind.SEND, size=2), Comm(CollectiveKind.ALL_REDUCE, size=8)])
    source = replace(source, links={"HCCS": np.array([0.75, 1.0])})
    rendezvous = Rendezvous(Layout(world_size=2, tp=1, pp=2, dp=1, cp=1, ep=1, etp=1, vpp=1))
    for row in (0, 1):
        rendezvous.join(row, 0, None, Member(Rule.P2P, CollectiveKind.SEND, 0, 0, row))
    assert rendezvous.table(source, np.array([10])).links["HCCS"].tolist() == [0.75, 0.0]
