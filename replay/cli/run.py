"""``replay run``: replay a measurement, ask what-ifs, report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from replay.cli import options
from replay.cli.progress import stages


@click.command("run", short_help="Replay a measured step; with layout or edit options, predict another.")
@options.PATHS
@options.layout_changes
@options.edits
@options.source_facts
@options.source_hardware
@options.anchor
@options.json_output
@options.outputs
@click.option(
    "--explain",
    is_flag=True,
    help="Add every change, what the interval is made of, the order of passes, and all definitions.",
)
@options.quiet
def command(inputs: tuple[Path, ...], **given: Any) -> None:
    """Replay a measured step; with layout or edit options, predict the step they would give.

    INPUT is one or more files or folders of one job: PyTorch Profiler traces (one file a rank), Ascend profiles
    (`*_ascend_pt`, `*_ascend_ms` or `PROF_*` folders), Perfetto traces, or pipeline recordings. Sizes that are not
    named stay as in the source. What an input cannot answer is refused with what to supply; `replay inspect` lists
    what can be asked of it.
    """
    from replay import api  # noqa: PLC0415 - keeps `replay --help` fast

    question, facts = api.ask(**_asked(given)), api.facts(**_known(given))
    with stages(quiet=given["quiet"] or given["as_json"]) as progress:
        answer = api.answer(inputs, question, facts, progress=progress)
    for path in given["outputs"]:
        api.write(answer, path)
    if given["as_json"]:
        sys.stdout.write(api.to_json(answer.result))
    else:
        api.render(answer.result, sys.stdout, explain=given["explain"], quiet=given["quiet"])


def _asked(given: dict[str, Any]) -> dict[str, Any]:
    """The what-if options that were given."""
    names = ("tp", "pp", "vpp", "dp", "cp", "ep", "etp", "mbs", "gbs", "seq", "world_size", "schedule", "dispatcher",
             "experts", "chunk_layers", "scale", "link", "stall", "stragglers", "hardware")  # fmt: skip
    return {name: given[name] for name in names if given[name] not in (None, ())}


def _known(given: dict[str, Any]) -> dict[str, Any]:
    """The facts about the source that were given."""
    names = ("source", "model", "layers", "microbatches", "step", "step_marker", "measured_step", "trace_processor",
             "source_hardware", "force")  # fmt: skip
    return {name: given[name] for name in names if given[name] is not None}
