"""The emulated device of one rank: FIFO streams, events and kernels that are spent asleep.

The host side mirrors CUDA: launches, event records and waits return at once, ``synchronize`` blocks. Each stream is a
thread that takes its items in order. A stream keeps a *clock*, the time up to which its work is planned: an item starts
at the latest of the clock, its launch and the events waited for, and ends a table's duration later. The thread sleeps
until that end, so that a late wake-up (many ranks share few cores) shortens the next sleep instead of adding up.

Every host call and every kernel is a torch.profiler range named ``~<mark> <correlation>``, every range of the training
loop one named ``@<label>``; :mod:`traces.record.export` turns them into the rows of a GPU trace, with what
:attr:`Device.calls` remembers about them. The C-level range is used throughout: sixteen ranks share a few cores, and
the host must not take from them what the device threads need to wake in time.
"""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol, cast

from torch._C._profiler import _RecordFunctionFast

from traces.record import realtime
from traces.record.calls import NO_ARGS, Call, Meeting

COMPUTE = "compute"
_FIRST_STREAM = {COMPUTE: 7}
_COMMUNICATION_OPERATOR = "record_param_comms"  # torch.distributed's own, around every launch of a collective
_OTHER_STREAMS = 20  # streams of communicators are numbered from here, by first use


class Event:
    """A point in a stream; fires once, carrying the stream's clock."""

    __slots__ = ("_fired", "clock_ns", "correlation", "stream")

    def __init__(self, correlation: int, stream: int) -> None:
        self.correlation = correlation
        self.stream = stream
        self.clock_ns = 0
        self._fired = threading.Lock()
        self._fired.acquire()

    def fire(self, clock_ns: int) -> None:
        """Let everyone who waits go on."""
        self.clock_ns = clock_ns
        self._fired.release()

    def wait(self) -> int:
        """Block until fired; returns the clock of the stream that fired it."""
        with self._fired:
            return self.clock_ns


class _Item(Protocol):
    def run(self, clock_ns: int) -> int:
        """Execute on the stream's thread; returns the stream's clock afterwards."""


@dataclass(slots=True)
class _Record:
    event: Event

    def run(self, clock_ns: int) -> int:
        self.event.fire(clock_ns)
        return clock_ns


@dataclass(slots=True)
class _Wait:
    event: Event

    def run(self, clock_ns: int) -> int:
        return max(clock_ns, self.event.wait())


@dataclass(slots=True)
class _Work:
    correlation: int
    launched_ns: int
    duration_ns: int
    meeting: Meeting | None

    def run(self, clock_ns: int) -> int:
        start = max(clock_ns, self.launched_ns)
        with _RecordFunctionFast(f"~kernel {self.correlation}"):
            if self.meeting is not None:
                start = self.meeting.rendezvous(start)
            end = start + self.duration_ns
            _sleep_until(end)
        return end


class Stream:
    """A FIFO of items and the thread that executes them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._items: SimpleQueue[_Item | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._execute, name=f"stream {number}", daemon=True)
        self._thread.start()

    def put(self, item: _Item) -> None:
        """Append an item."""
        self._items.put(item)

    def close(self) -> None:
        """Execute what is left and end the thread."""
        self._items.put(None)
        self._thread.join()

    def _execute(self) -> None:
        realtime.enter(realtime.Level.STREAM)
        clock_ns = 0
        while (item := self._items.get()) is not None:
            clock_ns = item.run(clock_ns)


class Device:
    """Host side of the emulated device: the calls a training framework makes."""

    def __init__(self, *, ranges: bool = True) -> None:
        self.calls: dict[int, Call] = {}
        self._ranges = ranges
        self._streams: dict[str, Stream] = {}
        self._correlations = itertools.count(1)

    def range(self, label: str, *, always: bool = False) -> AbstractContextManager[None]:
        """A named range on the host thread, where ranges are wanted or it is ``always`` written."""
        return _range(f"@{label}") if self._ranges or always else nullcontext()

    def operator(
        self, name: str, dims: tuple[tuple[int, ...], ...] = (), sequence: int = -1, forward_thread: int = 0
    ) -> AbstractContextManager[None]:
        """A framework operator on the host thread, with its inputs' sizes and autograd's number of it."""
        identity = next(self._correlations)
        args = {"dims": dims, "sequence": sequence, "forward_thread": forward_thread}
        self.calls[identity] = Call(-1, name, args)
        return _range(f"~op {identity}")

    def compute(self, name: str, duration_ns: int, op: str = "", dims: tuple[tuple[int, ...], ...] = ()) -> None:
        """Queue a compute kernel, inside a framework operator with input shapes where ``op`` names one."""
        with self.operator(op, dims) if op else nullcontext():
            self._launch(COMPUTE, name, duration_ns)

    def communicate(self, stream: str, name: str, duration_ns: int, meeting: Meeting, sequence: int) -> None:
        """Queue a collective: it lasts until all members are there, then its duration."""
        identity = next(self._correlations)
        self.calls[identity] = Call(-1, _COMMUNICATION_OPERATOR, meeting.args, sequence)
        with _range(f"~comm {identity}"):
            self._launch(stream, name, duration_ns, meeting, sequence)

    def record(self, stream: str) -> Event:
        """Record an event behind what the stream holds so far."""
        queue, correlation = self._stream(stream), next(self._correlations)
        event = Event(correlation, queue.number)
        self.calls[correlation] = Call(queue.number)
        with _RecordFunctionFast(f"~record {correlation}"):
            queue.put(_Record(event))
        return event

    def wait(self, stream: str, event: Event) -> None:
        """Hold back what is queued on the stream from now on until the event has fired."""
        queue, correlation = self._stream(stream), next(self._correlations)
        self.calls[correlation] = Call(queue.number, record=event.correlation, record_stream=event.stream)
        with _RecordFunctionFast(f"~wait {correlation}"):
            queue.put(_Wait(event))

    def synchronize(self) -> None:
        """Block the host until every stream is empty."""
        correlation = next(self._correlations)
        self.calls[correlation] = Call(-1)
        with _RecordFunctionFast(f"~synchronize {correlation}"):
            ends = [Event(-1, stream.number) for stream in self._streams.values()]
            for stream, end in zip(self._streams.values(), ends, strict=True):
                stream.put(_Record(end))
            for end in ends:
                end.wait()

    def close(self) -> None:
        """End all streams."""
        for stream in self._streams.values():
            stream.close()

    def _launch(
        self, stream: str, name: str, duration_ns: int, meeting: Meeting | None = None, sequence: int = -1
    ) -> None:
        queue, correlation = self._stream(stream), next(self._correlations)
        self.calls[correlation] = Call(queue.number, name, meeting.args if meeting else NO_ARGS, sequence)
        with _RecordFunctionFast(f"~launch {correlation}"):
            queue.put(_Work(correlation, time.monotonic_ns(), duration_ns, meeting))

    def _stream(self, name: str) -> Stream:
        if name not in self._streams:
            number = _FIRST_STREAM.get(name, _OTHER_STREAMS + len(self._streams))
            self._streams[name] = Stream(number)
        return self._streams[name]


def _range(name: str) -> AbstractContextManager[None]:
    return cast("AbstractContextManager[None]", _RecordFunctionFast(name))


def _sleep_until(end_ns: int) -> None:
    remaining = end_ns - time.monotonic_ns()
    if remaining > 0:
        time.sleep(remaining * 1e-9)
