"""Typed decoding of Chrome trace events, with event-by-event salvage of pieces that are not valid JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from parsers._chrome_stream import ChromeStream

Scalar = bool | int | float | str | None


class Args(msgspec.Struct, gc=False):
    """The args that are used. Lists stay raw text; they are interned, not unpacked."""

    name: Scalar = None
    labels: Scalar = None
    device: Scalar = -1
    stream: Scalar = -1
    correlation: Scalar = -1
    bytes: Scalar = -1
    wait_on_stream: Scalar = -1
    wait_on_record: Scalar = msgspec.field(default=-1, name="wait_on_cuda_event_record_corr_id")
    external_id: Scalar = msgspec.field(default=-1, name="External id")
    external_id_old: Scalar = msgspec.field(default=-1, name="external id")
    sequence: Scalar = msgspec.field(default=-1, name="Sequence number")
    graph_node: Scalar = msgspec.field(default=-1, name="graph node id")
    to_device: Scalar = msgspec.field(default=-1, name="toDevice")
    dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input Dims")
    dims_old: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input dims")
    dtypes: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input type")
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
    name: Scalar = ""
    cat: Scalar = None
    pid: Scalar = None
    tid: Scalar = None
    ts: msgspec.Raw = msgspec.Raw()
    dur: msgspec.Raw = msgspec.Raw()
    args: Args | None = None


_LIST = msgspec.json.Decoder(list[Event])
_ONE = msgspec.json.Decoder(Event)
_BOUNDARY = re.compile(rb'\}\s*,?\s*(?=\{\s*")')
_LIST_END = re.compile(rb'\}\s*\]\s*(?=,\s*"|\}|\Z)')
_NON_FINITE = re.compile(rb"([:\[,]\s*)[-+]?(?:nan|inf(?:inity)?)(?=\s*[,}\]])", re.IGNORECASE)
_TRAILING_COMMA = re.compile(rb",(?=\s*[}\]])")
_MISSING_COMMA = re.compile(rb'(["\d}\]])(\s*)(?="[\w .%()/]+"\s*:)')
_NAME = re.compile(rb'("name"\s*:\s*")(.*?)("\s*(?:,\s*"(?:ph|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:|\}))', re.DOTALL)
_STRAY_QUOTE = re.compile(rb'(?<!\\)"')
_BAD_ESCAPE = re.compile(rb'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_CONTROL = re.compile(rb"[\x00-\x1f]")


class Losses:
    """Counters of what decoding had to change or leave."""

    def __init__(self) -> None:
        self.seen = 0
        self.dropped: Counter[str] = Counter()
        self.repaired: Counter[str] = Counter()


def events(stream: ChromeStream, losses: Losses) -> Iterator[list[Event]]:
    """Decoded events of a stream, one list a piece; fills ``stream.tail``."""
    carry = b""
    for piece in stream.pieces():
        if stream.tail:
            stream.tail += piece
            continue
        text = carry + piece
        carry = b""
        try:
            batch = _LIST.decode(b"[" + text.strip().removesuffix(b",") + b"]")
        except (msgspec.DecodeError, UnicodeDecodeError):
            batch, carry, stream.tail = salvage(text, losses)
        losses.seen += len(batch)
        yield batch
    if carry.strip(b" \t\r\n,]}"):
        losses.seen += 1
        losses.dropped["cut off in the middle of an event"] += 1
    if not stream.tail:
        stream.cut_short = True


def salvage(text: bytes, losses: Losses) -> tuple[list[Event], bytes, bytes]:
    """(events, unfinished end, text after the list) of a piece that is not a run of valid events."""
    batch: list[Event] = []
    start = 0
    for end in [match.end() for match in _BOUNDARY.finditer(text)] + [len(text)]:
        segment = text[start:end]
        event = _decode_one(segment, losses)
        if event is None:
            closing, after = _list_end(segment, losses)
            if after:
                return [*batch, *closing], b"", after + text[end:]
            if end == len(text):
                return batch, segment, b""
            if _open_brackets(segment) > 0 and end - start < 1 << 16:
                continue
            losses.seen += 1
            losses.dropped["damaged event"] += 1
        else:
            batch.append(event)
        start = end
    return batch, b"", b""


def _list_end(segment: bytes, losses: Losses) -> tuple[list[Event], bytes]:
    """The last event and the text from the list's ``]`` on, where the list ends inside ``segment``."""
    if segment.lstrip().startswith(b"]"):
        return [], segment.lstrip()
    for match in _LIST_END.finditer(segment):
        event = _decode_one(segment[: match.start() + 1], losses)
        if event is not None:
            return [event], segment[match.start() + 1 :].lstrip()
    return [], b""


def _open_brackets(segment: bytes) -> int:
    return segment.count(b"{") - segment.count(b"}")


def _decode_one(segment: bytes, losses: Losses) -> Event | None:
    text = segment.strip().removesuffix(b",").rstrip()
    try:
        return _ONE.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    if not (text.startswith(b"{") and text.endswith(b"}")):
        return None
    done: list[str] = []
    for what, repair in _REPAIRS:
        fixed = repair(text)
        if fixed == text:
            continue
        text = fixed
        done.append(what)
        try:
            event = _ONE.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        losses.repaired.update(done)
        return event
    return _decode_loosely(text, losses)


def _decode_loosely(text: bytes, losses: Losses) -> Event | None:
    """An event whose fields have unexpected types: fields that do not fit are left out."""
    try:
        raw: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not isinstance(raw, dict):
        return None
    args = raw.get("args")
    if isinstance(args, dict):
        raw["args"] = {key: value for key, value in args.items() if _fits(Args, key, value)}
    else:
        raw.pop("args", None)
    kept = {key: value for key, value in raw.items() if key == "args" or _fits(Event, key, value)}
    try:
        event = _ONE.decode(msgspec.json.encode(kept))
    except msgspec.DecodeError:
        return None
    losses.repaired["fields of unexpected type left out"] += 1
    return event


def _fits(kind: type[msgspec.Struct], key: str, value: object) -> bool:
    try:
        msgspec.json.decode(msgspec.json.encode({key: value}), type=kind)
    except msgspec.DecodeError:
        return False
    return True


def _escape_names(text: bytes) -> bytes:
    return _NAME.sub(lambda m: m[1] + _STRAY_QUOTE.sub(rb'\\"', m[2]) + m[3], text)


_REPAIRS = (
    ("control characters removed", lambda text: _CONTROL.sub(b" ", text)),
    ("invalid UTF-8 replaced", lambda text: text.decode("utf-8", "replace").encode()),
    ("non-finite numbers taken as missing", lambda text: _NON_FINITE.sub(rb"\1null", text)),
    ("trailing commas removed", lambda text: _TRAILING_COMMA.sub(b"", text)),
    ("bad escapes escaped", lambda text: _BAD_ESCAPE.sub(rb"\\\\", text)),
    ("missing commas added", lambda text: _MISSING_COMMA.sub(rb"\1,\2", text)),
    ("stray quotes in names escaped", _escape_names),
)
