"""Kernels of expert dispatchers, and sizes that a trace's name spells."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.trace import CollectiveKind
from tests.parsers.chrome import call, kernel, read, text


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("void dpsk::ep::internode::notify_dispatch<false, 8>(int const*)", CollectiveKind.NOTIFY),
        ("void deep_ep::internode::cached_notify<false>(int)", CollectiveKind.NOTIFY),
        ("void deep_ep::internode::dispatch<false, 8, true, 8>(int4*)", CollectiveKind.DISPATCH),
        ("void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(int4*)", CollectiveKind.COMBINE),
    ],
)
def test_the_first_word_after_the_namespaces_tells(tmp_path: Path, name: str, kind: CollectiveKind) -> None:
    trace = read(tmp_path, text([call("cudaLaunchKernel", 10, 1), kernel(name, 20, 1)]))
    assert trace.collectives.kind.tolist() == [kind]


def test_a_layout_kernel_only_counts(tmp_path: Path) -> None:
    name = "void deep_ep::get_dispatch_layout<256, 32, 8>(long const*)"
    assert len(read(tmp_path, text([call("cudaLaunchKernel", 10, 1), kernel(name, 20, 1)])).collectives) == 0


def test_only_sizes_are_kept_of_a_trace_name(tmp_path: Path) -> None:
    content = text([call("cudaLaunchKernel", 10, 1), kernel("gemm", 20, 1)])
    named = content.replace(
        b'"traceName": "t.json"', b'"traceName": "/home/me/prof_ep64_tp1_hidden7168_seqlen4096.json"'
    )
    assert read(tmp_path, named).metadata["trace_name"] == "ep64 tp1 hidden7168 seqlen4096"


def test_a_trace_name_without_sizes_is_not_kept(tmp_path: Path) -> None:
    content = text([call("cudaLaunchKernel", 10, 1), kernel("gemm", 20, 1)])
    assert "trace_name" not in read(tmp_path, content).metadata
