"""Our statistics of a real profile against the tables that Ascend's own profiler wrote beside it."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path

import pytest

import parsers
from replay.report.ascend import AscendFacts, Durations, ascend_facts
from replay.trace import Trace

FOLDERS = ("rank0_ascend_pt", "rank1_ascend_pt")
Sums = dict[tuple[str, str], list[float]]  # count, total, min, max in us


@pytest.fixture(scope="module")
def folder(shared_data: Path) -> Path:
    """The profile."""
    return shared_data / "ascend" / "torch_npu_level1"


@pytest.fixture(scope="module")
def facts(folder: Path) -> AscendFacts:
    """Of both ranks."""
    trace = parsers.read([folder])
    assert isinstance(trace, Trace)
    found = ascend_facts(trace)
    assert found is not None
    return found


def summed(folder: Path, table: str, keys: tuple[str, str], total: str, ends: tuple[str, str]) -> Sums:
    """Rows of one table of both ranks, added up."""
    sums: Sums = defaultdict(lambda: [0, 0, float("inf"), 0])
    for rank in FOLDERS:
        with (folder / rank / "ASCEND_PROFILER_OUTPUT" / table).open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                own = sums[row[keys[0]], row[keys[1]]]
                own[:] = [own[0] + int(row["Count"]), own[1] + float(row[total]),
                          min(own[2], float(row[ends[0]])), max(own[3], float(row[ends[1]]))]  # fmt: skip
    return dict(sums)


def ours(durations: Durations) -> list[float]:
    """The same numbers of a row of ours."""
    return [durations.count, durations.total_ms * 1000, durations.min_us, durations.max_us]


def assert_equal(found: dict[tuple[str, str], list[float]], written: Sums) -> None:
    """The same rows; times to the digits that the tables have."""
    assert set(found) == set(written)
    for key, numbers in written.items():
        assert found[key] == pytest.approx(numbers, rel=1e-6, abs=0.02), key


def test_operators_are_those_of_op_statistic(folder: Path, facts: AscendFacts) -> None:
    """Every type and core, and the share of the time of rank 0's and rank 1's together."""
    names = ("Min Time(us)", "Max Time(us)")
    written = summed(folder, "op_statistic.csv", ("OP Type", "Core Type"), "Total Time(us)", names)
    assert_equal({(row.op_type, row.core): ours(row.durations) for row in facts.operators}, written)
    whole = sum(numbers[1] for numbers in written.values())
    for row in facts.operators:
        assert row.durations.share_pct == pytest.approx(100 * written[row.op_type, row.core][1] / whole, abs=1e-3)


def test_host_calls_are_those_of_api_statistic(folder: Path, facts: AscendFacts) -> None:
    """Every call by its layer."""
    written = summed(folder, "api_statistic.csv", ("Level", "API Name"), "Time(us)", ("Min(us)", "Max(us)"))
    assert_equal({(row.level, row.api): ours(row.durations) for row in facts.host_api}, written)


def test_links_are_those_of_communication_json(folder: Path, facts: AscendFacts) -> None:
    """Megabytes and milliseconds of all operators; nothing went over RDMA, PCIE or SIO."""
    size = time = 0.0
    for rank in FOLDERS:
        text = (folder / rank / "ASCEND_PROFILER_OUTPUT/communication.json").read_text(encoding="utf-8")
        for name, entry in json.loads(text)["step50"]["collective"].items():
            if name.startswith("hcom"):
                link = entry["Communication Bandwidth Info"]["HCCS"]
                size, time = size + link["Transit Size(MB)"], time + link["Transit Time(ms)"]
    (row,) = facts.links
    assert (row.transport, row.collectives) == ("HCCS", 8)
    assert (row.nbytes / 1e6, row.transit_ms) == pytest.approx((size, time), rel=1e-5)
    assert row.bandwidth_gb_per_s == pytest.approx(size / time, rel=1e-5)
