"""One training step on one rank: the host thread launches the schedule's passes and exchanges onto the device."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from traces.record.autograd import AutogradThread
from traces.record.communicators import Communicators
from traces.record.device import COMPUTE, Device, Event
from traces.record.job import Job
from traces.record.model import EMBEDDING, HEAD, DeviceWork, Place
from traces.record.ops import Collective, Kernel, Module, Op, Operator
from traces.record.schedules import Exchange, Pass, Phase, Transfer, Wait, schedule

_TURN_S = 1e-4  # asleep after each module, so that device threads and the other ranks' hosts get their turn
_OPTIMIZER = "Optimizer.step#Adam.step"  # torch itself writes this range around every optimizer's step


class TrainingStep:
    """Runs the same step again and again; ``rank`` is this process' global rank."""

    def __init__(self, job: Job, rank: int, device: Device, communicators: Communicators, work: DeviceWork) -> None:
        self._job = job
        self._stage = job.stage(rank)
        self._device = device
        self._communicators = communicators
        self._work = work
        self._stall_s = job.disturbance.stall_s(rank)
        gpipe, overlap = job.schedule == "gpipe", bool(job.overlap_p2p)
        self._actions = schedule(job.pp, self._stage, job.microbatches, job.vpp, gpipe=gpipe, overlap=overlap)
        self._transfer_ns = work.transfer_ns()
        self._received: dict[tuple[Phase, int, int], Event] = {}
        self._summed: list[Event] = []
        self._sequences = itertools.count(1)
        self._recorded: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # by micro-batch and chunk
        self._autograd = AutogradThread()

    def run(self) -> None:
        """Forward and backward of all micro-batches, gradient sync, norm, optimizer; the device is idle afterwards."""
        if self._stall_s:
            time.sleep(self._stall_s)
        for action in self._actions:
            if isinstance(action, Pass):
                self._pass(action)
            else:
                self._exchange(action)
        for chunk in range(self._job.vpp):
            with self._device.range(f"grad_sync chunk={chunk}"):
                self._sync(chunk)
        with self._device.range("grad_norm"):
            self._ops(self._work.grad_norm())
        with self._device.range("optimizer"), self._device.range(_OPTIMIZER, always=True):
            self._operator("aten::_fused_adam_", self._work.optimizer(self._stage))
        self._device.synchronize()

    def close(self) -> None:
        """End the autograd thread."""
        self._autograd.close()

    def _pass(self, work: Pass) -> None:
        arrived = self._received.pop((work.phase, work.microbatch, work.chunk), None)
        if arrived is not None:
            self._device.wait(COMPUTE, arrived)
        if work.phase == "forward":
            self._forward(work)
        else:
            self._autograd.run(partial(self._backward, work))

    def _forward(self, work: Pass) -> None:
        with self._device.range(f"forward microbatch={work.microbatch} chunk={work.chunk}"):
            if self._job.is_first(self._stage, work.chunk):
                self._module(self._work.embedding("forward"), work)
            for layer in self._job.chunk_layers(self._stage, work.chunk):
                self._layer(layer, work)
            if self._job.is_last(self._stage, work.chunk):
                self._module(self._work.head("forward"), work)

    def _backward(self, work: Pass) -> None:
        with self._device.range(f"backward microbatch={work.microbatch} chunk={work.chunk}"):
            if self._job.is_last(self._stage, work.chunk):
                self._module(self._work.head("backward"), work)
                self._complete(HEAD, work)
            for layer in reversed(self._job.chunk_layers(self._stage, work.chunk)):
                self._layer(layer, work)
                self._complete(layer, work)
            if self._job.is_first(self._stage, work.chunk):
                self._module(self._work.embedding("backward"), work)
                self._complete(EMBEDDING, work)

    def _layer(self, layer: int, work: Pass) -> None:
        with self._device.range(f"layer={layer}"):
            for module in self._work.layer(work.phase, layer):
                self._module(module, work)

    def _module(self, module: Module, work: Pass) -> None:
        name, operators = module
        if operators:
            with self._device.range(name):
                for operator in operators:
                    self._function(operator, work)
            time.sleep(_TURN_S)

    def _function(self, operator: Operator, work: Pass) -> None:
        """An autograd function: forward draws a sequence number, backward runs under its node's in reverse order."""
        open_nodes = self._recorded[work.microbatch, work.chunk]
        if work.phase == "forward":
            open_nodes.append(next(self._sequences))
            self._operator(operator.name, operator.ops, operator.dims, open_nodes[-1], 0)
            return
        sequence, name = open_nodes.pop(), operator.backward_name
        with self._device.operator(f"autograd::engine::evaluate_function: {name}", (), sequence, 1):
            self._operator(name, operator.ops, operator.dims, sequence, 1)

    def _operator(
        self,
        name: str,
        ops: Iterable[Op],
        dims: tuple[tuple[int, ...], ...] = (),
        sequence: int = -1,
        forward_thread: int = 0,
    ) -> None:
        with self._device.operator(name, dims, sequence, forward_thread):
            self._ops(ops)

    def _ops(self, ops: Iterable[Op]) -> None:
        for op in ops:
            if isinstance(op, Kernel):
                self._device.compute(op.name, op.duration_ns, op.op, op.dims)
            else:
                self._device.wait(COMPUTE, self._collective(op))

    def _collective(self, op: Collective) -> Event:
        """On the group's own stream, after what compute holds; returns its end."""
        meeting, sequence = self._communicators.collective(op)
        self._device.wait(op.group, self._device.record(COMPUTE))
        self._device.communicate(op.group, op.name, op.duration_ns, meeting, sequence)
        return self._device.record(op.group)

    def _complete(self, place: Place, work: Pass) -> None:
        """Where sums overlap: buckets that the last micro-batch's backward has filled go out beside it."""
        if self._job.overlap_grads and work.microbatch == self._job.microbatches - 1:
            buckets = self._work.buckets(self._stage, work.chunk).get(place, ())
            self._summed += [self._collective(bucket) for bucket in buckets]

    def _sync(self, chunk: int) -> None:
        """Sum the chunk's gradients, or wait for the sums that were overlapped."""
        if not self._job.overlap_grads:
            self._ops(self._work.grad_sync(self._stage, chunk))
            return
        for event in self._summed:
            self._device.wait(COMPUTE, event)
        self._summed.clear()

    def _exchange(self, exchange: Exchange) -> None:
        """Post all messages, then wait as the schedule says."""
        done = [(message, self._transfer(message)) for message in exchange.transfers]
        for message, event in done:
            if exchange.wait is not Wait.CONSUMER:
                self._device.wait(COMPUTE, event)
            elif message.direction == "recv":
                self._received[message.phase, message.microbatch, message.chunk] = event
        if exchange.wait is Wait.HOST:
            self._device.synchronize()

    def _transfer(self, message: Transfer) -> Event:
        """One message on the stream of its peer and direction, after what compute holds; returns its end."""
        elements = self._work.activation_elements()
        meeting, sequence = self._communicators.transfer(message.direction, message.peer, elements)
        stream = f"{message.direction} {message.peer}"
        name = "emuSend" if message.direction == "send" else "emuRecv"
        label = f"{message.direction}_{message.phase} microbatch={message.microbatch} chunk={message.chunk}"
        with self._device.range(label):
            self._device.wait(stream, self._device.record(COMPUTE))
            self._device.communicate(stream, name, self._transfer_ns, meeting, sequence)
            return self._device.record(stream)
