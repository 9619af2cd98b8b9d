"""HardwareProfile: parameters of a device and its links, each with unit, evidence grade and source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replay.core.errors import ProfileError
from replay.core.evidence import Grade

if TYPE_CHECKING:
    import pandas as pd

UNITS: dict[str, str] = {
    "bf16_flop_per_s": "FLOP/s",  # dense peak of the matrix units, BF16 or FP16 in, FP32 accumulation
    "fp8_flop_per_s": "FLOP/s",  # dense peak
    "int8_op_per_s": "OP/s",  # dense peak
    "fp32_flop_per_s": "FLOP/s",  # vector units
    "hbm_nbytes": "B",
    "hbm_bytes_per_s": "B/s",
    "l2_nbytes": "B",
    "cores": "1",  # SM, CU or AI cores
    "kernel_floor_ns": "ns",  # what a kernel costs that has nothing to do
    "devices_per_node": "1",  # devices that the intra-node link connects
    "intra_node_bytes_per_s": "B/s",  # one device to all others of its node, one direction
    "intra_node_pair_bytes_per_s": "B/s",  # one device to one other, one direction; full meshes only
    "intra_node_latency_ns": "ns",
    "inter_node_bytes_per_s": "B/s",  # one device to other nodes, one direction
    "inter_node_latency_ns": "ns",
}
"""Every parameter a profile may hold, and its unit. All are optional: what is not known is absent."""

_KEYS = {"value", "unit", "grade", "source", "stderr"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One number: ``stderr`` is in the same unit, ``None`` where no fit made it."""

    value: float
    unit: str
    grade: Grade
    source: str
    stderr: float | None = None


@dataclass(frozen=True, slots=True)
class HardwareProfile:
    """A device with its links. ``devices`` are the names under which traces report it."""

    name: str
    title: str
    devices: tuple[str, ...]
    parameters: dict[str, Parameter]

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

    def to_frame(self) -> pd.DataFrame:
        """One row per parameter."""
        import pandas as pd  # noqa: PLC0415 - only notebook users pay for it

        rows = [
            {"parameter": key, "value": p.value, "unit": p.unit, "stderr": p.stderr, "grade": p.grade.label,
             "source": p.source}
            for key, p in self.parameters.items()
        ]  # fmt: skip
        return pd.DataFrame(rows)


def profile_from(document: dict[str, Any], where: str) -> HardwareProfile:
    """A profile from a decoded TOML document; :class:`ProfileError` names file and field of what is wrong."""
    for key, kind in (("name", str), ("title", str), ("devices", list), ("parameters", dict)):
        if not isinstance(document.get(key), kind):
            raise ProfileError(f"{where}: needs `{key}` ({kind.__name__})")
    parameters = {name: _parameter(name, row, where) for name, row in document["parameters"].items()}
    return HardwareProfile(document["name"], document["title"], tuple(document["devices"]), parameters)


def _parameter(name: str, row: object, where: str) -> Parameter:
    at = f"{where}: parameters.{name}"
    if name not in UNITS:
        raise ProfileError(f"{at}: unknown parameter; known: {', '.join(UNITS)}")
    if not isinstance(row, dict) or not {"value", "unit", "grade", "source"} <= set(row) <= _KEYS:
        raise ProfileError(f"{at}: needs value, unit, grade and source (and may have stderr), nothing else")
    if row["unit"] != UNITS[name]:
        raise ProfileError(f"{at}: unit is {row['unit']!r}, must be {UNITS[name]!r}")
    value = row["value"]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ProfileError(f"{at}: value must be a positive number, got {value!r}")
    grades = {grade.label: grade for grade in Grade}
    if row["grade"] not in grades:
        raise ProfileError(f"{at}: grade {row['grade']!r} is none of {', '.join(grades)}")
    return Parameter(float(value), row["unit"], grades[row["grade"]], str(row["source"]), row.get("stderr"))
