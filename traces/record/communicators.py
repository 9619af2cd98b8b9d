"""Real Gloo groups of one rank, and the rendezvous of each emulated collective in them.

A rendezvous carries one number a rank, its arrival on the device clock (CLOCK_MONOTONIC, shared by all processes of a
machine), and returns the latest: every member really waits for every other, and all agree when the transfer starts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

import torch
import torch.distributed as dist

from traces.record import groups
from traces.record.calls import Meeting
from traces.record.job import Job
from traces.record.ops import Collective
from traces.record.schedules import Direction

_CPU = torch.device("cpu")
_ARRIVAL, _LATEST = 1, 2  # tags of collectives; those of point-to-point messages start above
_FIRST_TRANSFER_TAG = 4


class _Work(Protocol):
    def wait(self) -> Any: ...


class Channel(Protocol):
    """Gloo's own calls of one group; going past torch.distributed's saves half of the host time."""

    def rank(self) -> int: ...

    def send(self, tensors: list[torch.Tensor], member: int, tag: int) -> _Work: ...

    def recv(self, tensors: list[torch.Tensor], member: int, tag: int) -> _Work: ...


@dataclass(frozen=True, slots=True)
class Communicator:
    """One group this rank belongs to."""

    description: str
    ranks: tuple[int, ...]
    name: str
    channel: Channel

    def args(self, collective: str, elements: tuple[int, int], dtype: str) -> dict[str, Any]:
        """NCCL's keys for a call of this group; ``elements`` in and out."""
        return {
            "Collective name": collective,
            "In msg nelems": elements[0],
            "Out msg nelems": elements[1],
            "Group size": len(self.ranks),
            "dtype": dtype,
            "Process Group Name": self.name,
            "Process Group Description": self.description,
            "Process Group Ranks": str(list(self.ranks)),
        }


class Communicators:
    """All groups of one rank, created by every rank in the same order; counts the calls of each."""

    def __init__(self, job: Job, rank: int) -> None:
        self._job = job
        self._rank = rank
        self._mine: dict[str, Communicator] = {}
        self._collectives: dict[Collective, Meeting] = {}
        self._transfers: dict[tuple[Direction, int], Meeting] = {}
        self._calls: Counter[tuple[str, int] | str] = Counter()
        for description, parts in groups.members(job).items():
            for ranks in parts:
                handle = dist.new_group(list(ranks), backend=groups.BACKEND, group_desc=description)
                if rank in ranks:
                    self._mine[description] = Communicator(
                        description, ranks, handle.group_name, cast("Channel", handle._get_backend(_CPU))
                    )

    def collective(self, op: Collective) -> tuple[Meeting, int]:
        """The meeting of a collective and its number among the calls of its group."""
        if op not in self._collectives:
            self._collectives[op] = self._meet_group(op)
        return self._collectives[op], self._count(op.group)

    def transfer(self, direction: Direction, stage: int, elements: int) -> tuple[Meeting, int]:
        """The meeting of a message to or from a pipeline stage and its number among those to or from it."""
        key = (direction, stage)
        if key not in self._transfers:
            self._transfers[key] = self._meet_stage(direction, stage, elements)
        return self._transfers[key], self._count(key)

    def _count(self, key: tuple[str, int] | str) -> int:
        self._calls[key] += 1
        return self._calls[key] - 1

    def _meet_group(self, op: Collective) -> Meeting:
        group = self._mine[op.group]
        args = group.args(op.collective, (op.elements_in, op.elements_out), op.dtype)
        if op.sent:
            args |= {"In split size": str(list(op.sent)), "Out split size": str(list(op.received))}
        return Meeting(partial(meet, group), args)

    def _meet_stage(self, direction: Direction, stage: int, elements: int) -> Meeting:
        """Sender and receiver wait for each other; numbers of each direction travel under tags of their own."""
        group = self._mine[groups.PIPELINE]
        peer = group.ranks[stage]
        source, destination = (self._rank, peer) if direction == "send" else (peer, self._rank)
        tag = _FIRST_TRANSFER_TAG + 2 * (source * self._job.world_size + destination)
        tags = (tag, tag + 1) if direction == "send" else (tag + 1, tag)
        key = "Dst Rank" if direction == "send" else "Src Rank"
        return Meeting(
            partial(_swap, group, stage, tags), {**group.args(direction, (elements, elements), "BFloat16"), key: peer}
        )


def meet(group: Communicator, arrival_ns: int) -> int:
    """All members' arrivals to the first one, the latest back to all: the fewest messages that let everyone wait.

    (Sixteen ranks meet at once on a few cores; an all-to-all of eight would cost four times the messages.)
    """
    mine, latest = torch.tensor([arrival_ns]), torch.empty(1, dtype=torch.int64)
    if group.channel.rank() > 0:
        answer = group.channel.recv([latest], 0, _LATEST)
        group.channel.send([mine], 0, _ARRIVAL).wait()
        answer.wait()
        return int(latest)
    others = range(1, len(group.ranks))
    arrivals = [torch.empty(1, dtype=torch.int64) for _ in others]
    received = [group.channel.recv([arrivals[i - 1]], i, _ARRIVAL) for i in others]
    for work in received:
        work.wait()
    latest = torch.stack([mine, *arrivals]).max().reshape(1)
    for work in [group.channel.send([latest], i, _LATEST) for i in others]:
        work.wait()
    return int(latest)


def _swap(group: Communicator, peer: int, tags: tuple[int, int], arrival_ns: int) -> int:
    """Swap arrivals with a member (by its number in the group); the later one."""
    theirs = torch.empty(1, dtype=torch.int64)
    sent = group.channel.send([torch.tensor([arrival_ns])], peer, tags[0])
    group.channel.recv([theirs], peer, tags[1]).wait()
    sent.wait()
    return max(arrival_ns, int(theirs))
