"""HardwareProfile: parameters of a device and its links, each with unit, evidence grade and source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hwprofiles.fitted import Fitted, fitted_from
from hwprofiles.parameter import Parameter, parameter_from
from hwprofiles.topology import Tier, Topology
from replay.core.errors import ProfileError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["UNITS", "HardwareProfile", "Parameter", "profile_from"]

UNITS: dict[str, str] = {
    "bf16_flop_per_s": "FLOP/s",  # dense peak of the matrix units, BF16 or FP16 in, FP32 accumulation
    "fp8_flop_per_s": "FLOP/s",  # dense peak
    "int8_op_per_s": "OP/s",  # dense peak
    "tf32_flop_per_s": "FLOP/s",  # dense peak of the matrix units, FP32 with a short mantissa (TF32, HF32)
    "fp32_flop_per_s": "FLOP/s",  # FP32 throughout: vector units, on Ascend the cubes
    "vector_flop_per_s": "FLOP/s",  # vector units at the data type of activations, where they are a device of their own
    "hbm_nbytes": "B",
    "hbm_bytes_per_s": "B/s",
    "l2_nbytes": "B",
    "l2_bytes_per_s": "B/s",
    "cores": "1",  # SM, CU or AI cores
    "vector_cores": "1",  # where they are not the same cores
    "cube_side": "1",  # rows and columns of the blocks that matrix units multiply whole (Ascend: 16)
    "clock_hz": "Hz",
    "kernel_floor_ns": "ns",  # what a kernel costs that has nothing to do
    "devices_per_node": "1",  # devices that the intra-node link connects
    "intra_node_bytes_per_s": "B/s",  # one device to all others of its node, one direction
    "intra_node_pair_bytes_per_s": "B/s",  # one device to one other, one direction; full meshes only
    "intra_node_latency_ns": "ns",
    "devices_per_super_node": "1",  # devices that the super-node link connects (NVLink domain, CloudMatrix)
    "super_node_bytes_per_s": "B/s",  # one device to other nodes of its super-node, one direction
    "super_node_latency_ns": "ns",
    "nics_per_device": "1",  # network cards over devices of a node
    "inter_node_bytes_per_s": "B/s",  # one device to other nodes, one direction
    "inter_node_latency_ns": "ns",
}
"""Every parameter a profile may hold, and its unit. All are optional: what is not known is absent."""

_FIELDS = {"name", "title", "devices", "parameters", "fitted"}


@dataclass(frozen=True, slots=True)
class HardwareProfile:
    """A device with its links. ``devices`` are the names under which traces report it.

    ``fitted`` holds what calibration determined: the parameters of cost models, apart from the device's own numbers.
    """

    name: str
    title: str
    devices: tuple[str, ...]
    parameters: dict[str, Parameter]
    fitted: tuple[Fitted, ...] = ()

    def get(self, name: str) -> float | None:
        """Value of a parameter, ``None`` where the profile does not have it."""
        parameter = self.parameters.get(name)
        return None if parameter is None else parameter.value

    def value(self, name: str) -> float:
        """Value of a parameter; :class:`ProfileError` names it where the profile does not have it."""
        found = self.get(name)
        if found is None:
            raise ProfileError(f"profile {self.name} has no {name} ({UNITS.get(name, 'unknown parameter')}); add it")
        return found

    def fit(self, model: str, **key: str) -> Fitted | None:
        """What was fitted of a cost model under a key (``op="gemm", dtype="bf16"``); ``None`` where nothing was.

        A key that names fewer words than the fit matches the first fit that agrees with it.
        """
        return next(
            (f for f in self.fitted if f.model == model and all(f.key.get(k) == v for k, v in key.items())), None
        )

    @property
    def topology(self) -> Topology:
        """Tiers of links from a pair of devices outwards, as far as the profile knows them."""
        tiers = []
        if "intra_node_pair_bytes_per_s" in self.parameters:
            tiers.append(Tier("pair", 2, self.get("intra_node_pair_bytes_per_s"), self.get("intra_node_latency_ns")))
        for tier, devices in (("intra_node", "devices_per_node"), ("super_node", "devices_per_super_node")):
            if (number := self.get(devices)) is not None:
                tiers.append(Tier(tier, int(number), self.get(f"{tier}_bytes_per_s"), self.get(f"{tier}_latency_ns")))
        tiers.append(Tier("inter_node", None, self.get("inter_node_bytes_per_s"), self.get("inter_node_latency_ns")))
        return Topology(tuple(tiers), self.get("nics_per_device"))

    def to_frame(self) -> pd.DataFrame:
        """One row per parameter; those of fitted models are named ``model[key].parameter``."""
        import pandas as pd  # noqa: PLC0415 - only notebook users pay for it

        named = dict(self.parameters)
        for fit in self.fitted:
            label = f"{fit.model}[{', '.join(fit.key.values())}]"
            named |= {f"{label}.{name}": parameter for name, parameter in fit.parameters.items()}
        rows = [
            {"parameter": key, "value": p.value, "unit": p.unit, "stderr": p.stderr, "grade": p.grade.label,
             "source": p.source}
            for key, p in named.items()
        ]  # fmt: skip
        return pd.DataFrame(rows)


def profile_from(document: dict[str, Any], where: str) -> HardwareProfile:
    """A profile from a decoded TOML document; :class:`ProfileError` names file and field of what is wrong."""
    for key, kind in (("name", str), ("title", str), ("devices", list), ("parameters", dict)):
        if not isinstance(document.get(key), kind):
            raise ProfileError(f"{where}: needs `{key}` ({kind.__name__})")
    if unknown := set(document) - _FIELDS:
        raise ProfileError(f"{where}: unknown field `{min(unknown)}`; known: {', '.join(sorted(_FIELDS))}")
    fits = document.get("fitted", [])
    if not isinstance(fits, list):
        raise ProfileError(f"{where}: `fitted` must be a list of tables, each beginning with [[fitted]]")
    parameters = {name: _device_parameter(name, row, where) for name, row in document["parameters"].items()}
    fitted = tuple(fitted_from(row, f"{where}: fitted[{i}]") for i, row in enumerate(fits))
    return HardwareProfile(document["name"], document["title"], tuple(document["devices"]), parameters, fitted)


def _device_parameter(name: str, row: object, where: str) -> Parameter:
    """A parameter of the device: its name and unit are fixed, and it is positive."""
    at = f"{where}: parameters.{name}"
    if name not in UNITS:
        raise ProfileError(f"{at}: unknown parameter; known: {', '.join(UNITS)}")
    parameter = parameter_from(row, at)
    if parameter.unit != UNITS[name]:
        raise ProfileError(f"{at}: unit is {parameter.unit!r}, must be {UNITS[name]!r}")
    if parameter.value <= 0:
        raise ProfileError(f"{at}: value must be a positive number, got {parameter.value!r}")
    return parameter
