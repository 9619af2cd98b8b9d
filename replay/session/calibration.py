"""Calibrate from files: sources to samples, samples to a profile, the profile and its report to files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

import hwprofiles
from calibration.fit import FitOptions
from calibration.loss import Loss
from calibration.prediction import predict
from calibration.profile import Target
from calibration.run import Calibration
from calibration.run import calibrate as fit_all
from calibration.trace_samples import samples_of_trace
from hwprofiles.schema import HardwareProfile
from hwprofiles.write import to_toml
from parsers import read
from parsers.samples import ascend_kernels, find_samples
from parsers.samples._mapping import load as load_mapping
from replay.core.errors import RefusedError, ReplayError, TraceError
from replay.costs.counted_device import counted_device
from replay.report.calibration.document import document
from replay.samples import Samples
from replay.session.write import require_bokeh, writing
from replay.trace import Trace

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What to calibrate: the profile's name, the profile it starts from, the device whose samples count.

    ``device`` is matched anywhere in the device names of the samples, whatever the case. What ``score`` holds is not
    fitted but predicted from the profile made. ``learned``: learn corrections too.
    """

    name: str
    base: str = ""
    device: str = ""
    mapping: Path | None = None
    robust: bool = True
    learned: bool = False
    score: tuple[Path, ...] = ()


def calibrate(sources: Sequence[Path], request: Request, progress: Progress = lambda _stage: None) -> Calibration:
    """The calibration of all samples behind files and folders.

    :class:`RefusedError` where the samples are of several devices and none is chosen.
    """
    progress("reading")
    samples = of_device(_samples(sources, request), request.device)
    target = _target(samples, request)
    options = FitOptions(loss=Loss.ROBUST if request.robust else Loss.PLAIN, learned=request.learned)
    unseen = of_device(_samples(request.score, request), request.device) if request.score else None
    found = fit_all(samples, target, options, progress)
    if unseen is None:
        return found
    predicted, notes = predict(found.profile, unseen)
    return replace(found, predicted=predicted, notes=(*found.notes, *unseen.notes, *notes))


def _samples(sources: Sequence[Path], request: Request) -> Samples:
    """Samples of logs and tables, and of the trace that the files of no such kind belong to, if they do."""
    mapping = load_mapping(request.mapping) if request.mapping else None
    found = find_samples(sources, mapping)
    recorded = _trace(sources) if found.unknown else None
    if recorded is None:
        return found.merged()
    if recorded.not_replayable and found.parts:  # tables of a trace whose timeline is missing: they gave what they have
        return replace(found, unknown=()).merged()
    try:
        timed = samples_of_trace(recorded)
    except ReplayError as error:
        if not found.parts:
            raise
        return replace(found, unknown=(str(error),)).merged()
    if any(part.software.equal(ascend_kernels.SOFTWARE).any() for part in found.parts):
        timed = timed.take(~timed.op.equal("gemm"))  # the kernel table has these, and those of the other steps
    return replace(found, parts=(*found.parts, timed), unknown=()).merged()


def _trace(sources: Sequence[Path]) -> Trace | None:
    """The trace behind the sources, ``None`` where they hold none that can be read."""
    try:
        recorded = read(sources)
    except TraceError:
        return None
    return recorded if isinstance(recorded, Trace) else None


def of_device(samples: Samples, device: str) -> Samples:
    """The samples of one device; those that name no device count for any."""
    named = [name for name in samples.device.present() if name]
    chosen = [name for name in named if device.lower() in name.lower()]
    if device and not chosen:
        raise RefusedError(f"no samples of {device!r}; the devices are {', '.join(named) or 'not named'}")
    if len(chosen) > 1:
        raise RefusedError(
            f"the samples are of several devices ({', '.join(chosen)}); choose one with --device, since one profile "
            "describes one device"
        )
    if len(chosen) == len(named):
        return samples
    return samples.take(samples.device.equal(chosen[0]) | samples.device.equal(""))


def write_profile(profile: HardwareProfile, path: Path) -> None:
    """The profile as TOML."""
    with writing(path):
        path.write_text(to_toml(profile), encoding="utf-8")


def write_report(found: Calibration, path: Path) -> None:
    """The HTML report."""
    require_bokeh(path)
    from replay.report.html import calibration_page  # noqa: PLC0415 - an extra, and slow to import

    with writing(path):
        path.write_text(calibration_page.page(found), encoding="utf-8")


def to_bytes(found: Calibration) -> bytes:
    """The JSON document, indented."""
    return orjson.dumps(document(found), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _target(samples: Samples, request: Request) -> Target:
    """What to make: based on the profile named, else on the one that lists the device of the samples, if any."""
    devices = tuple(name for name in samples.device.present() if name)
    base = hwprofiles.load(request.base) if request.base else _of_devices(devices)
    if base is None and (counted := counted_device(samples)) is not None:
        return Target(request.name, counted.title, devices, counted)
    title = base.title if base is not None else ", ".join(devices) or request.name
    known = base.devices if base is not None else ()
    return Target(request.name, title, tuple(dict.fromkeys((*known, *devices))), base)


def _of_devices(devices: Sequence[str]) -> HardwareProfile | None:
    return next((found for device in devices if (found := hwprofiles.match(device)) is not None), None)
