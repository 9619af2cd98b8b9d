"""``replay inspect``: what an input holds and what can be asked of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from replay.cli import options
from replay.cli.progress import stages


@click.command("inspect", short_help="Show what an input holds and what can be asked of it.")
@options.PATHS
@options.source_facts
@options.hardware
@options.json_output
@options.quiet
def command(inputs: tuple[Path, ...], *, as_json: bool, quiet: bool, **given: Any) -> None:
    """Show format, ranks, steps, health, layout and statistics of an input, and which questions it can answer.

    Works on anything readable, also where nothing can be replayed; then it says why.
    """
    from replay import api  # noqa: PLC0415 - keeps `replay --help` fast

    facts = api.facts(**{name: value for name, value in given.items() if value is not None})
    with stages(quiet=quiet or as_json) as progress:
        inspection = api.inspect(inputs, facts, progress=progress)
    if as_json:
        sys.stdout.write(api.to_json(inspection))
    else:
        api.render(inspection, sys.stdout, quiet=quiet)
