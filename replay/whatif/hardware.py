"""``--hardware PROFILE``: the same step on another device, op by op (R1: measured x model(new) / model(old)).

* GEMMs by their shapes where operators tell them, else by the rate of the matrix units;
* attention and convolutions by the rate of the matrix units;
* everything else on the device by memory bandwidth: what a kernel took beyond the floor of an empty one;
* collectives by the model of both profiles' links at the same bytes and ranks, laid out on each device's nodes; kernels
  that also multiply like them, with an interval that reaches to the rate of the matrix units;
* the host, and copies between host and device, stay as measured: a profile says nothing of hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hwprofiles import HardwareProfile
from replay.core.columns import Float64, Int64
from replay.core.errors import RefusedError
from replay.core.evidence import Grade
from replay.core.units import ns_to_ms
from replay.graph.types import Graph, OpKind
from replay.program.fused import is_fused
from replay.program.links import Moved, devices_per_node, modelled
from replay.program.op_class import OpClass, op_classes
from replay.program.retiming import Change, Retiming
from replay.program.table_products import table_products
from replay.trace import CollectiveKind, Trace
from replay.whatif._matrix_ratios import FITTED, OPTION, Doubt, by_name, gemm_ratios, matrix_rate, shaped

LEVEL = "graph"
MEMORY = (0.8, 1.25)  # sustained shares of the bandwidth range from 0.67 (B200) to 0.91 (A100), SimuMax
LINKS = (0.8, 1.6)  # bus bandwidth reaches 0.6 to 1.05 of the datasheet's link on A100 and H100 (nccl-tests)
UNKNOWN = (0.5, 2.0)

EXPLAINED = 3.0
"""A model explains a transfer that took up to this many times as long; beyond, something else held it up."""

_MATRIX_CLASSES = (OpClass.GEMM, OpClass.ATTENTION, OpClass.CONVOLUTION)


@dataclass(frozen=True, slots=True)
class Devices:
    """The device that was measured and the one asked for."""

    source: HardwareProfile
    target: HardwareProfile

    def __iter__(self) -> Iterator[HardwareProfile]:
        return iter((self.source, self.target))


@dataclass(slots=True)
class _Ratios:
    """New over old duration of every op, being filled in."""

    factor: Float64
    low: Float64
    high: Float64
    grade: Int64
    reason: Int64
    formulas: list[str]

    @classmethod
    def unchanged(cls, graph: Graph) -> _Ratios:
        """Every op as it was measured."""
        one = np.ones(len(graph))
        return cls(one, one.copy(), one.copy(), graph.grade.astype(np.int64), np.full(len(graph), -1, np.int64), [])

    def put(self, ops: Int64, factor: Float64 | float, known: tuple[Int64 | int, Doubt], formula: str) -> None:
        """Set the ratio of some ops; ``known`` is its grade and doubt."""
        grade, (low, high) = known
        self.factor[ops], self.grade[ops], self.reason[ops] = factor, grade, len(self.formulas)
        self.low[ops], self.high[ops] = low * np.asarray(factor), high * np.asarray(factor)
        self.formulas.append(formula)

    def widen(self, ops: Int64, bounds: tuple[float, float], formula: str) -> None:
        """Ratios of some ops may also lie between ``bounds``: assumed."""
        self.low[ops], self.high[ops] = np.minimum(self.low[ops], bounds[0]), np.maximum(self.high[ops], bounds[1])
        self.grade[ops], self.reason[ops] = Grade.ASSUMED, len(self.formulas)
        self.formulas.append(formula)


def retime(graph: Graph, trace: Trace, devices: Devices) -> Retiming:
    """Ratios of all ops. Raises :class:`RefusedError` where a profile lacks what the step's work needs."""
    classes = op_classes(graph).astype(np.int64)
    ratios = _Ratios.unchanged(graph)
    _put_memory(ratios, graph, np.flatnonzero(classes == OpClass.MEMORY), devices)
    _put_matrix(ratios, graph, trace, classes, devices)
    warnings = _put_collectives(ratios, graph, np.flatnonzero(graph.kind == OpKind.TRANSFER), devices)
    _widen_fused(ratios, np.flatnonzero(is_fused(graph)), devices)
    grade = np.maximum(ratios.grade, graph.grade).astype(np.int8)
    changes = tuple(_changes(graph, classes, ratios))
    return Retiming(
        ratios.factor, ratios.low, ratios.high, grade, ratios.reason.astype(np.int32), tuple(ratios.formulas), changes,
        (*warnings, "host work and copies between host and device stay as measured: a profile says nothing of hosts"),
    )  # fmt: skip


def _put_memory(ratios: _Ratios, graph: Graph, ops: Int64, devices: Devices) -> None:
    """floor' + (t - floor) · bandwidth / bandwidth' where both profiles tell the floor, else t in that proportion."""
    if not len(ops):
        return
    old, new = (_needed(profile, "hbm_bytes_per_s") for profile in devices)
    floors = [profile.get("kernel_floor_ns") for profile in devices]
    before, after = (floors[0], floors[1]) if None not in floors else (0.0, 0.0)
    time = np.maximum(graph.duration_ns[ops].astype(np.float64), 1.0)
    streaming = np.maximum(time - (before or 0.0), 0.0)
    empty = (time - streaming) * (after or 0.0) / (before or 1.0)
    formula = f"measured x memory bandwidth {old / 1e12:.2f} / {new / 1e12:.2f} TB/s"
    known = max(Grade.DATASHEET, *(profile.parameters["hbm_bytes_per_s"].grade for profile in devices))
    ratios.put(ops, (empty + streaming * old / new) / time, (known, MEMORY), formula)


def _put_matrix(ratios: _Ratios, graph: Graph, trace: Trace, classes: Int64, devices: Devices) -> None:
    """GEMMs with shapes by the cost function; the rest of the matrix work by the rate of the matrix units."""
    table = table_products(graph, trace)
    work = np.flatnonzero(np.isin(classes, _MATRIX_CLASSES) | table.known)
    for dtype, ops in table.by_dtype(work):
        for word, some in ((dtype, ops),) if dtype else by_name(graph, ops):
            ratios.put(some, *matrix_rate(devices.source, devices.target, word))
    gemms = (classes == OpClass.GEMM) | table.known
    for ops, ratio, known, formula in gemm_ratios(devices.source, devices.target, shaped(graph, trace, table, gemms)):
        ratios.put(ops, ratio, known, formula)


def _put_collectives(ratios: _Ratios, graph: Graph, ops: Int64, devices: Devices) -> tuple[str, ...]:
    """Ratios of transfers by kind, bytes and ranks; unknown ones stay as measured, graded assumed, and are counted."""
    rows = graph.comm[ops]
    comms, lost = graph.comms, 0
    keys = np.stack([comms.kind[rows].astype(np.int64), comms.group[rows].astype(np.int64), comms.nbytes[rows]], axis=1)
    for key in np.unique(keys, axis=0):
        chosen = ops[(keys == key).all(axis=1)]
        kind, group, nbytes = CollectiveKind(int(key[0])), int(key[1]), float(key[2])
        times = [_collective(graph, profile, kind, group, nbytes) for profile in devices]
        if times[0] is None or times[1] is None or times[0][0] <= 0:
            lost += len(chosen)
            ratios.put(chosen, 1.0, (Grade.ASSUMED, UNKNOWN), "as measured: bytes, ranks or links are not known")
            continue
        grade = max(times[0][1], times[1][1])
        ratio, how = _moved(graph.duration_ns[chosen].astype(np.float64), times[0][0], times[1][0])
        known = (grade, FITTED if grade <= Grade.FITTED else LINKS)
        ratios.put(chosen, ratio, known, f"{how} {kind.name.lower()} of both profiles ({times[1][2]})")
    return (f"{lost} transfers keep their time: bytes, ranks or links are not known",) if lost else ()


def _widen_fused(ratios: _Ratios, ops: Int64, devices: Devices) -> None:
    """Kernels that multiply and communicate in one: their links, or their product where that is longer."""
    if not len(ops):
        return
    rate, (_, (low, high)), _ = matrix_rate(devices.source, devices.target, "bf16")
    formula = (
        f"measured x links of both profiles, or x {rate:.2f} by the matrix rate: nothing tells which part is longer"
    )
    ratios.widen(ops, (low * rate, high * rate), formula)


def _moved(measured_ns: Float64, old_ns: float, new_ns: float) -> tuple[Float64, str]:
    """Ratio of a transfer, and in words: new / old where the old model explains what was measured to a factor of 3.

    What it does not explain (latency that a datasheet lacks) stays, and the explained part changes.
    """
    measured = np.maximum(measured_ns, 1.0)
    if float(np.median(measured)) <= EXPLAINED * old_ns:
        return np.full(len(measured), new_ns / old_ns), "measured x"
    return (np.maximum(measured - old_ns, 0.0) + new_ns) / measured, "measured - old + new"


def _collective(
    graph: Graph, profile: HardwareProfile, kind: CollectiveKind, group: int, nbytes: float
) -> tuple[float, Grade, str] | None:
    """Modelled time of one collective on a device, with its grade and formula."""
    ranks = graph.groups[group].ranks if group >= 0 else ()
    size = len(ranks) or (graph.groups[group].size if group >= 0 else -1)
    if size < 1 or nbytes < 0:
        return None
    moved = Moved(kind, max(nbytes, 1.0), ranks or tuple(range(size)))
    found = modelled(profile, moved, devices_per_node(profile))
    return None if found is None else (float(found.time_ns[0]), Grade(int(found.grade[0])), found.formula)


def _needed(profile: HardwareProfile, name: str) -> float:
    value = profile.get(name)
    if value is None:
        raise RefusedError(
            f"{OPTION}: the profile {profile.name} has no {name}, which kernels need; add it to the profile, or "
            "calibrate it with --base NAME"
        )
    return value


def _changes(graph: Graph, classes: Int64, ratios: _Ratios) -> Iterator[Change]:
    """One row per class of ops and formula: calls and total time before and after, the longest first."""
    touched = ratios.reason >= 0
    first = np.array([ratios.formulas.index(formula) for formula in ratios.formulas] or [0], np.int64)
    reasons = np.where(touched, first[ratios.reason], -1)  # sizes of one collective share a formula
    keys = np.stack([classes[touched].astype(np.int64), reasons[touched]], axis=1)
    rows = []
    for op_class, reason in np.unique(keys, axis=0).tolist():
        chosen = (classes == op_class) & (reasons == reason)
        before = float(graph.duration_ns[chosen].sum())
        after = float((graph.duration_ns[chosen] * ratios.factor[chosen]).sum())
        calls = {"calls": float(chosen.sum())}
        grade = Grade(int(ratios.grade[chosen].max()))
        rows.append(
            Change(
                OpClass(op_class).label,
                calls | {"total_ms": ns_to_ms(before)},
                calls | {"total_ms": ns_to_ms(after)},
                ratios.formulas[reason],
                grade,
            )
        )
    yield from sorted(rows, key=lambda change: -change.before["total_ms"])
