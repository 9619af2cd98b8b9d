"""Chrome events of one file to :class:`parsers._rows.Rows`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

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
from parsers._chrome_events import Args, Event
from parsers._comm_info import comm_info
from parsers._numbers import Scalar, integer, integers, ns_text, us_to_ns
from parsers._rows import COLUMNS, CommInfo, Rows
from replay.core.columns import Bool, Int64
from replay.trace import MISSING, EventKind, Lane

_NO_ARGS = Args()
_SKIPPED, _PYTHON, _UNTOLD = -1, -2, -3  # pseudo kinds: left out, python function, no category


class ChromeRows:
    """Collects batches of events; :meth:`finish` gives the rows. Counts what it leaves out and why."""

    def __init__(self, *, keep_modules: bool = True) -> None:
        self.dropped: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.inferred: Counter[str] = Counter()
        self._keep_modules = keep_modules
        self._kinds: dict[Scalar, int] = {}
        self._names: dict[Scalar, int] = {}
        self._shapes: dict[bytes, int] = {}
        self._dtypes: dict[bytes, int] = {}
        self._lanes: dict[tuple[bool, Scalar, Scalar], int] = {}
        self._labels: dict[tuple[str, str], str] = {}
        self._open: dict[tuple[Scalar, Scalar], list[Event]] = {}
        self._comms: dict[int, CommInfo] = {}
        self._count = 0
        self._parts: list[dict[str, Int64]] = []

    def add(self, batch: Sequence[Event]) -> None:
        """Take the events of one piece."""
        complete: list[Event] = []
        kinds: list[int] = []
        known = self._kinds
        for event in batch:
            whole = event if event.ph == "X" else self._paired_or_counted(event)
            if whole is None:
                continue
            kind = known.get(whole.cat, _UNTOLD)
            if kind < 0:
                kind = self._told_kind(whole)
            if kind >= 0:
                complete.append(whole)
                kinds.append(kind)
        if complete:
            self._add_rows(complete, np.array(kinds, dtype=np.int64))

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
            shapes=tuple(map(_canonical, self._shapes)),
            dtypes=tuple(map(_canonical, self._dtypes)),
            lanes=tuple(self._lane(*key) for key in self._lanes),
            comms=self._comms,
        )

    def _told_kind(self, event: Event) -> int:
        """Kind of an event whose category needs a look, negative where it is left out."""
        category = event.cat
        kind = self._kinds.get(category)
        if kind is None:
            kind = self._kinds[category] = _category_kind(category)
        if kind == _PYTHON and self._keep_modules and str(event.name).startswith(MODULE_PREFIX):
            return int(EventKind.MODULE)
        if kind == _UNTOLD:
            kind = int(kind_without_category(event))
            if kind != EventKind.OTHER:
                self.inferred["kinds of events without a category"] += 1
        elif kind < 0:
            self.skipped[SKIPPED_CATEGORIES[str(category).lower()]] += 1
        return kind

    def _paired_or_counted(self, event: Event) -> Event | None:
        """The whole span that an end closes; other phases are counted."""
        if event.ph == "B":
            self._open.setdefault((event.pid, event.tid), []).append(event)
        elif event.ph == "E":
            return self._closed(event)
        elif event.ph == "M":
            self.skipped[SKIPPED_PHASES["M"]] += 1
            if event.name == "thread_name" and event.args is not None:
                self._labels[str(event.pid), str(event.tid)] = str(event.args.name or "")
        else:
            self.skipped[SKIPPED_PHASES.get(event.ph, "records of unknown phase")] += 1
        return None

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

    def _add_rows(self, complete: Sequence[Event], kind: Int64) -> None:
        args = [event.args or _NO_ARGS for event in complete]
        start, start_ok = us_to_ns([event.ts for event in complete])
        dur, dur_ok = us_to_ns([event.dur for event in complete])
        usable = start_ok & dur_ok
        self._count_untimed(start_ok, dur_ok)
        part = self._columns(complete, args, kind)
        part["start_ns"], part["dur_ns"] = start, dur
        if not usable.all():
            part = {name: column[usable] for name, column in part.items()}
        self._parts.append(part)
        described = [at for at, a in enumerate(args) if a.collective is not None and usable[at]]
        if described:
            position = np.cumsum(usable) - 1 + self._count
            self._comms.update({int(position[at]): comm_info(args[at]) for at in described})
        self._count += int(usable.sum())

    def _count_untimed(self, start_ok: Bool, dur_ok: Bool) -> None:
        for reason, bad in (("no usable timestamp", ~start_ok), ("no usable duration", start_ok & ~dur_ok)):
            if bad.any():
                self.dropped[reason] += int(bad.sum())

    def _columns(self, complete: Sequence[Event], args: Sequence[Args], kind: Int64) -> dict[str, Int64]:
        names = self._names
        external = integers([a.external_id for a in args])
        if (external == MISSING).any():  # spelt "external id" before PyTorch 1.12
            external = np.maximum(external, integers([a.external_id_old for a in args]))
        stream = integers([a.stream for a in args])
        stream[np.isin(stream, NO_STREAM)] = MISSING
        return {
            "kind": kind,
            "name": np.array([names.setdefault(e.name, len(names)) for e in complete], dtype=np.int64),
            "lane": self._lane_codes(complete, args, kind, stream),
            "correlation": integers([a.correlation for a in args]),
            "external_id": external,
            "sequence": integers([a.sequence for a in args]),
            "stream": stream,
            "wait_on_record": integers([a.wait_on_record for a in args]),
            "wait_on_stream": integers([a.wait_on_stream for a in args]),
            "nbytes": integers([a.bytes for a in args]),
            "graph_node": integers([a.graph_node for a in args]),
            "shape": _codes([a.dims or a.dims_old for a in args], self._shapes),
            "dtype": _codes([a.dtypes for a in args], self._dtypes),
        }

    def _lane_codes(self, complete: Sequence[Event], args: Sequence[Args], kind: Int64, stream: Int64) -> Int64:
        """Lane of every row; fills ``stream`` of device rows that name it only by their track.

        A sync row is on the stream of its args: since 2026 its track is moved aside.
        """
        lanes = self._lanes
        codes: list[int] = []
        for at, on_device in enumerate(np.isin(kind, ON_DEVICE).tolist()):
            event = complete[at]
            key: tuple[bool, Scalar, Scalar] = (False, event.pid, event.tid)
            if on_device:
                own = args[at]
                if stream[at] == MISSING and kind[at] != EventKind.SYNC and integer(own.stream) == MISSING:
                    stream[at] = integer(event.tid)
                device = integer(own.device)
                key = (True, device if device != MISSING else integer(event.pid), int(stream[at]))
            codes.append(lanes.setdefault(key, len(lanes)))
        return np.array(codes, dtype=np.int64)

    def _lane(self, is_device: bool, first: Scalar, second: Scalar) -> Lane:
        if is_device:
            device, stream = integer(first), integer(second)
            label = f"stream {stream}" if stream != MISSING else f"device {device}"
            return Lane(MISSING, True, label, device, stream)
        pid, tid = str(first), str(second)
        label = self._labels.get((pid, tid), "") or f"thread {tid}"
        return Lane(MISSING, False, label, pid=pid, tid=tid)


def _category_kind(category: Scalar) -> int:
    if category is None or category == "":
        return _UNTOLD
    word = str(category).lower()
    if word == "python_function":
        return _PYTHON
    return _SKIPPED if word in SKIPPED_CATEGORIES else int(KIND_OF_CATEGORY.get(word, EventKind.OTHER))


def _codes(values: Sequence[msgspec.Raw], table: dict[bytes, int]) -> Int64:
    return np.array([table.setdefault(bytes(v), len(table)) if v else MISSING for v in values], dtype=np.int64)


def _canonical(text: bytes) -> str:
    """JSON text without spaces; a string that holds JSON is unwrapped."""
    value = msgspec.json.decode(text)
    return "".join(value.split()) if isinstance(value, str) else msgspec.json.encode(value).decode()
