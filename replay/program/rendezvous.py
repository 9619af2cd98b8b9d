"""Rendezvous: members of collectives, and both sides of transfers, found by a key that all of them share."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from replay.core.columns import Int64
from replay.graph.types import CommTable, Rule
from replay.layout import Layout
from replay.program.groups import Family, description_of, members
from replay.trace import CollectiveKind, Group

PAIRWISE_MEMBERS = 8  # larger collectives meet in one op instead of an edge for every pair of members


@dataclass(frozen=True, slots=True)
class Member:
    """One rank's part of a collective: its two ops (-1 none), its row in the source's communication table."""

    rule: Rule
    kind: CollectiveKind
    arrival: int
    transfer: int
    row: int
    lateness_ns: int = 0  # of peers that the source did not see
    nbytes_scale: float = 1.0  # of the bytes in that row


@dataclass(frozen=True, slots=True)
class Match:
    """A collective of the target as far as it has been put down."""

    number: int
    group: int
    size: int
    members: list[tuple[Member, int]] = field(default_factory=list)  # with its row in the target's table


class Rendezvous:
    """Collects members; tells which ops wait for which, and the communication table."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._matches: dict[Hashable, Match] = {}
        self._groups: dict[tuple[str, tuple[int, ...]], int] = {}
        self._ranks: dict[tuple[int, str], tuple[int, ...]] = {}
        self._rows = 0

    def ranks(self, rank: int, family: Family | None) -> tuple[int, ...]:
        """Ranks of the target's group of ``family`` that ``rank`` is in; none for an unknown family."""
        if family is None:
            return ()
        if (rank, family.name) not in self._ranks:
            self._ranks[rank, family.name] = members(self._layout, family, rank)
        return self._ranks[rank, family.name]

    def join(self, key: Hashable, rank: int, family: Family | None, member: Member) -> None:
        """Make ``member`` one of the collective ``key``."""
        ranks = () if member.rule is Rule.P2P else self.ranks(rank, family)
        match = self._matches.get(key)
        if match is None:
            name = family.name if family is not None else "unknown"
            group = self._groups.setdefault((name, ranks), len(self._groups))
            size = len(ranks) or (2 if member.rule is Rule.P2P else -1)
            match = self._matches[key] = Match(len(self._matches), group, size)
        match.members.append((member, self._rows))
        self._rows += 1

    @property
    def matches(self) -> tuple[Match, ...]:
        """Every collective, in order of its first member."""
        return tuple(self._matches.values())

    @property
    def groups(self) -> tuple[Group, ...]:
        """Groups that were used, as in :attr:`Match.group`."""
        return tuple(
            Group(f"{name} {ranks[0]}", description_of(name), ranks, len(ranks)) if ranks else Group(name)
            for name, ranks in self._groups
        )

    def op_rows(self) -> tuple[Int64, Int64]:
        """(op, row of the table) of every communication op."""
        pairs = [
            (op, row)
            for match in self._matches.values()
            for member, row in match.members
            for op in (member.arrival, member.transfer)
            if op >= 0
        ]
        ops, rows = np.array(pairs, np.int64).reshape(-1, 2).T
        return ops, rows

    def table(self, source: CommTable, duration_ns: Int64) -> CommTable:
        """The target's table: bytes and links are those of the source's rows, transfer times those of the ops."""
        columns = np.zeros((self._rows, 7), np.int64)
        scale = np.ones(self._rows)
        for match in self._matches.values():
            for member, row in match.members:
                transfer = int(duration_ns[member.transfer]) if member.transfer >= 0 else 0
                scale[row] = member.nbytes_scale
                sizes = (match.size, len(match.members))
                columns[row] = (member.row, member.kind, match.group, match.number, *sizes, transfer)
        origin, kind, group, number, size, seen, transfer_ns = columns.T
        known = source.nbytes[origin]
        nbytes = np.where(known >= 0, np.rint(known * scale).astype(np.int64), known)
        alike = size == source.size[origin]  # groups of another size may cross other links
        links = {name: np.where(alike, share[origin], 0.0) for name, share in source.links.items()}
        return CommTable(
            kind.astype(np.int8), group.astype(np.int32), nbytes, number, size.astype(np.int32),
            seen.astype(np.int32), transfer_ns, transfer_ns.copy(), links,
        )  # fmt: skip
