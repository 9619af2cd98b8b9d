"""Which devices a question is about, and how the step's ops change between them."""

from __future__ import annotations

from dataclasses import replace

import hwprofiles
from hwprofiles import HardwareProfile
from replay.core.errors import RefusedError
from replay.costs.cube_device import cube_device
from replay.graph.types import Graph
from replay.program.retiming import Retiming
from replay.session.question import Facts, Question
from replay.trace import Trace
from replay.whatif import hardware


def source_profile(trace: Trace, facts: Facts) -> HardwareProfile | None:
    """The profile of the device that was measured: the one given, else the one that lists the trace's device.

    Ascend's profiles name none; counters of their kernel tables tell cores and clock, and so a profile with as many.
    """
    return named_profile(trace, facts) or cube_device(trace, None)[1]


def named_profile(trace: Trace, facts: Facts) -> HardwareProfile | None:
    """The profile of a device that is named: by the user, else by the trace."""
    return hwprofiles.load(facts.source_hardware) if facts.source_hardware else hwprofiles.match(trace.device)


def retiming(graph: Graph, trace: Trace, question: Question, facts: Facts) -> Retiming | None:
    """How ``--hardware`` changes every op, ``None`` where it is not asked for or names the device measured.

    Raises :class:`RefusedError` where nothing says what the step was measured on.
    """
    if question.hardware is None:
        return None
    target, source = hwprofiles.load(question.hardware), source_profile(trace, facts)
    if source is None:
        named = (
            f"no profile lists the device {trace.device!r}" if trace.device else "the input does not name its device"
        )
        raise RefusedError(
            f"--hardware {question.hardware}: {named}; say what was measured with --source-hardware PROFILE "
            "(`replay profiles` lists them)"
        )
    if source == target:
        return None
    found = hardware.retime(graph, trace, hardware.Devices(source, target))
    return replace(found, warnings=(*_package_notes(target), *found.warnings, *guess_notes(trace, facts)))


def _package_notes(target: HardwareProfile) -> tuple[str, ...]:
    """That a profile is one of a package, of which a rank has one die."""
    die = f"{target.name}-die"
    if die not in hwprofiles.names():
        return ()
    return (f"{target.name} is a package of several dies, each of which is a rank's device: for one, --hardware {die}",)


def guess_notes(trace: Trace, facts: Facts) -> tuple[str, ...]:
    """How the device that was measured is known where counters tell it, in words."""
    if named_profile(trace, facts) is not None:
        return ()
    device, profile = cube_device(trace, None)
    return () if profile is None else (f"the device measured is taken for that of {profile.name}: {device.sentence}",)
