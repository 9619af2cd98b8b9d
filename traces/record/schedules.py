"""What one pipeline stage does, in order: GPipe, Megatron's 1F1B and interleaved 1F1B, with their exchanges.

Written from ``megatron/core/pipeline_parallel/schedules.py`` (``forward_backward_pipelining_without_interleaving`` and
``..._with_interleaving``). Interleaving comes with overlapped exchanges or, over more than two stages, with blocking
ones; 1F1B waits on the host after each exchange, as Megatron's batched exchange does. GPipe is its all-warm-up case.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

Phase = Literal["forward", "backward"]
Direction = Literal["send", "recv"]


class Wait(Enum):
    """Who waits for an exchange, and when."""

    HOST = "host"  # the host, at once
    STREAM = "stream"  # the compute stream, at once
    CONSUMER = "consumer"  # the compute stream, before the pass that uses what was received


@dataclass(frozen=True, slots=True)
class Pass:
    """Forward or backward of one micro-batch through one local chunk."""

    phase: Phase
    microbatch: int
    chunk: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """One message: activations (forward) or gradients (backward); ``chunk`` is the local one."""

    direction: Direction
    phase: Phase
    microbatch: int
    chunk: int
    peer: int  # pipeline stage at the other end


@dataclass(frozen=True, slots=True)
class Exchange:
    """Messages posted together: sends first, the message for the next stage before that for the previous one."""

    transfers: tuple[Transfer, ...]
    wait: Wait


Action = Pass | Exchange


def schedule(
    stages: int, stage: int, microbatches: int, chunks: int, *, gpipe: bool = False, overlap: bool = True
) -> tuple[Action, ...]:
    """Actions of ``stage``: 1F1B or GPipe for one chunk a stage, else interleaved in groups of ``stages``.

    ``overlap`` says whether interleaved exchanges go on beside the passes.
    """
    if chunks == 1:
        actions = _OneChunk(stages, stage, microbatches, microbatches if gpipe else stages - stage - 1).actions()
    else:
        if microbatches % stages:
            raise ValueError(f"interleaving needs micro-batches ({microbatches}) divisible by stages ({stages})")
        interleaved = _Interleaved(stages, stage, microbatches, chunks)
        actions = interleaved.actions() if overlap else interleaved.blocking_actions()
    return tuple(a for a in actions if isinstance(a, Pass) or a.transfers)


@dataclass(frozen=True, slots=True)
class _OneChunk:
    stages: int
    stage: int
    microbatches: int
    most_warmup: int

    def actions(self) -> list[Action]:
        warmup = min(self.most_warmup, self.microbatches)
        steady = self.microbatches - warmup
        actions: list[Action] = []
        for i in range(warmup):
            actions += [self._exchange(recv_forward=i), Pass("forward", i, 0), self._exchange(send_forward=i)]
        if steady:
            actions.append(self._exchange(recv_forward=warmup))
        for i in range(steady):
            forward = warmup + i
            more = None if i == steady - 1 else forward + 1
            actions += [
                Pass("forward", forward, 0),
                self._exchange(send_forward=forward, recv_backward=i),
                Pass("backward", i, 0),
                self._exchange(send_backward=i, recv_forward=more),
            ]
        for i in range(steady, self.microbatches):
            actions += [self._exchange(recv_backward=i), Pass("backward", i, 0), self._exchange(send_backward=i)]
        return actions

    def _exchange(
        self,
        *,
        send_forward: int | None = None,
        send_backward: int | None = None,
        recv_forward: int | None = None,
        recv_backward: int | None = None,
    ) -> Exchange:
        """Micro-batches to send and receive; those beyond the ends of the pipeline fall away."""
        wanted: list[tuple[Direction, Phase, int | None, int]] = [
            ("send", "forward", send_forward, self.stage + 1),
            ("send", "backward", send_backward, self.stage - 1),
            ("recv", "forward", recv_forward, self.stage - 1),
            ("recv", "backward", recv_backward, self.stage + 1),
        ]
        transfers = tuple(
            Transfer(direction, phase, microbatch, 0, peer)
            for direction, phase, microbatch, peer in wanted
            if microbatch is not None and 0 <= peer < self.stages
        )
        return Exchange(transfers, Wait.HOST)


@dataclass(frozen=True, slots=True)
class _Interleaved:
    stages: int
    stage: int
    microbatches: int
    chunks: int

    @property
    def total(self) -> int:
        return self.microbatches * self.chunks

    @property
    def warmup(self) -> int:
        ahead = 2 * (self.stages - self.stage - 1) + (self.chunks - 1) * self.stages
        return min(ahead, self.total)

    def blocking_actions(self) -> list[Action]:
        """One exchange after each pass, or after each pair of passes, and the host waits for it."""
        warmup, steady = self.warmup, self.total - self.warmup
        actions: list[Action] = [Exchange(self._recv_forward(0), Wait.HOST)]
        for k in range(warmup):
            messages = self._send("forward", k) + self._recv_forward(k + 1)
            first_gradient = self._recv_backward(0) if k == warmup - 1 else ()
            actions += [self._forward(k), Exchange(messages + first_gradient, Wait.HOST)]
        for k in range(steady):
            forward, last = k + warmup, k == steady - 1
            out = self._send("forward", forward) + self._send("backward", k)
            back = self._recv_forward_ahead(forward, last) + self._recv_backward_ahead(k)
            actions += [self._forward(forward), self._backward(k), Exchange(out + back, Wait.HOST)]
        for k in range(steady, self.total):
            messages = self._send("backward", k) + self._recv_backward(k + 1)
            actions += [self._backward(k), Exchange(messages, Wait.HOST)]
        return actions

    def actions(self) -> list[Action]:
        warmup = self.warmup
        steady = self.total - warmup
        actions: list[Action] = [Exchange(self._recv_forward(0), Wait.STREAM)]
        for k in range(warmup):
            last = k == warmup - 1 and steady > 0
            messages = self._send("forward", k) + self._recv_forward(k + 1)
            actions += [self._forward(k), Exchange(messages, Wait.CONSUMER if last else Wait.STREAM)]
        if warmup and steady:
            actions.append(Exchange(self._recv_backward(0), Wait.CONSUMER))
        for k in range(steady):
            forward, last = k + warmup, k == steady - 1
            actions += [
                self._forward(forward),
                Exchange(self._send("forward", forward) + self._recv_forward_ahead(forward, last), Wait.CONSUMER),
                self._backward(k),
                Exchange(self._send("backward", k) + self._recv_backward_ahead(k), Wait.CONSUMER),
            ]
        if not steady:
            actions.append(Exchange(self._recv_backward(0), Wait.STREAM))
        for k in range(steady, self.total):
            actions += [
                self._backward(k),
                Exchange(self._send("backward", k) + self._recv_backward(k + 1), Wait.STREAM),
            ]
        return actions

    def _forward(self, k: int) -> Pass:
        """k-th forward: groups of ``stages`` micro-batches, each group through all chunks in turn."""
        group, inside = divmod(k, self.stages * self.chunks)
        chunk, offset = divmod(inside, self.stages)
        return Pass("forward", group * self.stages + offset, chunk)

    def _backward(self, k: int) -> Pass:
        """k-th backward: as forward, chunks in reverse."""
        same = self._forward(k)
        return Pass("backward", same.microbatch, self.chunks - 1 - same.chunk)

    def _send(self, phase: Phase, k: int) -> tuple[Transfer, ...]:
        """Result of the k-th pass to the neighbour, unless the pass was at the end of the whole pipeline."""
        done = self._forward(k) if phase == "forward" else self._backward(k)
        step, end_stage, end_chunk = (1, self.stages - 1, self.chunks - 1) if phase == "forward" else (-1, 0, 0)
        if self.stage == end_stage and done.chunk == end_chunk:
            return ()
        return (Transfer("send", phase, done.microbatch, done.chunk, (self.stage + step) % self.stages),)

    def _recv_forward(self, k: int) -> tuple[Transfer, ...]:
        """Input of the k-th forward; the first stage has none for its first chunk."""
        if k >= self.total or (self.stage == 0 and self._forward(k).chunk == 0):
            return ()
        need = self._forward(k)
        return (Transfer("recv", "forward", need.microbatch, need.chunk, (self.stage - 1) % self.stages),)

    def _recv_backward(self, k: int) -> tuple[Transfer, ...]:
        """Output gradient of the k-th backward; the last stage has none for its last chunk."""
        at_end = self.stage == self.stages - 1
        if k >= self.total or (at_end and self._backward(k).chunk == self.chunks - 1):
            return ()
        need = self._backward(k)
        return (Transfer("recv", "backward", need.microbatch, need.chunk, (self.stage + 1) % self.stages),)

    def _recv_forward_ahead(self, k: int, last: bool) -> tuple[Transfer, ...]:
        """What arrives while the k-th forward runs: the first stage is ahead of the last one by ``stages - 1``."""
        if last:
            return ()
        if self.stage > 0:
            return self._recv_forward(k + 1)
        sent = self._forward(k - (self.stages - 1))
        if sent.chunk == self.chunks - 1:
            return ()
        return (Transfer("recv", "forward", sent.microbatch, sent.chunk + 1, self.stages - 1),)

    def _recv_backward_ahead(self, k: int) -> tuple[Transfer, ...]:
        """What arrives while the k-th backward runs: the last stage is ahead of the first one by ``stages - 1``."""
        if self.stage < self.stages - 1:
            return self._recv_backward(k + 1)
        sent_index = k - (self.stages - 1)
        if sent_index < 0:
            return ()
        sent = self._backward(sent_index)
        if sent.chunk == 0:
            return ()
        return (Transfer("recv", "backward", sent.microbatch, sent.chunk - 1, 0),)
