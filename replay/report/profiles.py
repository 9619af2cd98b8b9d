"""Hardware profiles in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hwprofiles import HardwareProfile, load
from hwprofiles.fitted import Fitted
from hwprofiles.parameter import Parameter
from replay.report.console import console
from replay.report.text_tables import heading, new_table


def render_profiles(names: Sequence[str], out: TextIO) -> None:
    """Name, title, number of parameters and of fits of each profile, one a line."""
    table = new_table("profile", "device", "parameters", "fits", left=2)
    for name in names:
        profile = load(name)
        table.add_row(name, escape(profile.title), str(len(profile.parameters)), str(len(profile.fitted)))
    console(out).print(table)


def render_profile(profile: HardwareProfile, out: TextIO) -> None:
    """Every parameter with unit, evidence grade and source; the links; every fit with ranges and scores."""
    sections = (_parameters, _links, _fits)
    console(out).print(Text(profile.title, style="bold"))
    console(out).print(Group(*(item for section in sections for item in section(profile))))


def compare_profiles(first: HardwareProfile, second: HardwareProfile, out: TextIO) -> None:
    """Parameters of two profiles side by side, with their ratio; then fits that both have."""
    table = new_table("parameter", "unit", first.name, second.name, "ratio", left=2)
    for name in dict.fromkeys((*first.parameters, *second.parameters)):
        table.add_row(*_compared(name, first.parameters.get(name), second.parameters.get(name)))
    for fit, other in ((fit, second.fit(fit.model, **fit.key)) for fit in first.fitted):
        if other is not None:
            for name, parameter in fit.parameters.items():
                table.add_row(*_compared(f"{_label(fit)}.{name}", parameter, other.parameters.get(name)))
    console(out).print(Text(f"{first.title} against {second.title}", style="bold"))
    console(out).print(table)


def _parameters(profile: HardwareProfile) -> Iterable[RenderableType]:
    table = Table("parameter", "value", "unit", "grade", "source", box=None, pad_edge=False)
    for name, parameter in profile.parameters.items():
        table.add_row(name, _value(parameter), parameter.unit, parameter.grade.label, escape(parameter.source))
    yield table


def _links(profile: HardwareProfile) -> Iterable[RenderableType]:
    topology = profile.topology
    yield heading("Links, from the inside out")
    table = new_table("tier", "devices", "GB/s a device", "latency us")
    for tier in topology.tiers:
        devices = "any" if tier.devices is None else str(tier.devices)
        rate = "-" if tier.bytes_per_s is None else f"{tier.bytes_per_s / 1e9:,.4g}"
        table.add_row(tier.name, devices, rate, "-" if tier.latency_ns is None else f"{tier.latency_ns / 1e3:,.4g}")
    yield table


def _fits(profile: HardwareProfile) -> Iterable[RenderableType]:
    for fit in profile.fitted:
        yield heading(f"{_label(fit)}: {fit.samples:,} samples of {', '.join(fit.sources)}")
        ranges = ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in fit.calibrated.items())
        scores = ", ".join(f"{split} {s.median_pct:.1f} / {s.p90_pct:.1f}" for split, s in fit.scores.items())
        yield Text(f"  calibrated for {ranges or 'any size'}; outside it is extrapolated")
        yield Text(f"  errors in %, median / 90th percentile: {scores or 'not scored'}")
        table = new_table("  parameter", "unit", "grade", "value", left=3)
        for name, parameter in fit.parameters.items():
            table.add_row(f"  {name}", parameter.unit, parameter.grade.label, _value(parameter))
        yield table


def _label(fit: Fitted) -> str:
    return " ".join((fit.model, *filter(None, fit.key.values())))


def _value(parameter: Parameter) -> str:
    error = "" if parameter.stderr is None else f" ± {parameter.stderr:.2g}"
    return f"{parameter.value:.6g}{error}"


def _compared(name: str, first: Parameter | None, second: Parameter | None) -> tuple[str, ...]:
    known = first or second
    ratio = f"{second.value / first.value:.3g}" if first and second and first.value else "-"
    return (
        name,
        known.unit if known else "",
        _value(first) if first else "-",
        _value(second) if second else "-",
        ratio,
    )
