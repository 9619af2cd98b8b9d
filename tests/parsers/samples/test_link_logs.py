"""Logs of link tests: every version's table, units and sizes decided by algbw · time, what is refused and why."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from parsers.samples import read_samples
from replay.core.errors import TraceError
from replay.samples import Samples

HEADER = "#  size   count   type   redop   root   time   algbw   busbw #wrong   time   algbw   busbw #wrong"
UNITS = "#   (B)    (elements)                (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)"
RANK = "#  Rank  {} Group  0 Pid  1 on {} device  0 [0x07] NVIDIA A100-SXM4-80GB"
START = "# nThread 1 nGpus 1 minBytes 1 maxBytes 2 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 2 graph: 0"
NAMED = "# Collective test starting: all_reduce_perf"


def row(size: int, time_us: float, factor: float, wrong: str = "0") -> str:
    """Both halves alike; ``factor`` is busbw / algbw."""
    return f"{size:12d} {size // 4:12d}     float     sum      -1 {half(size, time_us, factor, wrong)} " + half(
        size, time_us, factor, "N/A"
    )


def half(size: int, time_us: float, factor: float, wrong: str) -> str:
    algbw = size / time_us / 1e3
    return f"{time_us:9.2f} {algbw:7.2f} {algbw * factor:7.2f} {wrong:>5}"


def log(*lines: str, hosts: str = "aabb") -> str:
    """A run of as many ranks as there are letters, a letter a host."""
    ranks = [RANK.format(i, f"node-{host}") for i, host in enumerate(hosts)]
    return "\n".join([NAMED, START, "# Using devices", *ranks, HEADER, UNITS, *lines]) + "\n"


def parse(folder: Path, text: str, name: str = "run.log") -> Samples:
    (folder / name).write_text(text)
    return read_samples([folder / name])


def test_a_row_is_two_samples(tmp_path: Path) -> None:
    found = parse(tmp_path, log(row(1 << 30, 10_000.0, 1.5)))
    assert found.op.present() == ("all_reduce",)
    assert list(found.time_ns) == [1e7, 1e7]
    assert list(found.size("in_place")) == [0, 1]
    assert list(found.size("nbytes")) == [1 << 30] * 2
    assert [found.size(name)[0] for name in ("ranks", "nodes", "ranks_per_node")] == [4, 2, 2]
    assert found.tier.present() == ("mixed",)
    assert found.repeats[0] == 40
    assert found.dtype[0] == "fp32"
    assert found.device[0] == "NVIDIA A100-SXM4-80GB"
    assert found.where(0) == "run.log:10"


def test_launcher_prefixes_and_fences_do_not_matter(tmp_path: Path) -> None:
    plain = parse(tmp_path, log(row(1 << 30, 10_000.0, 1.5)))
    text = "".join(f"[1,0]<stdout>:{line}\n" for line in log(row(1 << 30, 10_000.0, 1.5)).splitlines())
    assert list(parse(tmp_path, f"```\n{text}```\n").time_ns) == list(plain.time_ns)


def test_milliseconds_under_a_header_of_microseconds_are_seen(tmp_path: Path) -> None:
    """algbw · time = bytes decides."""
    right = row(1 << 30, 10_000.0, 1.5)
    found = parse(tmp_path, log(right.replace("10000.00", "   10.00")))
    assert list(found.time_ns) == [1e7, 1e7]
    assert any("times are in ms" in note for note in found.notes)


def test_a_table_under_the_wrong_name_is_refused(tmp_path: Path) -> None:
    """Four ranks: an all_reduce has busbw = 1.5 algbw, a gather 0.75."""
    with pytest.raises(TraceError, match=r"run\.log:10: 2 rows left out: busbw / algbw is 0\.750, but all_reduce"):
        parse(tmp_path, log(row(1 << 30, 10_000.0, 0.75)))


def test_nameless_tables_are_named_by_file_or_refused(tmp_path: Path) -> None:
    text = log(row(1 << 30, 10_000.0, 0.75).replace(" sum", "none")).replace(NAMED + "\n", "")
    assert parse(tmp_path, text, "n2_all_gather_output.dat").op.present() == ("all_gather",)
    with pytest.raises(TraceError, match="nothing says which collective"):
        parse(tmp_path, text)


def test_rows_that_measure_nothing_are_counted_with_their_line(tmp_path: Path) -> None:
    zero = " 0   0   float   sum   -1   281.8   0.00   0.00   0   377.9   0.00   0.00   N/A"
    cut = "     2097152        524288     float     sum      -1   61."
    found = parse(tmp_path, log(zero, row(1 << 30, 1e4, 1.5), row(1 << 20, 99.0, 1.5, wrong="7"), cut))
    assert len(found) == 3
    reasons = " ".join(found.notes)
    assert "run.log:10: 2 rows left out, no bytes were sent" in reasons
    assert "run.log:12: 1 row left out, the result was wrong" in reasons
    assert "run.log:13: " in reasons
    assert "cut short" in reasons


def test_a_run_without_rows_is_refused_with_its_failure(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"run\.log:10: .*unhandled system error.*no rows"):
        parse(tmp_path, log("node-a: Test NCCL failure common.cu:1012 'unhandled system error'"))


def test_a_half_that_was_not_run(tmp_path: Path) -> None:
    """Replayed traces have blanks for the out-of-place half."""
    lead = f"{1 << 30} {1 << 28} float sum -1"
    found = parse(tmp_path, log(lead + " " * 32 + half(1 << 30, 10_000.0, 1.5, "0")))
    assert list(found.size("in_place")) == [1]


def test_ranks_from_the_ratio_of_bandwidths(tmp_path: Path) -> None:
    """1.75 is 2 (n - 1) / n of 8."""
    text = "\n".join([NAMED, START, HEADER, UNITS, row(1 << 30, 4_000.0, 1.75)])
    assert parse(tmp_path, text).size("ranks")[0] == 8


def test_hccl_test(tmp_path: Path) -> None:
    text = (
        "mpirun -n 16 ./bin/all_gather_test -b 8K -e 64M -d bfp16 -p 8\n"
        "the minbytes is 8192, maxbytes is 67108864, iters is 20, warmup_iters is 5\n"
        "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n"
        "2097152 | 310.40 | 6.75630 | success\n"
        "4194304 | 310.40 | 13.5126 | failed\n"
    )
    found = parse(tmp_path, text)
    assert list(found.time_ns) == [310_400.0]
    assert (found.op[0], found.dtype[0]) == ("all_gather", "bf16")
    assert [found.size(name)[0] for name in ("ranks", "nodes", "ranks_per_node")] == [16, 2, 8]
    assert any("the check failed" in note for note in found.notes)


def test_torch_all_reduce_bench(tmp_path: Path) -> None:
    """1 GiB at 10 GB/s takes 0.1073741824 s."""
    text = (
        "The average bandwidth of all_reduce over 4 ranks (5 warmups / 20 trials):\n\n"
        "| payload |    busbw   |    algbw   |\n| ------: | ---------: | ---------: |\n"
        "|    1GiB |  15.00GBps |  10.00GBps |\n"
    )
    found = parse(tmp_path, text)
    assert found.time_ns[0] == pytest.approx(107_374_182.4)
    assert found.size("ranks")[0] == 4
    assert found.repeats[0] == 20


def test_nccl_json(tmp_path: Path) -> None:
    place = {"time": 7.5, "alg_bw": 1.09, "bus_bw": 1.09, "nwrong": 0.0}
    result = {
        "size": 8192, "count": 4096, "type": "bfloat16", "redop": "sum", "root": "-1", "out_of_place": place,
        "in_place": None, "actual_iterations": 200, "experiment_name": "AllReduce",
        "out_of_place_per_iter": {"p50_us": 7.25, "stdev_us": 0.5}, "tuning": {"algo": "RING", "proto": "LL"},
    }  # fmt: skip
    devices = [{"rank": i, "hostname": "a", "device_info": "H100"} for i in range(2)]
    report = {"version": 4, "args": ["all_reduce_perf"], "nccl_version": 23007, "config": {"devices": devices},
              "results": [result]}  # fmt: skip
    found = parse(tmp_path, json.dumps(report), "run.json")
    assert list(found.time_ns) == [7250.0]
    assert list(found.spread_ns) == [500.0]
    assert (found.software[0], found.variant[0], found.dtype[0]) == ("nccl 2.30.7", "algo=RING proto=LL", "bf16")
    assert found.size("ranks")[0] == 2


@pytest.mark.shared
def test_every_link_file_parses_with_consistent_bandwidth(shared_data: Path) -> None:
    """The best all_reduce of the eight-GPU log is 481 GB/s on the bus, as printed."""
    log_file = next((shared_data / "links").glob("c01_single*G8*"))
    found = read_samples([log_file])
    mine = found.take(found.op.equal("all_reduce"))
    busbw = mine.size("nbytes") * 1.75 / mine.time_ns
    assert busbw.max() == pytest.approx(482, abs=2)
    assert np.isfinite(found.size("ranks")).all()
    assert {len(read_samples([path])) > 0 for path in sorted((shared_data / "links").iterdir())} == {True}
