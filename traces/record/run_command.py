"""The command ``run``: record one job on emulated devices."""

from __future__ import annotations

import argparse
from pathlib import Path

from traces.record.disturbance import ALL_RANKS, Disturbance
from traces.record.job import Job
from traces.record.loads import BALANCED_NAME, read
from traces.record.size_options import add_sizes, sizes_of

_SIZES = ("tp", "pp", "vpp", "dp", "ep", "mbs", "gbs")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--out", type=Path, required=True, help="folder for rank*.json.gz and run.json")
    add_sizes(parser, _SIZES, Job(""))
    _add_habits(parser.add_argument_group("habits of the job"))
    _add_disturbances(parser.add_argument_group("one thing disturbed"))
    parser.add_argument("--steps", type=int, default=12, help="steps without the profiler, default %(default)s")
    parser.add_argument("--profiled-steps", type=int, default=7, help="steps with it, default %(default)s")
    parser.add_argument("--scale", type=float, default=1.0, help="stretch all device durations by this factor")


def _add_habits(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--schedule", choices=("1f1b", "gpipe", "interleaved"), default="", help="default by --vpp")
    group.add_argument("--last-stage-layers", type=int, help="layers of the last stage, others share the rest")
    group.add_argument("--blocking-p2p", action="store_true", help="interleaving without overlapped exchanges")
    group.add_argument("--overlap-grads", action="store_true", help="gradient sums beside the last backward")
    group.add_argument("--load", default=BALANCED_NAME, help="balanced, zipf:A, or a CSV of counts, a row a layer")
    group.add_argument("--ranges", choices=("on", "off"), default="on", help="name passes, layers and modules")


def _add_disturbances(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--slow-kernel", nargs=2, metavar=("NAME", "FACTOR"), help="a kernel takes longer")
    group.add_argument("--slow-link", nargs=2, metavar=("tp|ep|dp|pp", "FACTOR"), help="bytes take longer")
    group.add_argument("--slow-rank", nargs=2, metavar=("RANK", "FACTOR"), help="a rank's kernels take longer")
    group.add_argument("--stall", type=float, default=0.0, metavar="MS", help="the host sleeps at a step's begin")
    group.add_argument("--stall-rank", type=int, default=ALL_RANKS, help="on this rank only")


def job_of(options: argparse.Namespace) -> Job:
    """The job asked for; raises ValueError where its sizes do not fit together."""
    return Job(
        options.out.name,
        **sizes_of(options, _SIZES),
        schedule=options.schedule,
        last_stage_layers=options.last_stage_layers,
        overlap_p2p=False if options.blocking_p2p else None,
        overlap_grads=options.overlap_grads,
        load=read(options.load, options.layers, options.experts),
        ranges=options.ranges == "on",
        disturbance=_disturbance(options),
    )


def _disturbance(options: argparse.Namespace) -> Disturbance:
    kernel, kernel_factor = options.slow_kernel or ("", 1.0)
    link, link_factor = options.slow_link or ("", 1.0)
    rank, slow_factor = options.slow_rank or (ALL_RANKS, 1.0)
    return Disturbance(
        kernel=kernel,
        kernel_factor=float(kernel_factor),
        link=link,
        link_factor=float(link_factor),
        stall_rank=options.stall_rank,
        stall_ms=options.stall,
        slow_rank=int(rank),
        slow_factor=float(slow_factor),
    )
