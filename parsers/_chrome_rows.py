"""Chrome events of one file to :class:`parsers._rows.Rows`, a batch at a time and a column at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import compress
from operator import attrgetter
from typing import TypeVar

import msgspec
import numpy as np

from parsers._categories import (
    KIND_OF_CATEGORY,
    MODULE_PREFIX,
    NO_STREAM,
    ON_DEVICE,
    SKIPPED_CATEGORIES,
    SKIPPED_PHASES,
    kind_without_category,
)
from parsers._chrome_events import Args, CommArgs, Event
from parsers._comm_info import C10D_PAIRS, c10d_pair, comm_info
from parsers._numbers import Scalar, integer, integers, ns_text, us_to_ns
from parsers._rows import COLUMNS, CommInfo, Rows
from replay.core.columns import Bool, Int64
from replay.trace import MISSING, EventKind, Lane

Key = TypeVar("Key")
_Thread = tuple[Scalar, Scalar]  # pid and tid of a host thread
_Stream = tuple[None, int, int]  # device and number of a stream

_NO_ARGS = Args()
_SKIPPED, _PYTHON, _UNTOLD, _BARE_CALL = -1, -2, -3, -4  # pseudo kinds; a call without args may be none
_PSEUDO_KINDS = {"python_function": _PYTHON, "privateuse1_runtime": _BARE_CALL}
_ON_DEVICE = np.isin(np.array(EventKind), ON_DEVICE)  # by kind
_CALLS = _ON_DEVICE | np.isin(np.array(EventKind), (EventKind.RUNTIME, EventKind.OTHER))  # may name a correlation
_OPS = ("X", "B", "E")
_PHASE, _CATEGORY, _NAME, _TRACK = (attrgetter("ph"), attrgetter("cat"), attrgetter("name"), attrgetter("pid", "tid"))
_HOST_ARGS = {"sequence": attrgetter("sequence")}
_CALL_ARGS = {"correlation": attrgetter("correlation"), "stream": attrgetter("stream")}
_DEVICE_ARGS = {
    "wait_on_record": attrgetter("wait_on_record"),
    "wait_on_stream": attrgetter("wait_on_stream"),
    "nbytes": attrgetter("bytes"),
    "graph_node": attrgetter("graph_node"),
}


class _Codes(dict[Key, int]):
    """Gives every distinct key a small integer code, in order of first appearance."""

    def __missing__(self, key: Key) -> int:
        code = self[key] = len(self)
        return code

    def of(self, keys: Sequence[Key]) -> Int64:
        """Codes of all keys."""
        return np.fromiter(map(self.__getitem__, keys), dtype=np.int64, count=len(keys))


class _Kinds(dict[Scalar, int]):
    """Kind or pseudo kind of every category met."""

    def __missing__(self, category: Scalar) -> int:
        kind = self[category] = _category_kind(category)
        return kind


class ChromeRows:
    """Collects batches of events; :meth:`finish` gives the rows. Counts what it leaves out and why."""

    def __init__(self, *, keep_modules: bool = True) -> None:
        self.dropped: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.inferred: Counter[str] = Counter()
        self._keep_modules = keep_modules
        self._kinds = _Kinds()
        self._names = _Codes[Scalar]()
        self._shapes = _Codes[bytes]({b"": 0})  # no text; the rows' codes are one less
        self._dtypes = _Codes[bytes]({b"": 0})
        self._lanes = _Codes[_Thread | _Stream]()
        self._labels: dict[tuple[str, str], str] = {}
        self._open: dict[tuple[Scalar, Scalar], list[Event]] = {}
        self._comms: dict[int, CommInfo] = {}
        self._count = 0
        self._parts: list[dict[str, Int64]] = []

    def add(self, batch: Sequence[Event]) -> None:
        """Take the events of one piece."""
        phases = Counter(map(_PHASE, batch))
        if "B" in phases or "E" in phases:
            whole = [pair for event in batch if (pair := self._whole(event)) is not None]
        else:
            whole = [event for event in batch if event.ph == "X"]
        self._note(phases, batch)
        kind = np.fromiter(map(self._kinds.__getitem__, map(_CATEGORY, whole)), dtype=np.int64, count=len(whole))
        for at in np.flatnonzero(kind < 0).tolist():
            kind[at] = self._told_kind(whole[at], kind[at])
        if (kind < 0).any():
            whole = list(compress(whole, (kind >= 0).tolist()))
            kind = kind[kind >= 0]
        if whole:
            self._add_rows(whole, kind)

    def finish(self) -> Rows:
        """All rows of the file."""
        unclosed = sum(map(len, self._open.values()))
        if unclosed:
            self.dropped["begins without an end"] += unclosed
        empty = np.zeros(0, dtype=np.int64)
        columns = {name: np.concatenate([empty, *(part[name] for part in self._parts)]) for name in COLUMNS}
        return Rows(
            **columns,
            names=tuple("" if name is None else str(name) for name in self._names),
            shapes=tuple(map(_canonical, list(self._shapes)[1:])),
            dtypes=tuple(map(_canonical, list(self._dtypes)[1:])),
            lanes=tuple(map(self._lane, self._lanes)),
            comms=self._comms,
        )

    def _told_kind(self, event: Event, pseudo: int) -> int:
        """Kind of an event whose category does not settle it, negative where it is left out."""
        if pseudo == _BARE_CALL and event.args is not None:
            return int(EventKind.RUNTIME)
        if pseudo == _BARE_CALL:  # torch_npu draws one where a kernel begins, for the arrow to it
            self.skipped["stand-ins for launches, at the time of their kernels"] += 1
            return _SKIPPED
        if pseudo == _PYTHON and self._keep_modules and str(event.name).startswith(MODULE_PREFIX):
            return int(EventKind.MODULE)
        if pseudo != _UNTOLD:
            self.skipped[SKIPPED_CATEGORIES[str(event.cat).lower()]] += 1
            return _SKIPPED
        kind = kind_without_category(event)
        if kind != EventKind.OTHER:
            self.inferred["kinds of events without a category"] += 1
        return int(kind)

    def _note(self, phases: Counter[str], batch: Sequence[Event]) -> None:
        """Count the records that are not ops; keep the names of threads."""
        for phase, count in phases.items():
            if phase not in _OPS:
                self.skipped[SKIPPED_PHASES.get(phase, "records of unknown phase")] += count
        if "M" not in phases:
            return
        for event in batch:
            if event.ph == "M" and event.name == "thread_name" and event.args is not None:
                self._labels[str(event.pid), str(event.tid)] = str(event.args.name or "")

    def _whole(self, event: Event) -> Event | None:
        """A complete event, given as one or closed by this end."""
        if event.ph == "B":
            self._open.setdefault((event.pid, event.tid), []).append(event)
        elif event.ph == "E":
            return self._closed(event)
        return event if event.ph == "X" else None

    def _closed(self, end: Event) -> Event | None:
        stack = self._open.get((end.pid, end.tid))
        if not stack:
            self.dropped["ends without a begin"] += 1
            return None
        begin = stack.pop()
        times, valid = us_to_ns([begin.ts, end.ts])
        if valid.all():
            begin.dur = msgspec.Raw(ns_text(int(times[1] - times[0])))
        return begin

    def _add_rows(self, whole: Sequence[Event], kind: Int64) -> None:
        args = [event.args or _NO_ARGS for event in whole]
        part = self._columns(whole, args, kind)
        part["start_ns"], start_ok = us_to_ns([event.ts for event in whole])
        part["dur_ns"], dur_ok = us_to_ns([event.dur for event in whole])
        usable = start_ok & dur_ok
        if not usable.all():
            self._count_untimed(start_ok, dur_ok)
            part = {name: column[usable] for name, column in part.items()}
        self._parts.append(part)
        infos = _comm_infos(whole, args)
        if infos:
            position = np.cumsum(usable) - 1 + self._count
            self._comms.update({int(position[at]): info for at, info in infos.items() if usable[at]})
        self._count += int(usable.sum())

    def _count_untimed(self, start_ok: Bool, dur_ok: Bool) -> None:
        for reason, bad in (("no usable timestamp", ~start_ok), ("no usable duration", start_ok & ~dur_ok)):
            if bad.any():
                self.dropped[reason] += int(bad.sum())

    def _columns(self, whole: Sequence[Event], args: Sequence[Args], kind: Int64) -> dict[str, Int64]:
        """Columns of a batch; args are read only from the kinds of events that have them."""
        on_device, calls = _ON_DEVICE[kind], _CALLS[kind]
        columns = {"kind": kind, "name": self._names.of(list(map(_NAME, whole)))}
        columns["external_id"] = integers([a.external_id for a in args])
        if (columns["external_id"] == MISSING).any():  # spelt "external id" before PyTorch 1.12
            old = integers([a.external_id_old for a in args])
            columns["external_id"] = np.maximum(columns["external_id"], old)
        for rows, wanted in ((~calls, _HOST_ARGS), (calls, _CALL_ARGS), (on_device, _DEVICE_ARGS)):
            own = list(compress(args, rows.tolist()))
            for name, read in wanted.items():
                columns[name] = _spread(rows, integers(list(map(read, own))))
        host = list(compress(args, (~calls).tolist()))
        columns["shape"] = _spread(~calls, self._shapes.of([bytes(a.dims or a.dims_old) for a in host]) - 1)
        columns["dtype"] = _spread(~calls, self._dtypes.of([bytes(a.dtypes) for a in host]) - 1)
        columns["stream"][columns["stream"] == NO_STREAM] = MISSING
        columns["lane"] = self._lane_codes(whole, args, kind, columns["stream"])
        return columns

    def _lane_codes(self, whole: Sequence[Event], args: Sequence[Args], kind: Int64, stream: Int64) -> Int64:
        """Lane of every row; fills ``stream`` of device rows that name it only by their track.

        A sync row is on the stream of its args: since 2026 its track is moved aside.
        """
        on_device = _ON_DEVICE[kind]
        lanes = np.empty(len(whole), dtype=np.int64)
        threads = list(compress(whole, (~on_device).tolist()))
        lanes[~on_device] = self._lanes.of(list(map(_TRACK, threads)))
        rows = np.flatnonzero(on_device)
        own = list(compress(args, on_device.tolist()))
        device = integers([a.device for a in own])
        unstreamed = np.array([a.stream == MISSING for a in own], dtype=np.bool_) & (kind[rows] != EventKind.SYNC)
        for at in np.flatnonzero(unstreamed).tolist():
            stream[rows[at]] = integer(whole[rows[at]].tid)
        for at in np.flatnonzero(device == MISSING).tolist():
            device[at] = integer(whole[rows[at]].pid)
        lanes[rows] = self._lanes.of([(None, *key) for key in zip(device.tolist(), stream[rows].tolist(), strict=True)])
        return lanes

    def _lane(self, key: _Thread | _Stream) -> Lane:
        if len(key) == 3:
            _, device, stream = key
            label = f"stream {stream}" if stream != MISSING else f"device {device}"
            return Lane(MISSING, True, label, device, stream)
        pid, tid = str(key[0]), str(key[1])
        return Lane(MISSING, False, self._labels.get((pid, tid), "") or f"thread {tid}", pid=pid, tid=tid)


def _comm_infos(whole: Sequence[Event], args: Sequence[Args]) -> dict[int, CommInfo]:
    """Communication metadata of the events of a batch that have some: their "Collective name", or a c10d peer."""
    infos = {at: c10d_pair(event) for at, event in enumerate(whole) if event.name in C10D_PAIRS}
    if CommArgs in set(map(type, args)):
        described = [(at, a) for at, a in enumerate(args) if isinstance(a, CommArgs) and a.collective is not None]
        infos |= {at: comm_info(a) for at, a in described}
    return infos


def _spread(rows: Bool, values: Int64) -> Int64:
    """A column with ``values`` at ``rows`` and nothing elsewhere."""
    column = np.full(len(rows), MISSING, dtype=np.int64)
    column[rows] = values
    return column


def _category_kind(category: Scalar) -> int:
    if category is None or category == "":
        return _UNTOLD
    word = str(category).lower()
    if word in _PSEUDO_KINDS:
        return _PSEUDO_KINDS[word]
    return _SKIPPED if word in SKIPPED_CATEGORIES else int(KIND_OF_CATEGORY.get(word, EventKind.OTHER))


def _canonical(text: bytes) -> str:
    """JSON text without spaces; a string that holds JSON is unwrapped. The decoder leaves raw text unchecked."""
    checked = text.decode("utf-8", "replace")
    try:
        value = msgspec.json.decode(checked)
    except msgspec.DecodeError:
        return checked
    return "".join(value.split()) if isinstance(value, str) else msgspec.json.encode(value).decode()
