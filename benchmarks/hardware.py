"""Kernel time by class of op on one device predicted from a trace of the same step on another.

``python -m benchmarks.hardware TRACE PROFILE TRACE PROFILE``: predicts each trace on the other's profile and prints, by
class, the total predicted, the total measured there, the error, its grade, and whether the total lies between the ends
of what is known about it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import hwprofiles
from hwprofiles import HardwareProfile
from parsers import read
from replay.core.columns import Float64, Int64
from replay.core.evidence import Grade
from replay.core.units import ns_to_ms, percent
from replay.graph.build import build
from replay.graph.types import Graph
from replay.program.op_class import OpClass, op_classes
from replay.trace import Trace
from replay.whatif.hardware import Devices, retime

DEVICE_CLASSES = (OpClass.GEMM, OpClass.ATTENTION, OpClass.CONVOLUTION, OpClass.MEMORY, OpClass.COLLECTIVE)


@dataclass(frozen=True, slots=True)
class Side:
    """One trace, the graph of its median step, and the profile of its device."""

    trace: Trace
    graph: Graph
    profile: HardwareProfile
    classes: Int64

    @classmethod
    def read(cls, path: Path, profile: str) -> Side:
        """From a trace file."""
        trace = read([path])
        if not isinstance(trace, Trace):
            raise SystemExit(f"{path} is no trace of device ops")
        graph = build(trace)
        return cls(trace, graph, hwprofiles.load(profile), op_classes(graph).astype(np.int64))

    def totals_ms(self, factor: Float64 | float = 1.0) -> dict[OpClass, float]:
        """Summed durations by class, each op's times ``factor``."""
        weights = self.graph.duration_ns * factor
        return {c: ns_to_ms(float(weights[self.classes == c].sum())) for c in DEVICE_CLASSES}


def compare(source: Side, target: Side) -> None:
    """Predict the source on the target's device and print both."""
    retiming = retime(source.graph, source.trace, Devices(source.profile, target.profile))
    predicted, low, high = (source.totals_ms(f) for f in (retiming.factor, retiming.low, retiming.high))
    measured = target.totals_ms()
    sys.stdout.write(f"{source.profile.name} -> {target.profile.name}\n")
    sys.stdout.write(f"{'class':12}{'predicted ms':>14}{'measured ms':>13}{'error %':>9}  inside  weakest grade\n")
    for op_class in DEVICE_CLASSES:
        if not measured[op_class] and not predicted[op_class]:
            continue
        error = percent(predicted[op_class] - measured[op_class], measured[op_class])
        inside = "yes" if low[op_class] <= measured[op_class] <= high[op_class] else "no"
        grade = Grade(int(retiming.grade[source.classes == op_class].max(initial=0)))
        numbers = f"{predicted[op_class]:14.3f}{measured[op_class]:13.3f}{error:9.1f}"
        sys.stdout.write(f"{op_class.label:12}{numbers}  {inside:6}  {grade.label}\n")
    total = percent(sum(predicted.values()) - sum(measured.values()), sum(measured.values()))
    sys.stdout.write(f"{'all':12}{sum(predicted.values()):14.3f}{sum(measured.values()):13.3f}{total:9.1f}\n")


def main(arguments: Sequence[str]) -> None:
    """Both directions."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hardware", description=__doc__)
    for name in ("first", "first_profile", "second", "second_profile"):
        parser.add_argument(name, type=str if name.endswith("profile") else Path)
    given = parser.parse_args(arguments)
    first, second = Side.read(given.first, given.first_profile), Side.read(given.second, given.second_profile)
    compare(first, second)
    compare(second, first)


if __name__ == "__main__":
    main(sys.argv[1:])
