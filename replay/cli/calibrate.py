"""``replay calibrate``: microbenchmarks to a hardware profile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from replay.cli import options
from replay.cli.progress import stages


def _profile_file(text: str) -> Path:
    return options.output_file(text, (".toml",))


def _report_file(text: str) -> Path:
    return options.output_file(text, (".html",))


@click.command("calibrate", short_help="Fit a hardware profile to measured times of ops and collectives.")
@click.argument("sources", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="SOURCE...")
@click.option("-o", "--output", type=_profile_file, required=True, metavar="NAME.toml", help="Profile to write.")
@click.option(
    "--base", metavar="NAME|FILE", help="Profile to start from [default: the one of the samples' device, if any]."
)
@click.option("--device", metavar="NAME", help="Use only samples of this device (part of its name).")
@click.option(
    "--mapping",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.toml",
    help="What the columns of a table of no built-in kind mean.",
)
@click.option(
    "--loss",
    type=click.Choice(["robust", "plain"]),
    default="robust",
    show_default=True,
    help="Loss of the fit: robust counts outliers less, plain is least squares.",
)
@click.option("--learned", is_flag=True, help="Also learn a correction of GEMM times; it is scored apart.")
@click.option(
    "--score",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="SOURCE",
    help="Predict these measurements from the profile made, instead of fitting them; may be repeated.",
)
@click.option("--report", type=_report_file, metavar="FILE.html", help="Write measured against model, and residuals.")
@options.json_output
@options.quiet
def command(sources: tuple[Path, ...], output: Path, **given: Any) -> None:
    """Fit cost models of GEMMs, experts, attention and collectives to measurements, and write a hardware profile.

    SOURCE is a log of nccl-tests, rccl-tests, hccl_test or all_reduce_bench, a table (CSV, Parquet, JSON) of
    aiconfigurator, vidur or SimuMax, any table with --mapping, a trace, or a folder of these; content tells the format.
    What the samples cannot determine is refused with a sentence, the rest is written with errors and hold-out scores.
    """
    from replay import api  # noqa: PLC0415 - keeps `replay --help` fast

    request = api.calibration_request(
        output.name.removesuffix(".toml"),
        base=given["base"] or "",
        device=given["device"] or "",
        mapping=given["mapping"],
        robust=given["loss"] == "robust",
        score=given["score"],
        learned=given["learned"],
    )
    with stages(quiet=given["quiet"] or given["as_json"]) as progress:
        found = api.calibrate(sources, request, progress)
    api.write_profile(found.profile, output)
    if given["report"]:
        api.write_calibration_report(found, given["report"])
    if given["as_json"]:
        sys.stdout.write(api.calibration_to_json(found))
    else:
        api.render_calibration(found, sys.stdout, quiet=given["quiet"])
