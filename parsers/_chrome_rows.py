"""Chrome events of one file to :class:`parsers._rows.Rows`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from parsers._categories import KIND_OF_CATEGORY, MODULE_PREFIX, NO_STREAM, SKIPPED_CATEGORIES, SKIPPED_PHASES
from parsers._chrome_events import Args, Event, Scalar
from parsers._comm_info import comm_info
from parsers._numbers import us_to_ns
from parsers._rows import COLUMNS, CommInfo, Rows
from replay.core.columns import Bool, Int64
from replay.trace import MISSING, EventKind, Lane

_NO_ARGS = Args()
_ON_DEVICE = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET, EventKind.SYNC, EventKind.DEVICE_ANNOTATION)
_SKIP, _PYTHON = -1, -2
_PYTHON_CATEGORY = "python_function"
LONGEST_NS = 1 << 53  # 104 days; a longer duration is an end time that was never written


class ChromeRows:
    """Collects batches of events; :meth:`finish` gives the rows. Counts what it leaves out."""

    def __init__(self, rank: int, *, keep_modules: bool = True) -> None:
        self._rank = rank
        self._keep_modules = keep_modules
        self.dropped: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.clipped: Counter[str] = Counter()
        self._kinds: dict[Scalar, int] = {}
        self._names: dict[str, int] = {}
        self._shapes: dict[bytes, int] = {}
        self._dtypes: dict[bytes, int] = {}
        self._lanes: dict[tuple[bool, Scalar, Scalar], int] = {}
        self._labels: dict[tuple[str, str], str] = {}
        self._open: dict[tuple[Scalar, Scalar], list[Event]] = {}
        self._pairs: list[Event] = []
        self._comms: dict[int, CommInfo] = {}
        self._count = 0
        self._parts: list[dict[str, Int64]] = []

    def add(self, batch: Iterable[Event]) -> None:
        """Take the events of one piece."""
        complete: list[Event] = []
        kinds: list[int] = []
        for event in batch:
            if event.ph == "X":
                kind = self._kind_of(event)
                if kind >= 0:
                    complete.append(event)
                    kinds.append(kind)
            else:
                self._add_incomplete(event)
        if complete:
            self._add_complete(complete, np.array(kinds, dtype=np.int64))

    def finish(self) -> Rows:
        """All rows, with unusable ones dropped and counted."""
        self.dropped["begin without end"] += sum(map(len, self._open.values()))
        if self._pairs:
            self.add(self._pairs)
        columns = {
            name: np.concatenate([part[name] for part in self._parts]) if self._parts else np.zeros(0, dtype=np.int64)
            for name in COLUMNS
        }
        self.dropped += Counter()
        lanes = tuple(self._lane(*key) for key in self._lanes)
        return Rows(
            **columns,
            names=tuple(self._names),
            shapes=tuple(map(_canonical, self._shapes)),
            dtypes=tuple(map(_canonical, self._dtypes)),
            lanes=lanes,
            comms=self._comms,
        )

    def _kind_of(self, event: Event) -> int:
        kind = self._kinds.get(event.cat)
        if kind is None:
            category = str(event.cat or "").lower()
            if category == _PYTHON_CATEGORY:
                kind = _PYTHON
            elif category in SKIPPED_CATEGORIES:
                kind = _SKIP
            else:
                kind = int(KIND_OF_CATEGORY.get(category, EventKind.OTHER))
            self._kinds[event.cat] = kind
        if kind == _PYTHON and self._keep_modules and str(event.name).startswith(MODULE_PREFIX):
            return int(EventKind.MODULE)
        if kind < 0:
            self.skipped[SKIPPED_CATEGORIES[str(event.cat).lower()]] += 1
        return kind

    def _add_incomplete(self, event: Event) -> None:
        if event.ph == "B":
            self._open.setdefault((event.pid, event.tid), []).append(event)
        elif event.ph == "E":
            self._close(event)
        elif event.ph == "M":
            self.skipped[SKIPPED_PHASES["M"]] += 1
            if event.name == "thread_name" and event.args is not None:
                self._labels[str(event.pid), str(event.tid)] = str(event.args.name or "")
        else:
            self.skipped[SKIPPED_PHASES.get(event.ph, "records of unknown phase")] += 1

    def _close(self, end: Event) -> None:
        stack = self._open.get((end.pid, end.tid))
        if not stack:
            self.dropped["end without begin"] += 1
            return
        begin = stack.pop()
        (first, last), (first_ok, last_ok) = us_to_ns([begin.ts, end.ts])
        if not (first_ok and last_ok):
            self.dropped["no usable timestamp"] += 1
            return
        begin.ph = "X"
        begin.dur = msgspec.Raw(ns_text(int(last) - int(first)))
        self._pairs.append(begin)

    def _add_complete(self, complete: list[Event], kind: Int64) -> None:
        args = [event.args or _NO_ARGS for event in complete]
        start, start_ok = us_to_ns([event.ts for event in complete])
        dur, dur_ok = us_to_ns([event.dur for event in complete])
        usable = self._usable(kind, start, dur, start_ok, dur_ok)
        part = self._columns(complete, args, kind)
        part["start_ns"], part["dur_ns"] = start, dur
        self._parts.append({name: column[usable] for name, column in part.items()})
        position = np.cumsum(usable) - 1 + self._count
        for at, a in enumerate(args):
            if a.collective is not None and usable[at]:
                self._comms[int(position[at])] = comm_info(a)
        self._count += int(usable.sum())

    def _usable(self, kind: Int64, start: Int64, dur: Int64, start_ok: Bool, dur_ok: Bool) -> Bool:
        unstamped = start_ok & (start == 0) & (dur == 0) & np.isin(kind, _ON_DEVICE)
        too_long = dur_ok & (dur > LONGEST_NS)
        self.dropped["no usable timestamp"] += int((~start_ok).sum())
        self.dropped["no usable duration"] += int((start_ok & ~dur_ok).sum())
        self.dropped["device work without times (ts 0, dur 0)"] += int(unstamped.sum())
        self.dropped["duration of more than 104 days"] += int((start_ok & too_long).sum())
        return start_ok & dur_ok & ~unstamped & ~too_long

    def _columns(self, complete: Sequence[Event], args: Sequence[Args], kind: Int64) -> dict[str, Int64]:
        names, shapes, dtypes = self._names, self._shapes, self._dtypes
        external = _integers([a.external_id for a in args])
        if (external == MISSING).any():
            external = np.maximum(external, _integers([a.external_id_old for a in args]))
        stream = _integers([a.stream for a in args])
        stream[np.isin(stream, list(NO_STREAM))] = MISSING
        return {
            "kind": kind,
            "name": np.array([names.setdefault(str(e.name), len(names)) for e in complete], dtype=np.int64),
            "lane": self._lane_codes(complete, args, kind, stream),
            "correlation": _integers([a.correlation for a in args]),
            "external_id": external,
            "sequence": _integers([a.sequence for a in args]),
            "stream": stream,
            "wait_on_record": _integers([a.wait_on_record for a in args]),
            "wait_on_stream": _integers([a.wait_on_stream for a in args]),
            "nbytes": _integers([a.bytes for a in args]),
            "graph_node": _integers([a.graph_node for a in args]),
            "shape": _raw_codes([a.dims or a.dims_old for a in args], shapes),
            "dtype": _raw_codes([a.dtypes for a in args], dtypes),
        }

    def _lane_codes(self, complete: Sequence[Event], args: Sequence[Args], kind: Int64, stream: Int64) -> Int64:
        """Lane of every row; fills ``stream`` of device rows that name it only by their track."""
        lanes = self._lanes
        codes: list[int] = []
        on_device = np.isin(kind, _ON_DEVICE).tolist()
        for at, (event, device_row) in enumerate(zip(complete, on_device, strict=True)):
            if device_row:
                a = args[at]
                if stream[at] == MISSING and a.stream == MISSING and kind[at] != EventKind.SYNC:
                    stream[at] = integer(event.tid)
                device = a.device if a.device != MISSING else a.to_device if a.to_device != MISSING else event.pid
                key: tuple[bool, Scalar, Scalar] = (True, integer(device), int(stream[at]))
            else:
                key = (False, event.pid, event.tid)
            codes.append(lanes.setdefault(key, len(lanes)))
        return np.array(codes, dtype=np.int64)

    def _lane(self, is_device: bool, first: Scalar, second: Scalar) -> Lane:
        if is_device:
            device, stream = integer(first), integer(second)
            label = f"stream {stream}" if stream != MISSING else f"device {device}"
            return Lane(self._rank, True, label, device, stream)
        pid, tid = str(first), str(second)
        label = self._labels.get((pid, tid), "") or f"thread {tid}"
        return Lane(self._rank, False, label, pid=pid, tid=tid)


def ns_text(ns: int) -> bytes:
    """Nanoseconds as exact decimal microseconds."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}".encode()


def integer(value: Scalar) -> int:
    """A JSON scalar as int64, ``MISSING`` where it is none."""
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return MISSING
    if value is None or isinstance(value, bool) or value != value or not -(2**63) <= value < 2**63:
        return MISSING
    return int(value)


def _integers(values: Sequence[Scalar]) -> Int64:
    try:
        column = np.array(values)
    except (ValueError, OverflowError):
        column = np.zeros(0)
    if column.dtype == np.int64 and column.shape == (len(values),):
        return column
    return np.array([integer(value) for value in values], dtype=np.int64)


def _raw_codes(values: Sequence[msgspec.Raw], table: dict[bytes, int]) -> Int64:
    return np.array([table.setdefault(bytes(v), len(table)) if v else MISSING for v in values], dtype=np.int64)


def _canonical(text: bytes) -> str:
    """JSON text without spaces; a string that holds JSON is unwrapped."""
    value = msgspec.json.decode(text)
    if isinstance(value, str):
        return "".join(value.split())
    return msgspec.json.encode(value).decode()
