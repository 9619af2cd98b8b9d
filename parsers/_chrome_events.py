"""Typed decoding of Chrome trace events, with event-by-event salvage of pieces that are not valid JSON.

What is decoded does not depend on where the pieces are cut: a valid piece is a run of valid events, and an event whose
end cannot be told yet is carried over to the next piece.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol

import msgspec

from parsers._chrome_repair import REPAIRS
from parsers._chrome_stream import EVENT_LIMIT_BYTES, ChromeStream
from parsers._numbers import Scalar


class Args(msgspec.Struct, gc=False):
    """The args that are used, -1 where absent. Lists stay raw text; they are interned, not unpacked."""

    external_id: Scalar = msgspec.field(default=-1, name="External id")
    external_id_old: Scalar = msgspec.field(default=-1, name="external id")
    correlation: Scalar = -1
    device: Scalar = -1
    stream: Scalar = -1
    dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input Dims")
    dims_old: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input dims")
    dtypes: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input type")
    concrete: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Concrete Inputs")
    sequence: Scalar = msgspec.field(default=-1, name="Sequence number")
    bytes: Scalar = -1
    wait_on_stream: Scalar = -1
    wait_on_record: Scalar = msgspec.field(default=-1, name="wait_on_cuda_event_record_corr_id")
    graph_node: Scalar = msgspec.field(default=-1, name="graph node id")
    name: Scalar = None


class CommArgs(Args, gc=False):
    """Args of a communication event beside them."""

    collective: Scalar = msgspec.field(default=None, name="Collective name")
    in_nelems: Scalar = msgspec.field(default=-1, name="In msg nelems")
    out_nelems: Scalar = msgspec.field(default=-1, name="Out msg nelems")
    in_size: Scalar = msgspec.field(default=-1, name="In msg size")
    out_size: Scalar = msgspec.field(default=-1, name="Out msg size")
    group_size: Scalar = msgspec.field(default=-1, name="Group size")
    dtype: Scalar = None
    in_split: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="In split size")
    out_split: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Out split size")
    group_name: Scalar = msgspec.field(default=None, name="Process Group Name")
    group_id: Scalar = msgspec.field(default=None, name="Process Group ID")
    group_description: Scalar = msgspec.field(default=None, name="Process Group Description")
    group_ranks: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Process Group Ranks")
    rank_start: Scalar = msgspec.field(default=-1, name="Global rank start")
    rank_stride: Scalar = msgspec.field(default=-1, name="Global rank stride")
    src_rank: Scalar = msgspec.field(default=-1, name="Src Rank")
    dst_rank: Scalar = msgspec.field(default=-1, name="Dst Rank")
    comm_sequence: Scalar = msgspec.field(default=-1, name="Seq")


class Event(msgspec.Struct, gc=False):
    """One record of ``traceEvents``. Times stay raw text until they are exact integers."""

    ph: str = ""
    cat: Scalar = None
    name: Scalar = ""
    pid: Scalar = None
    tid: Scalar = None
    ts: msgspec.Raw = msgspec.Raw()
    dur: msgspec.Raw = msgspec.Raw()
    args: Args | None = None


class CommEvent(Event, gc=False):
    """An event of a piece that holds communication metadata; a struct with few fields decodes faster."""

    args: CommArgs | None = None


class Schema(Protocol):
    """Which fields of an event, and of its args, are decoded; other producers' args need another one."""

    event: type[Event]
    args: type[Args]

    def run(self, text: bytes) -> list[Event]:
        """Events of a JSON list. Raises ``msgspec.DecodeError`` where one is not valid."""

    def one(self, text: bytes) -> Event:
        """A single event, all fields of the schema decoded."""


_LEAN = msgspec.json.Decoder(list[Event])
_FULL = msgspec.json.Decoder(list[CommEvent])
_ONE = msgspec.json.Decoder(CommEvent)
_COMM_KEY = b'"Collective name"'


class KinetoSchema:
    """Kineto's args; those of communication only in pieces that hold some."""

    event: type[Event] = CommEvent
    args: type[Args] = CommArgs

    def run(self, text: bytes) -> list[Event]:
        """See :class:`Schema`."""
        return list[Event](_FULL.decode(text)) if _COMM_KEY in text else _LEAN.decode(text)

    def one(self, text: bytes) -> Event:
        """See :class:`Schema`."""
        return _ONE.decode(text)


KINETO = KinetoSchema()
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_BOUNDARY = re.compile(rb'\}[\s,]*(?=\{\s*"[^"\\]*"\s*:)|,\s*(?=\{\s*"ph"\s*:)')
_LIST_END = re.compile(rb'\}[\s,]*\]\s*(?=,\s*"[^"\\]*"\s*:|\}\s*\Z|\Z)')
_BEGINS_EVENT = re.compile(rb'\{[^{}]*"ph"\s*:')
_BETWEEN = b" \t\r\n,"
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_TAIL_LIMIT_BYTES = 64 << 20
_REPAIR_LIMIT_BYTES = 1 << 16  # a longer event is not repaired, and one that should go on for longer is damaged
_LIST_END_TRIES = 32  # places that look like the list's end in one segment


class Losses:
    """Counters of what decoding had to change or leave."""

    def __init__(self) -> None:
        self.seen = 0
        self.dropped: Counter[str] = Counter()
        self.repaired: Counter[str] = Counter()

    def drop(self, reason: str) -> None:
        """Count one record that could not be used."""
        self.seen += 1
        self.dropped[reason] += 1


def events(stream: ChromeStream, losses: Losses, schema: Schema = KINETO) -> Iterator[list[Event]]:
    """Decoded events of a stream, one list a piece; fills ``stream.tail`` and ``stream.cut_short``."""
    carry = b""
    tail: list[bytes] = []
    for piece in stream.pieces():
        if tail:
            if sum(map(len, tail)) < _TAIL_LIMIT_BYTES:
                tail.append(piece)
            continue
        text = carry + piece
        carry = b""
        try:
            batch = decode_run(text, schema)
        except _UNDECODABLE:
            batch, carry, after = _salvage(text, losses, schema)
            tail += [after] if after else []
        losses.seen += len(batch)
        yield batch
    if carry.strip(_BETWEEN):
        losses.drop("cut off in the middle of an event")
    stream.tail = b"".join(tail)
    stream.cut_short |= bool(carry.strip(_BETWEEN)) or not (tail or stream.is_list)


def decode_run(text: bytes, schema: Schema = KINETO) -> list[Event]:
    """Events that follow each other, separated by commas. Raises ``msgspec.DecodeError`` where one is not valid."""
    return schema.run(b"".join((b"[", text.strip(_BETWEEN), b"]")))


def _salvage(text: bytes, losses: Losses, schema: Schema) -> tuple[list[Event], bytes, bytes]:
    """(events, unfinished end, text from the list's end on) of a piece that is not a run of valid events."""
    batch: list[Event] = []
    start = 0
    cuts = [found.end() for found in _BOUNDARY.finditer(text)]
    for cut in [*cuts, len(text)]:
        segment = text[start:cut]
        decoded = _decode_segment(segment, losses, schema)
        if decoded is not None:
            batch += decoded
            if cut < len(text) and not segment.rstrip().endswith(b","):
                losses.repaired["missing commas added"] += 1
            start = cut
            continue
        closing, after = _list_end(segment, losses, schema)
        if after:
            return [*batch, *closing], b"", after + text[cut:]
        if cut == len(text) and len(segment) < EVENT_LIMIT_BYTES:
            return batch, segment, b""
        if _may_go_on(segment) and not _BEGINS_EVENT.match(text, cut):
            continue
        losses.drop("damaged event")
        start = cut
    return batch, b"", b""


def _may_go_on(segment: bytes) -> bool:
    """True where a boundary inside nested objects may have cut an event short."""
    if len(segment) >= _REPAIR_LIMIT_BYTES:
        return False
    return _is_open(segment) or _is_open(_STRING.sub(b"", segment))  # strings may hold braces, or have lost a quote


def _is_open(text: bytes) -> bool:
    return text.count(b"{") > text.count(b"}")


def _list_end(segment: bytes, losses: Losses, schema: Schema) -> tuple[list[Event], bytes]:
    """The last event and the text from the list's ``]`` on, where the list ends inside ``segment``."""
    if segment.lstrip(_BETWEEN).startswith(b"]"):
        return [], segment.lstrip(_BETWEEN)
    for found in islice(_LIST_END.finditer(segment), _LIST_END_TRIES):
        decoded = _decode_segment(segment[: found.start() + 1], losses, schema)
        if decoded is not None:
            return decoded, segment[found.start() + 1 :].lstrip(_BETWEEN)
    return [], b""


def _decode_segment(segment: bytes, losses: Losses, schema: Schema) -> list[Event] | None:
    """What stands between two boundaries, one event as a rule, repaired where that is needed and possible."""
    text = segment.strip(_BETWEEN)
    try:
        return decode_run(text, schema)
    except _UNDECODABLE:
        if len(text) > _REPAIR_LIMIT_BYTES or not (text.startswith(b"{") and text.endswith(b"}")):
            return None
    done: list[str] = []
    for what, repair in REPAIRS:
        repaired = repair(text)
        if repaired == text:
            continue
        text = repaired
        done.append(what)
        try:
            event = schema.one(text)
        except _UNDECODABLE:
            continue
        losses.repaired.update(done)
        return [event]
    return _decode_loosely(text, losses, schema)


def _decode_loosely(text: bytes, losses: Losses, schema: Schema) -> list[Event] | None:
    """An event whose fields have unexpected types: those fields are left out."""
    try:
        raw: Any = msgspec.json.decode(text)
        if not isinstance(raw, dict):
            return None
        args = raw.pop("args", None)
        kept = {key: value for key, value in raw.items() if _fits(schema.event, key, value)}
        if isinstance(args, dict):
            kept["args"] = {key: value for key, value in args.items() if _fits(schema.args, key, value)}
        event = schema.one(msgspec.json.encode(kept))
    except _UNDECODABLE:
        return None
    losses.repaired["fields of unexpected type left out"] += 1
    return [event]


def _fits(kind: type[msgspec.Struct], key: str, value: object) -> bool:
    try:
        msgspec.json.decode(msgspec.json.encode({key: value}), type=kind)
    except _UNDECODABLE:
        return False
    return True
