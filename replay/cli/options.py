"""Options that several commands share, and the parameter types behind them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from replay.layout import DISPATCHERS, SCHEDULES

Command = TypeVar("Command", bound=Callable[..., Any])

OUTPUT_SUFFIXES = (".html", ".pftrace", ".trace.json", ".json")


def pair(written: str, number: str) -> Callable[[str], tuple[str, float]]:
    """Type of ``NAME=NUMBER`` with a number of 0 or more; the name may itself hold ``=``."""

    def read(text: str) -> tuple[str, float]:
        name, _, last = text.rpartition("=")
        value = _number(last)
        if not name or not 0.0 <= value < float("inf"):
            raise click.BadParameter(f"{text!r} is not {written} with {number}")
        return name, value

    return read


def milliseconds(text: str) -> float:
    """A finite time of more than 0."""
    value = _number(text)
    if not 0.0 < value < float("inf"):
        raise click.BadParameter(f"{text!r} is not a time of more than 0 ms")
    return value


def percent(text: str) -> float:
    """A finite share of 0 or more."""
    value = _number(text)
    if not 0.0 <= value < float("inf"):
        raise click.BadParameter(f"{text!r} is not a number of percent of 0 or more")
    return value


def _number(text: str) -> float:
    """NaN where it is none, which no comparison lets through (a range of click's does)."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def output_file(text: str, suffixes: tuple[str, ...] = OUTPUT_SUFFIXES) -> Path:
    """A path whose suffix says what to write, checked before any work is done."""
    if not text.endswith(suffixes):
        raise click.BadParameter(f"{text!r} must end in one of {', '.join(suffixes)}")
    path = Path(text)
    if path.is_dir():
        raise click.BadParameter(f"{text!r} is a folder")
    if not path.parent.is_dir():
        raise click.BadParameter(f"{text!r} lies in a folder that does not exist")
    return path


def _stack(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def apply(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


SIZE = click.IntRange(min=1)
PATHS = click.argument("inputs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="INPUT...")


def source_facts(command: Command) -> Command:
    """Facts that the input lacks, and which step of it to use."""
    return _stack(
        click.option(
            "--from", "source", metavar="KEY=N,...", help="Source layout, e.g. tp=2,pp=4,ep=8,microbatches=16."
        ),
        click.option(
            "--model",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Model description: a Hugging Face config.json or a Megatron arguments dump.",
        ),
        click.option("--layers", type=SIZE, metavar="N", help="Layers in the source model."),
        click.option("--microbatches", type=SIZE, metavar="N", help="Micro-batches a step of the source."),
        click.option(
            "--step", type=click.IntRange(min=0), metavar="N", help="Step to use [default: the median complete step]."
        ),
        click.option("--step-marker", metavar="NAME", help="Annotation that marks a step."),
        click.option("--trace-processor", metavar="BIN", help="Perfetto trace_processor binary, for .pftrace input."),
    )(command)


def hardware(command: Command) -> Command:
    """The device, where the input does not name it."""
    return click.option(
        "--hardware",
        "--source-hardware",
        "source_hardware",
        metavar="PROFILE",
        help="Name or .toml of the device's profile: peak for MFU (training logs), cubes and memory (Ascend profiles).",
    )(command)


def source_hardware(command: Command) -> Command:
    """The device that was measured, where the input does not name it."""
    return click.option(
        "--source-hardware",
        metavar="PROFILE",
        help="Name or .toml of the profile of the device measured [default: the one that lists the device's name; of "
        "Ascend one with the cores and clock that the kernel table's counters tell].",
    )(command)


def anchor(command: Command) -> Command:
    """What the prediction is scaled from, and whether it may be made at all."""
    return _stack(
        click.option(
            "--measured-step",
            type=milliseconds,
            metavar="MS",
            help="Step time without the profiler, ms; the prediction is anchored to it.",
        ),
        click.option("--force", is_flag=True, help="Answer even where the baseline differs by more than 5 %."),
    )(command)


def layout_changes(command: Command) -> Command:
    """Sizes and policies of the target layout; what is not named stays as in the source."""
    sizes = (
        ("--tp", "Tensor-parallel size."),
        ("--pp", "Pipeline-parallel size."),
        ("--vpp", "Chunks (virtual stages) a rank."),
        ("--dp", "Data-parallel size; changes the number of devices."),
        ("--cp", "Context-parallel size."),
        ("--ep", "Expert-parallel size."),
        ("--etp", "Expert-tensor-parallel size."),
        ("--mbs", "Micro-batch, sequences."),
        ("--gbs", "Global batch, sequences."),
        ("--seq", "Sequence length, tokens."),
    )
    return _stack(
        *(click.option(name, type=SIZE, metavar="N", help=text) for name, text in sizes),
        click.option("--world", "world_size", type=SIZE, metavar="N", help="Number of devices."),
        click.option(
            "--chunk-layers", metavar="N,...", help="Layers of every chunk, in model order [default: equal chunks]."
        ),
        click.option(
            "--schedule",
            type=click.Choice(SCHEDULES),
            metavar="NAME",
            help=f"Pipeline schedule: {', '.join(SCHEDULES)}.",
        ),
        click.option(
            "--dispatcher",
            type=click.Choice(DISPATCHERS),
            metavar="NAME",
            help=f"Token dispatcher: {', '.join(DISPATCHERS)}.",
        ),
    )(command)


def edits(command: Command) -> Command:
    """What-ifs that are not sizes."""
    return _stack(
        click.option(
            "--hardware",
            metavar="PROFILE",
            help="Another device: the name of a profile (`replay profiles`) or a .toml.",
        ),
        click.option("--experts", metavar="LOAD", help="Expert load: balanced, trace, zipf:A, or a file of counts."),
        click.option(
            "--scale",
            type=pair("PATTERN=FACTOR", "a factor of 0 or more"),
            multiple=True,
            metavar="PATTERN=FACTOR",
            help="Multiply the duration of ops whose name matches; PATTERN@3: of rank 3. Repeatable.",
        ),
        click.option(
            "--link",
            type=pair("TIER=FACTOR", "a factor of more than 0"),
            multiple=True,
            metavar="TIER=FACTOR",
            help="Multiply the bandwidth of a tier: all, intra, inter, tp, cp, ep, dp, pp, other, or a kind of link "
            "that an Ascend profile names (hccs, rdma). Repeatable.",
        ),
        click.option(
            "--stall",
            type=pair("RANK=MS", "a time of 0 ms or more"),
            multiple=True,
            metavar="RANK=MS",
            help="Hold the host of a rank (or of all) for so long as the step begins. Repeatable.",
        ),
        click.option(
            "--stragglers",
            type=click.Choice(["ideal"]),
            metavar="ideal",
            help="Give every worker the typical duration.",
        ),
    )(command)


def json_output(command: Command) -> Command:
    """Machine-readable result on stdout."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON (schema 1) instead of the report.")(command)


def outputs(command: Command) -> Command:
    """Files to write."""
    return click.option(
        "-o",
        "--output",
        "outputs",
        type=output_file,
        multiple=True,
        metavar="FILE",
        help="Write a file; its suffix decides: .html report, .json result, .pftrace or .trace.json timelines. "
        "Repeatable.",
    )(command)


def quiet(command: Command) -> Command:
    """Less text."""
    return click.option("--quiet", "-q", is_flag=True, help="Headline only, no progress.")(command)
