"""Decoding of Ascend timelines (trace_view.json, msprof_*.json): the args that are used, sorted by what a row is.

A row is told by the name of its process ("Ascend Hardware", "CANN", …), never by its category, which most rows lack.
Names of processes may follow the rows, so rows are kept by process id and sorted at the end.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from operator import attrgetter
from typing import cast

import msgspec

from parsers._categories import MODULE_PREFIX, SKIPPED_PHASES
from parsers._chrome_events import Args, Event, Losses, events
from parsers._chrome_stream import ChromeStream
from parsers._numbers import Scalar, integer
from replay.trace import MISSING

_ARROWS: dict[Scalar, str] = {"HostToDevice": "launch", "async_npu": "op"}
_ARROW_PHASES = ("s", "f", "t")
_FUNCTION = "python_function"
_HOST_CATEGORIES = ("cpu_op", "enqueue", "dequeue", _FUNCTION)
_PHASE = attrgetter("ph")
_PROCESSES = {
    **dict.fromkeys(("python", "pta", "mindspore", "cpu op"), "framework"),
    **dict.fromkeys(("cann", "ascendcl", "ge", "runtime"), "cann"),  # three processes until 2023
    **dict.fromkeys(("ascend hardware", "task scheduler"), "device"),
    **dict.fromkeys(("hccl", "communication"), "communication"),
    "overlap analysis": "overlap",
}
_CALL = re.compile(r"(?:AscendCL|Runtime|Node|Model|Hccl|HCCL|Communication|Api)@")
# torch_npu takes CANN's calls out of files of level 0 by the names of layers, and has not all of these names
_OF_COLLECTIVES = re.compile(r"(?:Communication|HCCL|Hccl)@")
_DERIVED = re.compile(r"Computing|Communication(?:\(Not Overlapped\))?|Free")
OTHER = "other"  # rows of which nothing tells what they are
PYTHON_FUNCTIONS = "python functions"  # that are let go of, and counted
Place = tuple[Scalar, Scalar, bytes]  # process, thread, time as written


class AscendArgs(Args, gc=False):
    """Args of Ascend rows beside those of Kineto's; missing numbers are -1."""

    connection: Scalar = msgspec.field(default=-1, name="connection_id")
    queued: Scalar = msgspec.field(default=-1, name="correlation_id")
    item: Scalar = msgspec.field(default=None, name="item_id")
    task_type: Scalar = msgspec.field(default=None, name="Task Type")
    size: Scalar = msgspec.field(default=-1, name="size(B)")
    count: Scalar = -1
    data_type: Scalar = None
    algorithm: Scalar = msgspec.field(default=None, name="alg_type")
    rank_size: Scalar = -1
    physical: Scalar = msgspec.field(default=-1, name="Physic Stream Id")
    stream_id: Scalar = msgspec.field(default=-1, name="stream id")
    source_rank: Scalar = msgspec.field(default=-1, name="src rank")
    target_rank: Scalar = msgspec.field(default=-1, name="dst rank")
    packet_bytes: Scalar = msgspec.field(default=-1, name="size(Byte)")
    model: Scalar = msgspec.field(default=-1, name="Model Id")
    comm_model: Scalar = msgspec.field(default=-1, name="model id")
    task_id: Scalar = msgspec.field(default=-1, name="Task Id")
    range_type: Scalar = msgspec.field(default=None, name="event_type")
    labels: Scalar = None


class AscendEvent(Event, gc=False):
    """One record of an Ascend timeline; ``id`` joins the two ends of a flow."""

    args: AscendArgs | None = None
    id: Scalar = None


class AscendSchema:
    """The fields above."""

    event: type[Event] = AscendEvent
    args: type[Args] = AscendArgs

    def __init__(self) -> None:
        self._many = msgspec.json.Decoder(list[AscendEvent])
        self._one = msgspec.json.Decoder(AscendEvent)

    def run(self, text: bytes) -> list[Event]:
        """Events of a JSON list."""
        return list[Event](self._many.decode(text))

    def one(self, text: bytes) -> Event:
        """A single event."""
        return self._one.decode(text)


@dataclass(slots=True)
class Timeline:
    """Rows of one device by what they are, with the names of threads and the arrows between rows."""

    rows: dict[str, list[AscendEvent]] = field(default_factory=lambda: defaultdict(list))
    threads: dict[tuple[str, str], str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)  # process → "NPU 0", "CPU"
    arrows: dict[str, list[AscendEvent]] = field(default_factory=lambda: {"launch": [], "op": []})  # both ends of each
    losses: Losses = field(default_factory=Losses)
    skipped: Counter[str] = field(default_factory=Counter)
    cut_short: list[str] = field(default_factory=list)  # files that end in the middle
    notes: tuple[str, ...] = ()  # sentences about what could not be read

    def thread_of(self, event: Event) -> str:
        """Name of an event's thread, empty when it has none."""
        return self.threads.get((str(event.pid), str(event.tid)), "")


def place(event: Event) -> Place:
    """Where and when an event begins, as arrows name it."""
    return event.pid, event.tid, bytes(event.ts).strip(b'" ')


def connection_of(event: AscendEvent) -> int:
    """``connection_id`` of a row, -1 none."""
    return integer(event.args.connection) if event.args is not None else MISSING


def read_timeline(streams: list[ChromeStream]) -> Timeline:
    """All slices of one timeline. Raises :class:`TraceError` where a file holds no list of events."""
    timeline = Timeline()
    by_process: dict[Scalar, list[AscendEvent]] = defaultdict(list)
    names: dict[str, str] = {}
    for stream in streams:
        for batch in events(stream, timeline.losses, SCHEMA):
            _take(cast("list[AscendEvent]", batch), timeline, by_process, names)
        if stream.cut_short:
            timeline.cut_short.append(stream.name)
        elif stream.is_list and not stream.tail:
            timeline.notes += (f"{stream.name} lacks the end of its list of events: what may have followed is lost",)
    for process, rows in by_process.items():
        name = names.get(str(process), "").strip()
        role = _PROCESSES.get(name.lower())
        if role:
            timeline.rows[role] += rows
            continue
        on_device = timeline.labels.get(str(process), "").upper().startswith("NPU")
        for event in rows:
            told = _role_of(event, named=bool(name), on_device=on_device)
            if told or not name:
                timeline.rows[told or OTHER].append(event)
            else:
                timeline.skipped[f"rows of {name}"] += 1
    if all(_OF_COLLECTIVES.match(str(event.name)) for event in timeline.rows["cann"]):
        timeline.rows["framework"] += timeline.rows.pop("cann", [])
    return timeline


def _take(
    batch: list[AscendEvent],
    timeline: Timeline,
    by_process: dict[Scalar, list[AscendEvent]],
    names: dict[str, str],
) -> None:
    """The events of one piece; Python functions, most of a recording with stacks, are let go of at once."""
    rest = []
    functions = 0
    for event in batch:
        if event.ph != "X":
            rest.append(event)
        elif event.cat == _FUNCTION and not str(event.name).startswith(MODULE_PREFIX):
            functions += 1
        else:
            by_process[event.pid].append(event)
    timeline.skipped[PYTHON_FUNCTIONS] += functions
    for phase, count in Counter(map(_PHASE, rest)).items():
        timeline.skipped[SKIPPED_PHASES.get(phase, "records of unknown phase")] += count
    for event in rest:
        if event.ph in _ARROW_PHASES:
            kind = _ARROWS.get(event.cat, "")
            if kind and event.id is not None:
                timeline.arrows[kind].append(event)
        elif event.ph == "M" and event.args is not None:
            _take_name(event, event.args, timeline, names)


def _take_name(event: AscendEvent, args: AscendArgs, timeline: Timeline, names: dict[str, str]) -> None:
    process = str(event.pid)
    if event.name == "process_name":
        names[process] = str(args.name or "")
    elif event.name == "thread_name":
        timeline.threads[process, str(event.tid)] = str(args.name or "")
    elif event.name == "process_labels":
        timeline.labels[process] = str(args.labels)


def _role_of(event: AscendEvent, *, named: bool, on_device: bool) -> str:
    """What a row of a process without a known name is, nothing where it cannot be told.

    Ranges of the user lie in a process that bears the program's name; files that end early may lack all names.
    """
    args = event.args
    if args is not None and args.range_type is not None:
        return "" if on_device else "framework"
    if str(event.cat) in _HOST_CATEGORIES:
        return "framework"
    if named:
        return ""
    if args is None:
        return "overlap" if _DERIVED.fullmatch(str(event.name)) else ""
    if args.task_type is not None:
        return "device"
    if str(event.name).lower().startswith("hcom_") or args.source_rank != MISSING:
        return "communication"
    return "cann" if args.item or _CALL.match(str(event.name)) else ""


SCHEMA = AscendSchema()
