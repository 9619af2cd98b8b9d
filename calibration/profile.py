"""Profiles from fits: start values out of a base profile, and fitted parameters into a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibration.fit import FitResult
from hwprofiles.fitted import Fitted, Score
from hwprofiles.parameter import Parameter
from hwprofiles.schema import HardwareProfile
from replay.core.dtypes import rate_parameter
from replay.core.evidence import Grade
from replay.cost_model import CostModel, ParameterSpec
from replay.samples import Samples


@dataclass(frozen=True, slots=True)
class Target:
    """The profile to make: its name, title and devices, and the profile it starts from, if any."""

    name: str
    title: str
    devices: tuple[str, ...] = ()
    base: HardwareProfile | None = None


def start_values(model: CostModel, base: HardwareProfile | None, dtype: str) -> dict[str, float]:
    """Values of the parameters that the base profile knows, inside their bounds."""
    found: dict[str, float] = {}
    for spec in model.parameters:
        known = _of_profile(spec, base, dtype)
        if known is not None:
            found[spec.name] = known.value if spec.given else float(np.clip(known.value, spec.low, spec.high))
    return found


def as_fitted(
    key: Mapping[str, str], samples: Samples, result: FitResult, scores: Mapping[str, Score],
    base: HardwareProfile | None,
) -> Fitted:  # fmt: skip
    """What a profile keeps of a fit: parameters with errors and grades, calibrated ranges, scores, sources."""
    used = samples.take(result.rows)
    source = _source(used)
    dtype = key.get("dtype", "")
    parameters = {
        spec.name: _parameter(spec, result, source, _of_profile(spec, base, dtype)) for spec in result.model.parameters
    }
    sizes = {name: used.size(name) for name in result.model.calibrated}
    return Fitted(
        model=result.model.name,
        key=dict(key),
        parameters=parameters,
        calibrated={name: (float(column.min()), float(column.max())) for name, column in sizes.items()},
        scores=dict(scores),
        samples=len(used),
        sources=tuple(sorted(used.source.present())),
    )


def profile_of(target: Target, fits: Sequence[Fitted]) -> HardwareProfile:
    """The base profile with the new fits; one of the same model and key is replaced."""
    replaced = {(fit.model, tuple(fit.key.items())) for fit in fits}
    base = target.base
    kept = [] if base is None else [f for f in base.fitted if (f.model, tuple(f.key.items())) not in replaced]
    ordered = sorted([*kept, *fits], key=lambda fit: (fit.model, tuple(fit.key.values())))
    devices = target.devices or (() if base is None else base.devices)
    parameters = {} if base is None else dict(base.parameters)
    return HardwareProfile(target.name, target.title, devices, parameters, tuple(ordered))


def _parameter(spec: ParameterSpec, result: FitResult, source: str, known: Parameter | None) -> Parameter:
    value = float(result.values[spec.name])
    if spec.name in result.stderr:
        return Parameter(value, spec.unit, Grade.FITTED, source, result.stderr[spec.name])
    if spec.given and known is not None:
        return replace(known, value=value, unit=spec.unit)
    why = result.held.get(spec.name, "the model's own value")
    return Parameter(value, spec.unit, Grade.ASSUMED, f"not fitted: {why}")


def _of_profile(spec: ParameterSpec, base: HardwareProfile | None, dtype: str) -> Parameter | None:
    if base is None or not spec.profile:
        return None
    return base.parameters.get(rate_parameter(dtype) if "{dtype}" in spec.profile else spec.profile)


def _source(used: Samples) -> str:
    """Files and software of the samples, shortened where there are many."""
    names = sorted(used.source.present())
    files = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    software = ", ".join(sorted(filter(None, used.software.present())))
    return f"fit of {len(used)} samples of {files}" + (f" ({software})" if software else "")
