"""Damaged and odd files: what is usable is used, what is not is counted by reason."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from replay.core.errors import TraceError
from replay.trace import EventKind
from tests.parsers.chrome import kernel, names, read, span, text

GOOD = json.dumps(span("after", 2000))


def event(name: str = '"op"', tail: str = '"ts": 1, "dur": 2') -> str:
    """One event as raw text, to be broken."""
    return f'{{"ph": "X", "cat": "cpu_op", "name": {name}, "pid": 1, "tid": 1, {tail}}}'


def with_args(args: str) -> str:
    """One event with such args."""
    return event(tail=f'"ts": 1, "dur": 2, "args": {args}')


REPAIRED = {
    "inf bandwidth": (with_args('{"memory bandwidth (GB/s)": inf}'), "non-finite numbers taken as missing"),
    "NaN": (with_args('{"x": NaN, "y": -Infinity}'), "non-finite numbers taken as missing"),
    "1e999": (with_args('{"bytes": 1e999}'), "out-of-range numbers taken as missing"),
    "quotes in a name": (event('"torch/x.py(3): "fn" of "m""'), "stray quotes escaped"),
    "one quote in a name": (event('"5" disk"'), "stray quotes escaped"),
    "quotes and a comma": (event('"f("a", b)"'), "stray quotes escaped"),
    "control character": (event('"a\x01b"'), "control characters removed"),
    "newline in a name": (event('"a\nb"'), "control characters removed"),
    "bad escape": (event(r'"C:\dir\x"'), "bad escapes escaped"),
    "trailing comma": (with_args('{"a": 1,}'), "trailing commas removed"),
    "missing comma": (event(tail='"ts": 1 "dur": 2'), "missing commas added"),
    "list where a number belongs": (with_args('{"stream": [7]}'), "fields of unexpected type left out"),
    "args is a string": (with_args('"none"'), "fields of unexpected type left out"),
}


@pytest.mark.parametrize("what", REPAIRED)
def test_damaged_event_is_repaired_and_counted(tmp_path: Path, what: str) -> None:
    """The event and its neighbours are all there."""
    damaged, reason = REPAIRED[what]
    trace = read(tmp_path, text([span("before", 0), damaged, GOOD]))
    assert len(trace) == 3
    assert trace.health.clipped == {reason: 1}
    assert trace.health.dropped == {}
    assert trace.health.events == 3


def test_braces_in_a_name_cut_no_event_beside_a_damaged_one(tmp_path: Path) -> None:
    """The boundary inside its nested objects is not the end of the event, whatever its name holds."""
    whole = kernel("f<}}>", 1000, 5, occupancy=[{"a": 1}, {"b": 2}])
    trace = read(tmp_path, text([event().removesuffix("}"), whole, GOOD]))
    assert names(trace) == ["f<}}>", "after"]
    assert trace.health.dropped == {"damaged event": 1}


DROPPED = {
    "no timestamp": (event(tail='"dur": 2'), "no usable timestamp"),
    "word as timestamp": (event(tail='"ts": "soon", "dur": 2'), "no usable timestamp"),
    "nested 100,000 deep": (with_args('{"x": ' + "[" * 10**5 + "]" * 10**5 + "}"), "damaged event"),
    "20-digit timestamp": (event(tail='"ts": 12345678901234567890, "dur": 2'), "no usable timestamp"),
    "no duration": (event(tail='"ts": 1'), "no usable duration"),
    "NaN duration": (event(tail='"ts": 1, "dur": NaN'), "no usable duration"),
    "null duration": (event(tail='"ts": 1, "dur": null'), "no usable duration"),
    "lost end": (event(tail='"ts": 1000, "dur": -5000'), "ends before the file begins (end time lost)"),
    "wrapped end": (event(tail='"ts": 1000, "dur": 9223372036854775'), "longer than 104 days (end time lost)"),
    "lost brace": (event().removesuffix("}"), "damaged event"),
    "half an event": (event()[:40] + "}", "damaged event"),
    "end without begin": ('{"ph": "E", "pid": 1, "tid": 1, "ts": 5}', "ends without a begin"),
    "begin without end": ('{"ph": "B", "name": "b", "pid": 1, "tid": 1, "ts": 5}', "begins without an end"),
    "unstamped kernel": (json.dumps(kernel("k", 0, 3, 0)), "device work without times (ts 0, dur 0)"),
}


@pytest.mark.parametrize("what", DROPPED)
def test_unusable_event_is_dropped_with_its_reason(tmp_path: Path, what: str) -> None:
    """Its neighbours stay."""
    damaged, reason = DROPPED[what]
    trace = read(tmp_path, text([span("before", 0), damaged, GOOD]))
    assert names(trace) == ["before", "after"]
    assert trace.health.dropped == {reason: 1}
    assert trace.health.events == 3


def test_small_negative_duration_is_set_to_zero(tmp_path: Path) -> None:
    """It is rounding, not a lost end."""
    trace = read(tmp_path, text([span("first", 0), span("op", 500, -26.94)]))
    assert trace.dur_ns.tolist() == [5000, 0]
    assert trace.health.clipped == {"negative durations set to 0": 1}


def test_invalid_utf8_is_replaced(tmp_path: Path) -> None:
    """One bad byte in a name does not cost the event."""
    trace = read(tmp_path, text([span("before"), span("caf@", 1500)]).replace(b"@", b"\xe9"))
    assert names(trace) == ["before", "caf�"]
    assert trace.health.clipped == {"invalid UTF-8 replaced": 1}


def test_invalid_utf8_in_shapes_is_replaced(tmp_path: Path) -> None:
    """Args that are interned as text are not checked by the decoder."""
    trace = read(tmp_path, text([span("a", args={"Input type": ["fl@"]})]).replace(b"@", b"\xe9"))
    assert trace.dtypes == ('["fl\ufffd"]',)


def test_integers_beyond_int64_are_missing_not_fatal(tmp_path: Path) -> None:
    """Comms Id is a hash up to 2^64-1; a correlation of that size joins nothing."""
    trace = read(tmp_path, text([kernel("k", 1000, 2**70, **{"Comms Id": 2**64 - 1})]))
    assert trace.correlation.tolist() == [-1]


def test_missing_comma_between_events(tmp_path: Path) -> None:
    """Both events are read."""
    content = text([span("a"), span("b", 1100)]).replace(b"},\n{", b"}\n{")
    trace = read(tmp_path, content)
    assert names(trace) == ["a", "b"]
    assert trace.health.clipped == {"missing commas added": 1}


def test_trailing_comma_after_the_last_event(tmp_path: Path) -> None:
    """The list ends all the same."""
    trace = read(tmp_path, text([span("a"), span("b", 1100)]).replace(b"}\n],", b"},\n],"))
    assert names(trace) == ["a", "b"]
    assert trace.health.warnings == ()


def test_nested_objects_in_args_do_not_end_an_event(tmp_path: Path) -> None:
    """A list of objects looks like a row of events to a fast splitter."""
    nested = kernel("k", 1000, 3, occupancy=[{"a": 1}, {"b": {"c": 2}}, {"d": 3}])
    trace = read(tmp_path, text([nested, span("op", 2000)]))
    assert names(trace) == ["k", "op"]
    assert trace.health.dropped == {}


@pytest.mark.parametrize("keep", [3, 10, 40])
def test_file_cut_short_keeps_the_complete_events(tmp_path: Path, keep: int) -> None:
    """A crash of the writer: the event being written is lost, and a warning says so."""
    whole = text([span("a"), span("b", 1100), span("c", 1200)])
    at = whole.index(b'"c"') + keep
    trace = read(tmp_path, whole[:at])
    assert names(trace) == ["a", "b"]
    assert trace.health.dropped == {"cut off in the middle of an event": 1}
    assert trace.health.warnings == ("trace.json ends in the middle; the events before are used",)


def test_cut_gzip_keeps_what_can_be_decompressed(tmp_path: Path) -> None:
    """The same for a compressed file."""
    whole = gzip.compress(text([span(f"op{i}", 1000 + 17 * i**2) for i in range(5000)]))
    trace = read(tmp_path, whole[: len(whole) // 2], "trace.json.gz")
    assert 1000 < len(trace) < 5000
    assert trace.health.warnings == ("trace.json.gz ends in the middle; the events before are used",)


def test_plain_file_named_gz_and_gzip_named_json(tmp_path: Path) -> None:
    """The content decides, not the name."""
    assert names(read(tmp_path, text([span("a")]), "trace.json.gz")) == ["a"]
    assert names(read(tmp_path, gzip.compress(text([span("a")])), "trace.json")) == ["a"]


def test_bare_list_of_events(tmp_path: Path) -> None:
    """Chrome allows a list without an object, and its end may be missing."""
    content = json.dumps([span("a"), span("b", 1100)]).encode()
    assert names(read(tmp_path, content)) == ["a", "b"]
    open_ended = read(tmp_path, content.removesuffix(b"]") + b",")
    assert names(open_ended) == ["a", "b"]
    assert open_ended.health.warnings == ()


def test_metadata_without_timestamp_and_string_pids(tmp_path: Path) -> None:
    """Rows of viewers and spans pass by."""
    rows = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "thread 1 (main)"}},
        span("PyTorch Profiler (0)", cat="Trace", pid="Spans", tid="PyTorch Profiler"),
        {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 3},
        span("a"),
    ]
    trace = read(tmp_path, text(rows))
    assert [lane.label for lane in trace.lanes] == ["thread 1 (main)"]
    assert trace.health.skipped == {"metadata records": 1, "profiler spans": 1, "instant events": 1}


def test_flows_counters_and_async_events_are_skipped_with_counts(tmp_path: Path) -> None:
    """They are not ops."""
    others = [{"ph": ph, "name": "n", "pid": 1, "tid": 1, "ts": 1, "id": 3} for ph in "sfCbe?"]
    trace = read(tmp_path, text([span("a"), *others]))
    assert trace.health.skipped == {
        "flow arrows": 2,
        "counters": 1,
        "async spans": 2,
        "records of unknown phase": 1,
    }
    assert trace.health.events == 7


def test_begin_and_end_are_paired_per_thread(tmp_path: Path) -> None:
    """Nested begins close in reverse order."""
    rows = [
        {"ph": "B", "cat": "cpu_op", "name": "outer", "pid": 1, "tid": 1, "ts": 10},
        {"ph": "B", "cat": "cpu_op", "name": "inner", "pid": 1, "tid": 1, "ts": 12.5},
        {"ph": "B", "cat": "cpu_op", "name": "elsewhere", "pid": 1, "tid": 2, "ts": 13},
        {"ph": "E", "pid": 1, "tid": 1, "ts": 13.001},
        {"ph": "E", "pid": 1, "tid": 1, "ts": 20},
        {"ph": "E", "pid": 1, "tid": 2, "ts": 21},
    ]
    trace = read(tmp_path, text(rows))
    assert names(trace) == ["outer", "inner", "elsewhere"]
    assert trace.dur_ns.tolist() == [10_000, 501, 8_000]


def test_unescaped_log_lines_do_not_hide_the_header(tmp_path: Path) -> None:
    """Builds of 2024 pasted log lines into the object; each key is read by itself."""
    content = text([span("a")], distributedInfo={"rank": 5, "world_size": 8})
    trace = read(tmp_path, content.replace(b'"traceName"', b'"INFO": ["said "hi" \\q"], "traceName"'))
    assert (trace.ranks, trace.world_size) == ((5,), 8)


def test_shapes_as_string_and_as_list_are_one(tmp_path: Path) -> None:
    """Old profilers pasted the shapes as text."""
    rows = [
        span("a", args={"Input Dims": [[2, 3], []]}),
        span("b", 1100, args={"Input dims": "[[2, 3], []]"}),
    ]
    trace = read(tmp_path, text(rows))
    assert [trace.shapes[i] for i in trace.shape] == ["[[2,3],[]]"] * 2


def test_category_is_inferred_where_it_is_missing(tmp_path: Path) -> None:
    """A row with stream and correlation is device work, a call by its name a runtime call."""
    rows = [call | {"cat": None} for call in (kernel("gemm", 1000, 3), kernel("Memcpy DtoH", 1100, 4))]
    rows.append({**span("cudaLaunchKernel", 900), "cat": None, "args": {"correlation": 3}})
    trace = read(tmp_path, text(rows))
    assert trace.kind.tolist() == [EventKind.RUNTIME, EventKind.KERNEL, EventKind.MEMCPY]
    assert trace.health.inferred == {"kinds of events without a category": 3}


NOTHING = {
    "no events": (text([]), "0 records, none of which is an event"),
    "only metadata": (text(['{"ph": "M", "name": "process_name", "pid": 1}']), "1 records, none of which"),
    "only instants": (text(['{"ph": "i", "name": "x", "ts": 1}']), "1 records, none of which"),
    "traceEvents is an object": (b'{"schemaVersion": 1, "traceEvents": {}}', 'no "traceEvents" list'),
    "HTML": (b"<!DOCTYPE html><html></html>", "HTML or XML page"),
    "pickle": (b"\x80\x04\x95\x10\x00", "Python pickle, which is never loaded"),
    "text": (b"hello\n", "text of an unknown kind"),
    "binary": (b"\x7fELF\x00\x00", "binary file of an unknown kind"),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    "execution trace": (b'{"schema": "1.0.2-chakra", "pid": 1, "nodes": []}', "JSON, but it holds no trace events"),
    "0 bytes": (b"", "1 empty files (0 bytes)"),
}


@pytest.mark.parametrize("what", NOTHING)
def test_nothing_usable_is_one_sentence(tmp_path: Path, what: str) -> None:
    """It names the file and what was seen."""
    content, message = NOTHING[what]
    with pytest.raises(TraceError, match=r"trace\.json: ") as caught:
        read(tmp_path, content)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
