"""What the widths of an interval are multiplied with, and the model's own error per kind of change, learned from cases.

    width² = (measured factor x what the input itself varies)² + (re-timing factor x brackets of re-timed durations)²
             + sum over the changed sizes of floor²

The numbers are in ``interval_calibration.toml``, written by ``benchmarks/interval_calibration.py`` from measured pairs
(:mod:`replay.session.interval_fit`), apart for every device: how well the models hold on one says nothing of another.
For a device without cases the factors are 1 and the floors 0: widths as they are stated.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files

from replay.layout import Layout
from replay.session.interval import Part
from replay.session.question import Question
from replay.trace import Trace

FILE = "interval_calibration.toml"
CPU = "cpu"
BRACKETS = ("retiming",)  # parts whose width is a rule of grades; the others vary in the input itself
SIZES = ("tp", "pp", "vpp", "cp", "ep", "etp", "mbs", "gbs", "seq", "dispatcher", "world_size")
EDITS = tuple(question.name for question in fields(Question) if question.name != "layout")


@dataclass(frozen=True, slots=True)
class Calibration:
    """Factors of both families of widths, relative half-widths by size that changes, and from how many cases."""

    measured: float = 1.0
    retiming: float = 1.0
    floor: Mapping[str, float] = field(default_factory=dict)
    cases: int = 0

    def apply(self, parts: Iterable[Part], changed: Iterable[str]) -> tuple[Part, ...]:
        """``parts`` with calibrated widths, and the model's own error as one part more."""
        if not self.cases:
            return tuple(parts)
        scaled = [_times(part, self.retiming if part.kind in BRACKETS else self.measured) for part in parts]
        floors = {key: self.floor[key] for key in changed if self.floor.get(key)}
        if floors:
            width = sum(value**2 for value in floors.values()) ** 0.5
            what = f"the model's own error for a change of {', '.join(floors)}"
            scaled.append(Part.symmetric(width, f"{what}: ± {100 * width:.2f} %", "model"))
        return tuple(scaled)


@cache
def load(device: str) -> Calibration:
    """The calibration of a device that is installed with the package; neutral where there is none."""
    text = files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    stored = tomllib.loads(text)["device"].get(device)
    if stored is None:
        return Calibration()
    floors = {key: pct / 100 for key, pct in stored["floor_pct"].items()}
    return Calibration(stored["measured"], stored["retiming"], floors, stored["cases"])


def device_of(trace: Trace) -> str:
    """The device that a trace was recorded on, as calibrations name it: ``cpu`` where its operators are the compute."""
    return trace.device or (CPU if all(lane.device < 0 for lane in trace.lanes) else "")


def changed_sizes(source: Layout, target: Layout, question: Question) -> tuple[str, ...]:
    """Sizes and edits that make the target another job; what follows from them is left out."""
    sizes = [key for key in SIZES if getattr(source, key) != getattr(target, key)]
    if source.schedule != target.schedule and "vpp" not in sizes:  # interleaved follows from several chunks
        sizes.append("schedule")
    return (*sizes, *(name for name in EDITS if getattr(question, name)))


def _times(part: Part, factor: float) -> Part:
    if factor == 1.0:
        return part
    basis = f"{part.basis}, x {factor:.2f} by calibration"
    return replace(part, low=part.low * factor, high=part.high * factor, basis=basis)
