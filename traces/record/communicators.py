"""Real Gloo groups of one rank, and the rendezvous of each emulated collective in them.

A rendezvous carries one number a rank, its arrival on the device clock (CLOCK_MONOTONIC, shared by all processes of a
machine), and returns the latest: every member really waits for every other, and all agree when the transfer starts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from traces.record import groups
from traces.record.device import Rendezvous
from traces.record.job import Job
from traces.record.model import Collective
from traces.record.schedules import Transfer


@dataclass(frozen=True, slots=True)
class Communicator:
    """One group this rank belongs to."""

    description: str
    ranks: tuple[int, ...]
    handle: dist.ProcessGroup
    sequence: Counter[Any] = field(default_factory=Counter)  # calls so far; point-to-point counts each direction

    def args(self, key: Any, **more: Any) -> dict[str, Any]:
        """NCCL's keys for the next call of this group."""
        sequence = self.sequence[key]
        self.sequence[key] += 1
        return {
            **more,
            "Group size": len(self.ranks),
            "Process Group Name": self.handle.group_name,
            "Process Group Description": self.description,
            "Process Group Ranks": str(list(self.ranks)),
            "Seq": sequence,
        }


class Communicators:
    """All groups of one rank, created by every rank in the same order."""

    def __init__(self, job: Job, rank: int) -> None:
        self._job = job
        self._rank = rank
        self._mine: dict[str, Communicator] = {}
        for description, parts in groups.members(job).items():
            for ranks in parts:
                handle = dist.new_group(list(ranks), backend="gloo", group_desc=description)
                if rank in ranks:
                    self._mine[description] = Communicator(description, ranks, handle)

    def collective(self, op: Collective) -> tuple[Rendezvous, dict[str, Any]]:
        """Rendezvous and kernel args of the next collective of its group."""
        group = self._mine[op.group]
        args = {
            "Collective name": op.collective,
            "In msg nelems": op.elements,
            "Out msg nelems": op.elements,
            "dtype": op.dtype,
        }
        if op.collective == "all_to_allv":
            split = str([op.elements // len(group.ranks)] * len(group.ranks))
            args |= {"In split size": split, "Out split size": split}
        rendezvous = _all_to_all if op.collective == "all_to_allv" else _all_reduce
        return lambda arrival: rendezvous(group, arrival), group.args("collective", **args)

    def transfer(self, message: Transfer, elements: int) -> tuple[Rendezvous, dict[str, Any]]:
        """Rendezvous and kernel args of a message between pipeline stages: sender and receiver wait for each other."""
        group = self._mine[groups.PIPELINE]
        peer = group.ranks[message.peer]
        sends = message.direction == "send"
        source, destination = (self._rank, peer) if sends else (peer, self._rank)
        args = {"Collective name": message.direction, "In msg nelems": elements, "Out msg nelems": elements}
        args |= {"dtype": "BFloat16", "Dst Rank" if sends else "Src Rank": peer}
        tag = source * self._job.world_size + destination
        return lambda arrival: _meet(group, peer, tag, sends, arrival), group.args((source, destination), **args)


def _all_to_all(group: Communicator, arrival_ns: int) -> int:
    size = len(group.ranks)
    seen = torch.empty(size, dtype=torch.int64)
    dist.all_to_all_single(seen, torch.full((size,), arrival_ns, dtype=torch.int64), group=group.handle)
    return int(seen.max())


def _all_reduce(group: Communicator, arrival_ns: int) -> int:
    latest = torch.tensor([arrival_ns])
    dist.all_reduce(latest, op=dist.ReduceOp.MAX, group=group.handle)
    return int(latest)


def _meet(group: Communicator, peer: int, tag: int, sends: bool, arrival_ns: int) -> int:
    """Swap arrivals with the peer; ``tag`` is the direction, even for the sender's number and odd for the answer."""
    mine, theirs = torch.tensor([arrival_ns]), torch.empty(1, dtype=torch.int64)
    out, back = (2 * tag, 2 * tag + 1) if sends else (2 * tag + 1, 2 * tag)
    sent = dist.isend(mine, peer, group=group.handle, tag=out)
    dist.recv(theirs, peer, group=group.handle, tag=back)
    if sent is not None:
        sent.wait()
    return max(arrival_ns, int(theirs))
