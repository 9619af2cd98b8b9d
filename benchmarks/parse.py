"""Speed and memory of reading a trace, as ratios measured in one run.

    python benchmarks/parse.py TRACE… [--hta-python PYTHON]

Compares :func:`parsers.read` with HTA's loader (in its own environment: HolisticTraceAnalysis needs pandas < 3), with a
bare typed msgspec pass and with ``orjson.loads``; prints the peak memory of a fresh process that reads the trace. All
run on one core; processor time is compared, so that a busy machine does not change the ratios.
"""

from __future__ import annotations

import gc
import gzip
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import msgspec
import orjson

import parsers
from parsers._chrome_events import Event

REPEATS = 10
MIB = 1 << 20
MEMORY_BOUND = (4, 100)  # times the decompressed file, plus MiB
HTA_LOADER = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
from hta.common.trace_parser import ParserConfig, parse_trace_dataframe
times = []
for _ in range(int(sys.argv[2])):
    begin = time.process_time()
    parse_trace_dataframe(sys.argv[1], ParserConfig.get_default_cfg())
    times.append(time.process_time() - begin)
print(json.dumps(min(times)))
"""


class _Events(msgspec.Struct):
    traceEvents: list[Event]  # noqa: N815 - the key of the format


def best(work: Callable[[], object]) -> float:
    """Least processor time of some runs, in seconds, after one that compiles and warms caches."""
    work()
    times = []
    for _ in range(REPEATS):
        gc.collect()
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def hta_seconds(python: str, trace: Path) -> float:
    """HTA's own loader on the same file, in its environment."""
    command = [python, "-c", HTA_LOADER, str(trace), str(REPEATS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def peak_mib(trace: Path) -> tuple[float, float]:
    """(idle, reading): peak resident memory of a fresh process before and after it reads the trace."""
    command = [sys.executable, __file__, "--peak", str(trace)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    before, after = json.loads(done.stdout)
    return before, after


def print_peak(trace: Path) -> None:
    """What :func:`peak_mib` runs."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    parsers.read([trace])
    print(json.dumps([before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def compare(trace: Path, hta_python: str | None, peaks: tuple[float, float]) -> None:
    """Print the ratios of one trace."""
    stored = trace.read_bytes()
    raw = gzip.decompress(stored) if trace.suffix == ".gz" else stored
    own = best(lambda: parsers.read([trace]))
    root = list[Event] if raw.lstrip().startswith(b"[") else _Events  # Ascend's timelines are bare lists
    rows = [
        ("typed msgspec pass, decompressed", best(lambda: msgspec.json.decode(raw, type=root))),
        ("orjson.loads, decompressed", best(lambda: orjson.loads(raw))),
    ]
    if hta_python:
        rows.insert(0, ("HTA loader", hta_seconds(hta_python, trace)))
    print(
        f"{trace.name}: {len(raw) / MIB:.1f} MiB decompressed, read in {own:.3f} s ({len(raw) / MIB / own:.0f} MiB/s)"
    )
    for what, seconds in rows:
        print(f"  {what:36} {seconds:7.3f} s   {seconds / own:5.2f} x our time")
    if not hta_python:
        print(
            "  HTA loader                           skipped: give the python of an environment with it (--hta-python)"
        )
    before, after = peaks
    bound = MEMORY_BOUND[0] * len(raw) / MIB + MEMORY_BOUND[1]
    print(f"  peak memory {after - before:.0f} MiB over the {before:.0f} MiB of imports; bound {bound:.0f} MiB")


@click.command()
@click.argument("traces", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--hta-python", help="python of an environment with HolisticTraceAnalysis and pandas < 3")
@click.option("--peak", is_flag=True, hidden=True)
def main(traces: tuple[Path, ...], hta_python: str | None, *, peak: bool) -> None:
    """Read each of TRACES and print how the time compares."""
    if peak:
        print_peak(traces[0])
        return
    peaks = [peak_mib(trace) for trace in traces]  # first: a child inherits the peak of its parent
    for trace, memory in zip(traces, peaks, strict=True):
        compare(trace, hta_python, memory)


if __name__ == "__main__":
    main()
