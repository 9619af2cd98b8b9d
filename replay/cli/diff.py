"""``replay diff``: where two steps differ, and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from replay.cli import options
from replay.cli.progress import stages

PATH = click.Path(path_type=Path)
STEP = click.IntRange(min=0)


@click.command("diff", short_help="Compare two steps: a prediction, traces, recordings, logs.")
@click.argument("a", type=PATH)
@click.argument("b", type=PATH)
@click.option("--from", "source", metavar="KEY=N,...", help="Layout of both, e.g. tp=2,pp=4,ep=8,microbatches=16.")
@click.option("--step-a", type=STEP, metavar="N", help="Step of A to use [default: the median complete step].")
@click.option("--step-b", type=STEP, metavar="N", help="Step of B to use [default: the median complete step].")
@click.option("--step-marker", metavar="NAME", help="Annotation that marks a step.")
@click.option("--trace-processor", metavar="BIN", help="Perfetto trace_processor binary, for .pftrace input.")
@options.json_output
@options.outputs
@options.quiet
def command(a: Path, b: Path, **given: Any) -> None:
    """Say where step B differs from step A, and which ops make the difference.

    A and B are each a prediction saved with `-o FILE.json`, a trace, a pipeline recording (a file, or the folder of one
    job, also inside of an archive) or a training log. The parts sum to the difference to the nanosecond. What only one
    side knows is said.
    """
    from replay import api  # noqa: PLC0415 - keeps `replay --help` fast

    known = ("source", "step_marker", "trace_processor")
    facts = api.facts(**{name: given[name] for name in known if given[name] is not None})
    with stages(quiet=given["quiet"] or given["as_json"]) as progress:
        found = api.diff(a, b, facts, (given["step_a"], given["step_b"]), progress)
    for path in given["outputs"]:
        api.write_diff(found, path)
    if given["as_json"]:
        sys.stdout.write(api.diff_to_json(found))
    else:
        api.render_diff(found, sys.stdout, quiet=given["quiet"])
