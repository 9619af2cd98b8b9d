"""Building and executing the graph of a step, against HTA's critical-path build of the same step, in one run.

    python benchmarks/graph.py TRACE… --hta-python PYTHON

Both start from a trace that is already read. Processor time is compared, so that a busy machine does not change the
ratios. HTA needs its own environment (HolisticTraceAnalysis with pandas < 3); without it only our time is printed.
"""

from __future__ import annotations

import gc
import json
import subprocess
import tempfile
import time
from pathlib import Path

import click

import parsers
from replay.graph.build import build
from replay.graph.types import Graph
from replay.simulate.engine import simulate
from replay.trace import Trace

REPEATS = 5
HTA_BUILD = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={int(sys.argv[2]): sys.argv[1]}, trace_dir="/")
times = []
for _ in range(int(sys.argv[4])):
    begin = time.process_time()
    _, done = analysis.critical_path_analysis(int(sys.argv[2]), "ProfilerStep", int(sys.argv[3]))
    times.append(time.process_time() - begin)
    if not done:
        sys.exit("no critical path")
print(json.dumps(min(times)))
"""


def replayed(trace: Trace) -> Graph:
    """What is measured: graph, lags, residuals and one execution."""
    graph = build(trace)
    simulate(graph)
    return graph


def own_seconds(trace: Trace) -> tuple[float, Graph]:
    """Least processor time of some runs, after one that warms caches."""
    graph = replayed(trace)
    times = []
    for _ in range(REPEATS):
        gc.collect()
        begin = time.process_time()
        replayed(trace)
        times.append(time.process_time() - begin)
    return min(times), graph


def hta_seconds(python: str, path: Path, trace: Trace, graph: Graph) -> float | None:
    """HTA on the same step of the same file, in its environment and in an empty folder; ``None`` when it fails."""
    instance = next(i for i, label in enumerate(graph.health.steps) if graph.health.step_label.startswith(label))
    arguments = [str(path.resolve()), str(trace.ranks[0]), str(instance), str(REPEATS)]
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-c", HTA_BUILD, *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    return float(json.loads(done.stdout.splitlines()[-1])) if done.returncode == 0 else None


@click.command()
@click.argument("traces", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--hta-python", help="python of an environment with HolisticTraceAnalysis and pandas < 3")
def main(traces: tuple[Path, ...], hta_python: str | None) -> None:
    """Build and execute the default step of each of TRACES and print how the time compares."""
    for path in traces:
        trace = parsers.read([path])
        if not isinstance(trace, Trace):
            raise click.BadParameter(f"{path.name} is not a trace")
        seconds, graph = own_seconds(trace)
        print(f"{path.name}: {len(graph):,} ops, {len(graph.edges):,} edges, built and executed in {seconds:.3f} s")
        if hta_python is None:
            print("  HTA critical path: skipped, give the python of an environment with it (--hta-python)")
            continue
        theirs = hta_seconds(hta_python, path, trace, graph)
        if theirs is None:
            print("  HTA critical path: ends in an error on this trace")
        else:
            print(f"  HTA critical path {theirs:.3f} s   {theirs / seconds:.1f} x our time")


if __name__ == "__main__":
    main()
