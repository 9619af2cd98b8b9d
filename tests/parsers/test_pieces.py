"""The result does not depend on where a file is cut into pieces, damaged or not."""

from __future__ import annotations

import random
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers import ReadOptions, kineto
from parsers.source import SourceFile
from replay.core.errors import TraceError
from replay.trace import Trace
from tests.parsers.chrome import call, kernel, span, text

SMALL = (
    "amd_trace_mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "cpu_only_rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "critical_path_alexnet_benchmark_result_2869224_1695835535_trace.json.gz",
    "torch_compile_triton_trace.json.gz",
    "trace_filter_sampled_rank-0.json.gz",
)
DAMAGE = ('"', "\x01", "}", "{", ",", "]", "\\", 'NaN,"', '},{"', "")


def assert_same(one: Trace, other: Trace) -> None:
    """Equal in every column, table and count."""
    for f in fields(Trace):
        a, b = getattr(one, f.name), getattr(other, f.name)
        if isinstance(a, np.ndarray):
            assert np.array_equal(a, b), f.name
        elif f.name == "collectives":
            assert a.kind.tolist() == b.kind.tolist()
            assert a.nbytes.tolist() == b.nbytes.tolist()
        else:
            assert a == b, f.name


def read_in_pieces(path: Path, size: int) -> Trace | str:
    """The trace, or the message of its refusal."""
    try:
        return kineto.read([SourceFile(path)], ReadOptions(), piece_bytes=size)
    except TraceError as error:
        return str(error)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("size", [700, 4096, 65_537])
def test_any_piece_size_gives_the_same_trace(shared_data: Path, name: str, size: int) -> None:
    """A piece of 700 bytes holds one or two events."""
    path = shared_data / "kineto" / name
    whole, pieces = read_in_pieces(path, 1 << 26), read_in_pieces(path, size)
    assert isinstance(whole, Trace)
    assert isinstance(pieces, Trace)
    assert_same(whole, pieces)


EVENTS = [
    span("aten::mm", 1000, 50, args={"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}),
    call("cudaLaunchKernel", 1010, 1),
    kernel("gemm", 1020, 1, occupancy=[{"a": 1}, {"b": 2}]),
    {"ph": "f", "id": 1, "pid": 0, "tid": 7, "ts": 1020, "cat": "ac2g", "name": "ac2g", "bp": "e"},
    {"ph": "B", "cat": "cpu_op", "name": "open", "pid": 1, "tid": 1, "ts": 1100},
    {"ph": "E", "pid": 1, "tid": 1, "ts": 1101.5},
    span("last", 1200),
]


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_damage_is_salvaged_alike_in_any_pieces(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Bytes inserted or lost anywhere: the same trace or the same refusal, never another exception."""
    content = text(EVENTS * 2, distributedInfo={"rank": 3})
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        lost = data.draw(st.integers(0, 3))
        content = content[:at] + data.draw(st.sampled_from(DAMAGE)).encode() + content[at + lost :]
    path = tmp_path_factory.mktemp("damaged") / "trace.json"
    path.write_bytes(content)
    whole, pieces = read_in_pieces(path, 1 << 20), read_in_pieces(path, data.draw(st.integers(64, 900)))
    if isinstance(whole, str) or isinstance(pieces, str):
        assert whole == pieces
    else:
        assert_same(whole, pieces)


def test_missing_comma_is_counted_wherever_the_pieces_are_cut(tmp_path: Path) -> None:
    """Also where a piece could end between the two events."""
    path = tmp_path / "trace.json"
    path.write_bytes(text([span("a", 1), span("b", 2), span("c", 3)]).replace(b"},\n{", b"}{", 1))
    for size in range(32, 400):
        trace = read_in_pieces(path, size)
        assert isinstance(trace, Trace)
        assert trace.health.clipped == {"missing commas added": 1}


def test_truncation_anywhere_gives_a_trace_or_a_trace_error(shared_data: Path, tmp_path: Path) -> None:
    """Every real file, as stored, cut at random places."""
    places = random.Random(7)
    for source in sorted((shared_data / "kineto").iterdir()):
        stored = source.read_bytes()
        if source.name.endswith(".tar.gz"):
            continue
        for _ in range(3):
            path = tmp_path / source.name
            path.write_bytes(stored[: places.randrange(len(stored))])
            read_in_pieces(path, 1 << 21)
