"""Command line: ``python -m traces.record sample`` and ``python -m traces.record run``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from traces.record.job import Job, Model
from traces.record.launcher import record
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
        return
    model = Model(layers=options.layers, experts=options.experts, topk=options.topk)
    job = Job(options.out.name, options.pp, options.vpp, options.dp, options.ep, mbs=1, gbs=options.gbs, model=model)
    record(Plan(job, options.out, options.steps, options.profiled_steps, scale=options.scale, command=command))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m traces.record", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    sample = commands.add_parser("sample", help="record the shipped pair of jobs again")
    sample.add_argument("--out", type=Path, help="folder that gets the two recordings (default: traces/)")
    run = commands.add_parser("run", help="record one job")
    run.add_argument("--out", type=Path, required=True, help="folder for rank*.json.gz and run.json")
    job, model = Job(""), Model()
    for name, default in (
        ("pp", job.pp), ("vpp", job.vpp), ("dp", job.dp), ("ep", job.ep), ("gbs", job.gbs),
        ("layers", model.layers), ("experts", model.experts), ("topk", model.topk),
        ("steps", 12), ("profiled-steps", 7),
    ):  # fmt: skip
        run.add_argument(f"--{name}", type=int, default=default, help="default %(default)s")
    run.add_argument("--scale", type=float, default=1.0, help="stretch all device durations by this factor")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
