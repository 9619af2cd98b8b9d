"""One training step on one rank: the host thread launches the schedule's passes and exchanges onto the device."""

from __future__ import annotations

import time
from collections.abc import Iterable

from traces.record.communicators import Communicators
from traces.record.device import COMPUTE, Device, Event
from traces.record.job import Job
from traces.record.model import Collective, DeviceWork, Kernel, Module, Op
from traces.record.schedules import Exchange, Pass, Phase, Transfer, Wait, schedule

_TURN_S = 1e-4  # asleep after each module, so that device threads and the other ranks' hosts get their turn


class TrainingStep:
    """Runs the same step again and again; ``stage`` is this rank's pipeline stage."""

    def __init__(self, job: Job, stage: int, device: Device, communicators: Communicators, work: DeviceWork) -> None:
        self._job = job
        self._stage = stage
        self._device = device
        self._communicators = communicators
        self._work = work
        self._actions = schedule(job.pp, stage, job.microbatches, job.vpp)
        self._layers: dict[Phase, tuple[Module, ...]] = {p: work.layer(p) for p in ("forward", "backward")}
        self._transfer_ns = work.transfer_ns()
        self._received: dict[tuple[Phase, int, int], Event] = {}

    def run(self) -> None:
        """Forward and backward of all micro-batches, gradient sync, norm, optimizer; the device is idle afterwards."""
        for action in self._actions:
            if isinstance(action, Pass):
                self._pass(action)
            else:
                self._exchange(action)
        for chunk in range(self._job.vpp):
            with self._device.range(f"grad_sync chunk={chunk}"):
                self._ops(self._work.grad_sync(self._stage, chunk))
        with self._device.range("grad_norm"):
            self._ops(self._work.grad_norm())
        with self._device.range("optimizer"):
            self._ops(self._work.optimizer(self._stage))
        self._device.synchronize()

    def _pass(self, work: Pass) -> None:
        arrived = self._received.pop((work.phase, work.microbatch, work.chunk), None)
        if arrived is not None:
            self._device.wait(COMPUTE, arrived)
        with self._device.range(f"{work.phase} microbatch={work.microbatch} chunk={work.chunk}"):
            if work.phase == "forward":
                self._forward(work.chunk)
            else:
                self._backward(work.chunk)

    def _forward(self, chunk: int) -> None:
        if self._job.is_first(self._stage, chunk):
            self._module(self._work.embedding("forward"))
        for layer in self._job.chunk_layers(self._stage, chunk):
            self._layer(layer, "forward")
        if self._job.is_last(self._stage, chunk):
            self._module(self._work.head("forward"))

    def _backward(self, chunk: int) -> None:
        if self._job.is_last(self._stage, chunk):
            self._module(self._work.head("backward"))
        for layer in reversed(self._job.chunk_layers(self._stage, chunk)):
            self._layer(layer, "backward")
        if self._job.is_first(self._stage, chunk):
            self._module(self._work.embedding("backward"))

    def _layer(self, layer: int, phase: Phase) -> None:
        with self._device.range(f"layer={layer}"):
            for module in self._layers[phase]:
                self._module(module)

    def _module(self, module: Module) -> None:
        name, ops = module
        if ops:
            with self._device.range(name):
                self._ops(ops)
            time.sleep(_TURN_S)

    def _ops(self, ops: Iterable[Op]) -> None:
        for op in ops:
            if isinstance(op, Kernel):
                self._device.compute(op.name, op.duration_ns, op.op, op.dims)
            else:
                self._collective(op)

    def _collective(self, op: Collective) -> None:
        """On the group's own stream, after what compute holds and before what compute gets next."""
        meeting, sequence = self._communicators.collective(op)
        self._device.wait(op.group, self._device.record(COMPUTE))
        self._device.communicate(op.group, op.name, op.duration_ns, meeting, sequence)
        self._device.wait(COMPUTE, self._device.record(op.group))

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
