"""Command line: ``python -m traces.record sample|run|links|matrix|pack|cpu``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from traces.record import cpu_command, run_command
from traces.record.cpu_links import record_cpu_links
from traces.record.job import Job
from traces.record.launcher import record
from traces.record.link_tests import Plan as LinkPlan
from traces.record.link_tests import record_links
from traces.record.matrix import record_matrix
from traces.record.matrix_runs import SCALE
from traces.record.pack import pack
from traces.record.worker import Plan

SHIPPED = Path(__file__).parents[1]
SOURCE = Job("moe-pp2-dp8-ep4")
TARGET = Job("moe-pp2-dp8-ep8-vpp2", ep=8, vpp=2)


def main(arguments: Sequence[str]) -> None:
    """Parse and record."""
    options = _parser().parse_args(arguments)
    command = shlex.join(["python", "-m", "traces.record", *arguments])
    if options.command == "sample":
        out = options.out or SHIPPED
        record(Plan(SOURCE, out / SOURCE.name, command=command))
        record(Plan(TARGET, out / TARGET.name, command=command, traces=False))
    elif options.command == "matrix":
        record_matrix(options.out, options.only, resume=options.resume)
    elif options.command == "links":
        if options.cpu:
            record_cpu_links(options.out)
        else:
            record_links(LinkPlan(options.out, options.scale))
    elif options.command == "pack":
        pack(options.folders, options.out)
    elif options.command == "cpu":
        cpu_command.run(options, command)
    else:
        job = run_command.job_of(options)
        record(Plan(job, options.out, options.steps, options.profiled_steps, scale=options.scale, command=command))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m traces.record", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    sample = commands.add_parser("sample", help="record the shipped pair of jobs again")
    sample.add_argument("--out", type=Path, help="folder that gets the two recordings (default: traces/)")
    run_command.add_options(commands.add_parser("run", help="record one job on emulated devices"))
    links = commands.add_parser("links", help="measure links as nccl-tests does, emulated ones or (--cpu) Gloo's")
    links.add_argument("--out", type=Path, required=True, help="log to write")
    links.add_argument("--cpu", action="store_true", help="Gloo between two processes of this machine")
    links.add_argument("--scale", type=float, default=SCALE, help="stretch all durations by this factor")
    matrix = commands.add_parser("matrix", help="record all runs that predictions are checked with")
    matrix.add_argument("--out", type=Path, required=True, help="folder that gets a folder a run")
    matrix.add_argument("--only", nargs="+", default=(), metavar="NAME", help="these runs only")
    matrix.add_argument("--resume", action="store_true", help="leave out runs that are there already")
    packing = commands.add_parser("pack", help="put recorded runs into matrix.tar.xz and their pairs into matrix.toml")
    packing.add_argument("folders", nargs="+", type=Path, help="folders that hold a folder a run")
    packing.add_argument("--out", type=Path, default=SHIPPED, help="folder for both files (default: traces/)")
    cpu_command.add_options(commands.add_parser("cpu", help="record jobs with real compute on this machine"))
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
