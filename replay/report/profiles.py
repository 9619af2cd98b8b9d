"""Hardware profiles in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.table import Table

from hwprofiles import HardwareProfile, load
from replay.report.console import console


def render_profiles(names: Sequence[str], out: TextIO) -> None:
    """Name and title of each profile, one a line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name in names:
        table.add_row(name, load(name).title)
    console(out).print(table)


def render_profile(profile: HardwareProfile, out: TextIO) -> None:
    """Every parameter with unit, evidence grade and source."""
    table = Table("parameter", "value", "unit", "grade", "source", box=None, pad_edge=False)
    for name, parameter in profile.parameters.items():
        error = "" if parameter.stderr is None else f" ± {parameter.stderr:.2g}"
        table.add_row(name, f"{parameter.value:.6g}{error}", parameter.unit, parameter.grade.label, parameter.source)
    console(out).print(profile.title, style="bold", markup=False)
    console(out).print(table)
