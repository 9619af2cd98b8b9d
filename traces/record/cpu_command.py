"""The command ``cpu``: record one job, or named ones of the matrix, with real compute on this machine's CPU."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from traces.record.cpu import CpuPlan, record
from traces.record.cpu_matrix import EXPERTS, JOBS, LIVE
from traces.record.job import Job
from traces.record.size_options import add_sizes, sizes_of

_SIZES = ("pp", "vpp", "dp", "ep", "mbs", "gbs")
_JOB = Job("", pp=1, dp=1, ep=1, gbs=8, model=EXPERTS)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for the recording; with several names, of folders"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"jobs to record: {', '.join((*JOBS, *LIVE))}")
    add_sizes(parser, _SIZES, _JOB)
    parser.add_argument("--ranges", choices=("on", "off"), default="on", help="name passes, layers and modules")
    parser.add_argument("--steps", type=int, default=12, help="steps without the profiler, default %(default)s")
    parser.add_argument("--profiled-steps", type=int, default=11, help="steps with it, default %(default)s")


def run(options: argparse.Namespace, command: str) -> None:
    """Record what was asked for."""
    known = {**JOBS, **LIVE}
    for name in options.names:
        if name not in known:
            raise SystemExit(f"no CPU job is named {name!r}; there are {', '.join(known)}")
        out = options.out / name if len(options.names) > 1 else options.out
        record(_plan(options, known[name], out, command))
    if not options.names:
        job = Job(options.out.name, **sizes_of(options, _SIZES))
        record(_plan(options, job, options.out, command))


def _plan(options: argparse.Namespace, job: Job, out: Path, command: str) -> CpuPlan:
    ranged = replace(job, ranges=options.ranges == "on")
    return CpuPlan(ranged, out, options.steps, options.profiled_steps, command)
