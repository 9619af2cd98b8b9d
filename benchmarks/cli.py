"""Command-line speed: ``replay --help``, and one trace from start to report against a bare JSON pass over it.

    python benchmarks/cli.py [TRACE]

Each figure is the best of five processes, so caches are warm. Nothing fails here; the numbers are to be read.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

DEFAULT_TRACE = Path(__file__).resolve().parents[2] / "shared" / "data" / "kineto" / "deepseek_v3_train_h800.json"
REPEATS = 5
BARE_JSON = "import json, sys; json.load(open(sys.argv[1]))"


def best_s(arguments: list[str]) -> float:
    """Wall time of a whole process, seconds."""
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    """Measure and print."""
    replay = ["-c", "from replay.cli import main; main()"]
    python = best_s(["-c", "pass"])
    help_text = best_s([*replay, "--help"])
    print(f"replay --help: {help_text:.2f} s, {help_text / python:.1f} x an empty Python process")
    trace = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_TRACE
    if not trace.exists():
        print(f"no trace at {trace}: give one as argument")
        return
    report = best_s([*replay, str(trace)])
    bare = best_s(["-c", BARE_JSON, str(trace)])
    print(f"{trace.name}, start to report: {report:.2f} s, {report / bare:.1f} x a bare json pass ({bare:.2f} s)")


if __name__ == "__main__":
    main()
