"""One real training step of one rank: the schedule's passes and exchanges, gradient sums, norm, optimizer."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from traces.record import groups
from traces.record.cpu_model import Chunk
from traces.record.cpu_ranges import Ranges
from traces.record.job import Job
from traces.record.schedules import Exchange, Pass, Phase, Transfer, Wait, schedule

_Key = tuple[Phase, int, int]  # phase, micro-batch, chunk
_Place = tuple[int, int]  # micro-batch, chunk
_MAX_NORM = 1.0
_TAGS: dict[Phase, int] = {"forward": 1, "backward": 2}


class CpuStep:
    """Runs the same step again and again, on one micro-batch after the other."""

    def __init__(self, job: Job, rank: int, members: dict[str, Any]) -> None:
        self._job = job
        self._stage = job.stage(rank)
        self._groups = members  # description → ProcessGroup; absent where this rank would be alone
        self._ranges = Ranges(on=job.ranges)
        self._actions = schedule(job.pp, self._stage, job.microbatches, job.vpp)
        torch.manual_seed(rank)
        experts = members.get(groups.EXPERT)
        self._chunks = [Chunk(job, self._stage, chunk, self._ranges, experts) for chunk in range(job.vpp)]
        self._gradients = [_flat_gradients(chunk) for chunk in self._chunks]
        parameters = [p for chunk in self._chunks for p in chunk.parameters()]
        self._optimizer = torch.optim.Adam(parameters, lr=1e-4, fused=True)
        shape = (job.microbatches, job.mbs, job.model.seq + 1)
        self._data = torch.randint(job.model.vocab, shape, generator=torch.Generator().manual_seed(rank))
        self._inputs: dict[_Place, Tensor] = {}
        self._outputs: dict[_Place, Tensor] = {}
        self._received: dict[_Key, Tensor] = {}
        self._arriving: dict[_Key, Any] = {}
        self._sending: list[Any] = []

    def run(self) -> None:
        """Everything from zeroed gradients to updated parameters."""
        for gradients in self._gradients:
            for flat in gradients.values():
                flat.zero_()
        for action in self._actions:
            if isinstance(action, Pass):
                self._pass(action)
            else:
                self._exchange(action)
        self._wait_for_sends()
        self._reduce_gradients()
        with self._ranges.around("grad_norm"):
            self._clip()
        with self._ranges.around("optimizer"):
            self._optimizer.step()

    def _pass(self, work: Pass) -> None:
        key = (work.phase, work.microbatch, work.chunk)
        arriving = self._arriving.pop(key, None)
        if arriving is not None:
            arriving.wait()
        with self._ranges.around(f"{work.phase} microbatch={work.microbatch} chunk={work.chunk}"):
            if work.phase == "forward":
                self._forward(work)
            else:
                self._backward(work)

    def _forward(self, work: Pass) -> None:
        """Input and output stay until the backward pass has used them."""
        place, tokens = (work.microbatch, work.chunk), self._data[work.microbatch]
        received = self._received.pop(("forward", *place), None)
        x = tokens[:, :-1] if received is None else received.requires_grad_()
        y = self._chunks[work.chunk](x, tokens[:, 1:])
        self._inputs[place], self._outputs[place] = x, y

    def _backward(self, work: Pass) -> None:
        """From the loss or the gradient that arrived; the gradient of the input waits there to be sent."""
        place = (work.microbatch, work.chunk)
        y, gradient = self._outputs.pop(place), self._received.pop(("backward", *place), None)
        torch.autograd.backward(y / self._job.microbatches if gradient is None else y, gradient)
        self._ranges.close()

    def _exchange(self, exchange: Exchange) -> None:
        """Post all messages, then wait as the schedule says."""
        posted = [(message, self._post(message)) for message in exchange.transfers]
        for message, work in posted:
            if exchange.wait is not Wait.CONSUMER:
                work.wait()
            elif message.direction == "recv":
                self._arriving[message.phase, message.microbatch, message.chunk] = work
            else:
                self._sending.append(work)

    def _post(self, message: Transfer) -> Any:
        group, tag = self._groups[groups.PIPELINE], _TAGS[message.phase]
        label = f"{message.direction}_{message.phase} microbatch={message.microbatch} chunk={message.chunk}"
        with self._ranges.around(label):
            if message.direction == "send":
                return dist.isend(self._outgoing(message), group=group, group_dst=message.peer, tag=tag)
            buffer = torch.empty(self._job.mbs, self._job.model.seq, self._job.model.hidden)
            self._received[message.phase, message.microbatch, message.chunk] = buffer
            return dist.irecv(buffer, group=group, group_src=message.peer, tag=tag)

    def _outgoing(self, message: Transfer) -> Tensor:
        place = (message.microbatch, message.chunk)
        if message.phase == "forward":
            return self._outputs[place].detach()
        gradient = self._inputs[place].grad
        assert gradient is not None
        return gradient

    def _wait_for_sends(self) -> None:
        for work in self._sending:
            work.wait()
        self._sending.clear()
        self._inputs.clear()

    def _reduce_gradients(self) -> None:
        """One sum a chunk for dense and one for expert parameters, over the ranks that hold copies of them."""
        for chunk, gradients in enumerate(self._gradients):
            with self._ranges.around(f"grad_sync chunk={chunk}"):
                for description, flat in gradients.items():
                    if description in self._groups:
                        dist.all_reduce(flat, group=self._groups[description])
                    if self._job.dp > 1:  # experts get the sum of all ranks' tokens too, by the exchange
                        flat.div_(self._job.dp)

    def _clip(self) -> None:
        """Scale gradients to the largest norm; dense and expert parts are summed over the ranks that share a model."""
        squared = torch.zeros(1)
        for description, over in ((groups.DATA, groups.MODEL), (groups.EXPERT_DATA, groups.EXPERT_NORM)):
            parts = [g[description].square().sum() for g in self._gradients if description in g]
            if not parts:
                continue
            part = torch.stack(parts).sum().reshape(1)
            if over in self._groups:
                dist.all_reduce(part, group=self._groups[over])
            squared += part
        scale = float(torch.clamp(_MAX_NORM / (squared.sqrt() + 1e-6), max=1.0))
        for gradients in self._gradients:
            for flat in gradients.values():
                flat.mul_(scale)


def _flat_gradients(chunk: Chunk) -> dict[str, Tensor]:
    """One buffer for dense and one for expert gradients (as Megatron's), by the group that sums it."""
    buffers = {}
    for description, parameters in (
        (groups.DATA, chunk.dense_parameters()),
        (groups.EXPERT_DATA, chunk.expert_parameters()),
    ):
        if parameters:
            flat = torch.zeros(sum(p.numel() for p in parameters))
            for p, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
                p.grad = part.view_as(p)
            buffers[description] = flat
    return buffers


def create_groups(job: Job, rank: int) -> dict[str, Any]:
    """Gloo groups that this job communicates in, under Megatron's descriptions; those of one member are not made."""
    used = [groups.PIPELINE, groups.MODEL, groups.DATA, groups.EXPERT, groups.EXPERT_DATA, groups.EXPERT_NORM]
    if job.model.dense_layers >= job.model.layers:
        used = used[:3]
    mine: dict[str, Any] = {}
    for description, parts in groups.members(job).items():
        for ranks in parts if description in used else ():
            if len(ranks) > 1:
                handle = dist.new_group(list(ranks), backend="gloo", group_desc=description)
                if rank in ranks:
                    mine[description] = handle
    return mine
