"""Perfetto traces (``.pftrace``), read with Perfetto's own trace processor: SQL rows to the columns of Kineto events.

Slices carry the args of the tool that wrote them, under ``args.`` (imported JSON) or ``debug.`` (track events). What
the trace processor itself had to drop is in its ``stats`` table and is counted here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from parsers._chrome_events import CommArgs, decode_run
from parsers._chrome_header import Header
from parsers._chrome_rows import ChromeRows
from parsers._combine import FileContent, combine
from parsers._numbers import ns_text
from parsers.source import SourceFile
from replay.core.errors import TraceError
from replay.trace import Health, Trace

if TYPE_CHECKING:
    from parsers import ReadOptions

FORMAT = "perfetto"
BATCH_ROWS = 10_000
_PACKET_TAG = 0x0A  # field 1, length-delimited: a trace is a run of these
_BINARY = re.compile(rb"[\x00-\x08]")  # small numbers fill a trace; a text that begins with an empty line has none
_ARG_NAMES = tuple(field.encode_name for field in msgspec.structs.fields(CommArgs))
_ARG_PREFIX = re.compile(r"^(?:args|debug)\.")
_INDEX = re.compile(r"\[(\d+)\]")

SLICES = """
SELECT slice.ts, slice.dur, slice.name, slice.category, slice.arg_set_id, thread.tid, process.pid
FROM slice
LEFT JOIN thread_track ON slice.track_id = thread_track.id
LEFT JOIN thread ON thread_track.utid = thread.utid
LEFT JOIN process ON thread.upid = process.upid
ORDER BY slice.id
"""
THREADS = """
SELECT thread.tid, thread.name, process.pid
FROM thread LEFT JOIN process ON thread.upid = process.upid
WHERE thread.name IS NOT NULL
"""
ARGS = """
SELECT arg_set_id, key, coalesce(int_value, real_value, string_value) AS value
FROM args
WHERE flat_key IN ({keys})
ORDER BY arg_set_id
""".format(keys=", ".join(f"'{prefix}.{name}'" for prefix in ("args", "debug") for name in _ARG_NAMES))
LOSSES = "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"


class Database(Protocol):
    """What is asked of a trace processor."""

    def query(self, sql: str) -> Iterable[Any]:
        """Rows with the selected columns as attributes."""


def sniff(head: bytes, path: Path) -> bool:
    """True for a run of at least two length-delimited packets, or one with the suffix of a Perfetto trace."""
    second = _next_packet(head, 0)
    if second is None or not _BINARY.search(head):
        return False
    if second >= len(head):
        return path.name.removesuffix(".gz").endswith((".pftrace", ".perfetto-trace"))
    return _next_packet(head, second) is not None


def _next_packet(head: bytes, at: int) -> int | None:
    """Offset behind the packet at ``at``, ``None`` where there is none."""
    if at >= len(head) or head[at] != _PACKET_TAG:
        return None
    size = shift = 0
    for position in range(at + 1, min(at + 6, len(head))):
        size |= (head[position] & 0x7F) << shift
        shift += 7
        if head[position] < 0x80:
            return position + 1 + size if size else None
    return None


def read(files: Sequence[SourceFile], options: ReadOptions) -> Trace:
    """All files as one trace, one rank each.

    Raises :class:`TraceError` where the trace processor is missing, refuses a file, or finds no slice in it.
    """
    contents = []
    for file in files:
        with _opened(file, options.trace_processor) as database:
            contents.append(read_database(database, file.name, keep_modules=options.keep_modules))
    return combine(contents, FORMAT)


def read_database(database: Database, name: str, *, keep_modules: bool = True) -> FileContent:
    """Rows of one loaded trace."""
    args = _args_by_set(database.query(ARGS))
    collected = ChromeRows(keep_modules=keep_modules)
    seen = 0
    rows = (_slice_event(row, args) for row in database.query(SLICES))
    threads = (_thread_event(row) for row in database.query(THREADS))
    while batch := list(islice(rows, BATCH_ROWS)):
        seen += len(batch)
        collected.add(decode_run(msgspec.json.encode(batch)[1:-1]))
    collected.add(decode_run(msgspec.json.encode(list(threads))[1:-1]))
    content = collected.finish()
    if not len(content):
        raise TraceError(f"{name}: {seen} slices, none of which has a time and a duration")
    lost = {f"trace processor: {row.name}": int(row.value) for row in database.query(LOSSES)}
    health = Health(
        events=seen,
        dropped={**collected.dropped, **lost},
        skipped=dict(collected.skipped),
        inferred=dict(collected.inferred),
    )
    return FileContent(name, content, Header(), health)


def _slice_event(row: Any, args: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """A slice as a complete Chrome event; an unfinished one (duration -1) has no duration."""
    event = {"ph": "X", "name": row.name, "cat": row.category, "pid": row.pid, "tid": row.tid}
    event["ts"] = ns_text(row.ts).decode()
    if row.dur >= 0:
        event["dur"] = ns_text(row.dur).decode()
    if row.arg_set_id is not None and row.arg_set_id in args:
        event["args"] = args[row.arg_set_id]
    return event


def _thread_event(row: Any) -> dict[str, Any]:
    return {"ph": "M", "name": "thread_name", "pid": row.pid, "tid": row.tid, "args": {"name": row.name}}


def _args_by_set(rows: Iterable[Any]) -> dict[int, dict[str, Any]]:
    """Args of every set, lists put together again from keys like ``args.Input Dims[0][1]``."""
    sets: dict[int, dict[str, Any]] = {}
    for row in rows:
        name = _ARG_PREFIX.sub("", row.key)
        first = name.find("[")
        place = [int(index) for index in _INDEX.findall(name)] if first >= 0 else []
        _put(sets.setdefault(row.arg_set_id, {}), name[:first] if place else name, place, row.value)
    return sets


def _put(args: dict[str, Any], name: str, place: Sequence[int], value: Any) -> None:
    if not place:
        args[name] = value
        return
    at = args.setdefault(name, [])
    for index in place[:-1]:
        at.extend([] for _ in range(index + 1 - len(at)))
        at = at[index]
    at.extend([] for _ in range(place[-1] + 1 - len(at)))
    at[place[-1]] = value


@contextmanager
def _opened(file: SourceFile, binary: str | None) -> Iterator[Database]:
    """The file loaded into a trace processor of its own."""
    from perfetto.common.exceptions import PerfettoException  # noqa: PLC0415 - slow to import, seldom needed
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig  # noqa: PLC0415

    config = TraceProcessorConfig(bin_path=_binary(binary), load_timeout=60)
    try:
        with redirect_stdout(sys.stderr):  # the package announces its download
            processor = TraceProcessor(trace=file.blocks(), config=config)
    except PerfettoException as error:
        raise TraceError(f"{file.name}: Perfetto's trace processor refuses it ({str(error).strip()})") from error
    except EOFError as error:
        raise TraceError(f"{file.name}: the compressed file is cut short or damaged ({error})") from error
    except (OSError, subprocess.CalledProcessError) as error:
        raise TraceError(
            f"{file.name}: reading a Perfetto trace needs trace_processor_shell, which is not here and could not be "
            "fetched; put https://get.perfetto.dev/trace_processor on the PATH or name it with --trace-processor"
        ) from error
    with processor:
        yield processor


def _binary(given: str | None) -> str | None:
    """The trace processor to run: as given, else from the PATH, else the one the package fetches (``None``)."""
    if given is not None and not Path(given).is_file():
        raise TraceError(f"{given}: no such trace processor")
    return given or shutil.which("trace_processor_shell") or shutil.which("trace_processor")
