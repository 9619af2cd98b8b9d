"""The command ``cpu``: record one job, or named ones of the matrix, with real compute on this machine's CPU."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from traces.record.cpu import CpuPlan, record
from traces.record.cpu_matrix import EXPERTS, JOBS, LIVE
from traces.record.job import Job

_SIZES = ("pp", "vpp", "dp", "ep", "mbs", "gbs")
_MODEL = ("layers", "hidden", "moe_ffn", "heads", "seq", "vocab", "experts", "topk", "dense_layers", "ffn")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for the recording; with several names, of folders"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"jobs to record: {', '.join((*JOBS, *LIVE))}")
    for name in _SIZES:
        parser.add_argument(f"--{name}", type=int, default=8 if name == "gbs" else 1, help="default %(default)s")
    for name in _MODEL:
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=int, default=getattr(EXPERTS, name), help="default %(default)s")
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
        model = replace(EXPERTS, **{name: getattr(options, name) for name in _MODEL})
        job = Job(options.out.name, **{name: getattr(options, name) for name in _SIZES}, model=model)
        record(_plan(options, job, options.out, command))


def _plan(options: argparse.Namespace, job: Job, out: Path, command: str) -> CpuPlan:
    ranged = replace(job, ranges=options.ranges == "on")
    return CpuPlan(ranged, out, options.steps, options.profiled_steps, command)
