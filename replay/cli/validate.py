"""``replay validate``: predictions against measurements, case by case."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from replay.cli import options
from replay.cli.progress import stages

SUFFIXES = (".html", ".csv", ".json")


@click.command("validate", short_help="Hold predictions against measured steps: an error table over known cases.")
@click.argument("cases", type=click.Path(path_type=Path), metavar="CASES")
@click.option(
    "--fail-above",
    type=options.percent,
    metavar="PCT",
    help="Exit with 1 where a device's mean absolute error is above.",
)
@click.option("--jobs", type=options.SIZE, default=1, metavar="N", help="Sources to work on at once [default: 1].")
@click.option("--live", is_flag=True, help="Record the cases that say how here and now, and predict those recordings.")
@options.json_output
@click.option(
    "-o",
    "--output",
    "outputs",
    type=lambda text: options.output_file(text, SUFFIXES),
    multiple=True,
    metavar="FILE",
    help="Write a file; its suffix decides: .html report with plot, .csv a line a case, .json result. Repeatable.",
)
@options.quiet
def command(cases: Path, **given: Any) -> None:
    """Predict every case of a file and compare with what was measured.

    CASES is a .toml file with one [[case]] table for each case, or a .csv file with one row: name, source (a trace,
    several, a folder, or a folder inside of an archive), what changes (target sizes, or words of the command line in
    `edit`) and measured_step_ms. A case that is refused is listed with its reason and counts as 100 % in the mean.
    """
    from replay import api  # noqa: PLC0415 - keeps `replay --help` fast

    with stages(quiet=given["quiet"] or given["as_json"]) as progress:
        if given["live"]:  # one after the other: what is recorded must not be disturbed
            found = api.validate_live(cases, progress)
        else:
            found = api.validate(cases, progress, jobs=given["jobs"])
    for path in given["outputs"]:
        api.write_validation(found, path)
    if given["as_json"]:
        sys.stdout.write(api.validation_to_json(found))
    else:
        api.render_validation(found, sys.stdout, quiet=given["quiet"])
    api.require_answers(found)
    if given["fail_above"] is not None:
        api.require_below(found, given["fail_above"])
