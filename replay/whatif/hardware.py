"""``--hardware PROFILE``: the same step on another device, op by op (R1: measured x model(new) / model(old)).

* GEMMs by their shapes where operators tell them, else by the rate of the matrix units;
* attention and convolutions by the rate of the matrix units;
* everything else on the device by memory bandwidth: what a kernel took beyond the floor of an empty one;
* collectives by the model of both profiles' links at the same bytes and ranks, laid out on each device's nodes;
* the host, and copies between host and device, stay as measured: a profile says nothing of hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hwprofiles import HardwareProfile
from replay.core.columns import Bool, Float64, Int64
from replay.core.dtypes import Elements, first_of, matrix_elements
from replay.core.errors import RefusedError
from replay.core.evidence import Grade
from replay.core.units import ns_to_ms
from replay.costs import gemm
from replay.costs.engine import GradedEngine, engine_of
from replay.graph.types import Graph, OpKind
from replay.program.gemm_shapes import GemmShapes, gemm_shapes
from replay.program.links import Moved, devices_per_node, modelled
from replay.program.op_class import OpClass, op_classes
from replay.program.origins import origins
from replay.program.retiming import Change, Retiming
from replay.trace import CollectiveKind, Trace

LEVEL = "graph"
OPTION = "--hardware"

Doubt = tuple[float, float]
"""New duration at the ends of what is known about it, as shares of the predicted one."""

FITTED = (0.85, 1.15)  # held-out errors of fitted tables: 90 % of GEMMs within 15 to 20 %
DATASHEET_GEMM = (0.95, 1.8)
"""A GEMM on a device known by its datasheet: sustained shares of the peak range from 0.93 (A100) down to 0.48 (B200,
median of SimuMax's 514 shapes), and 0.88 is assumed."""
KERNEL = (0.5, 2.0)  # attention and what tells no shape: another device means another kernel as well
MEMORY = (0.8, 1.25)  # sustained shares of the bandwidth range from 0.67 (B200) to 0.91 (A100), SimuMax
LINKS = (0.8, 1.6)  # bus bandwidth reaches 0.6 to 1.05 of the datasheet's link on A100 and H100 (nccl-tests)
UNKNOWN = (0.5, 2.0)

EXPLAINED = 3.0
"""A model explains a transfer that took up to this many times as long; beyond, something else held it up."""

BF16 = Elements(2, 2, 2)
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


def retime(graph: Graph, trace: Trace, devices: Devices) -> Retiming:
    """Ratios of all ops. Raises :class:`RefusedError` where a profile lacks what the step's work needs."""
    classes = op_classes(graph).astype(np.int64)
    ratios = _Ratios.unchanged(graph)
    _put_memory(ratios, graph, np.flatnonzero(classes == OpClass.MEMORY), devices)
    _put_matrix(ratios, graph, trace, classes, devices)
    warnings = _put_collectives(ratios, graph, np.flatnonzero(graph.kind == OpKind.TRANSFER), devices)
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
    ratios.put(ops, (empty + streaming * old / new) / time, (Grade.DATASHEET, MEMORY), formula)


def _put_matrix(ratios: _Ratios, graph: Graph, trace: Trace, classes: Int64, devices: Devices) -> None:
    """GEMMs with shapes by the cost function; the rest of the matrix work by the rate of the matrix units."""
    work = np.flatnonzero(np.isin(classes, _MATRIX_CLASSES))
    if not len(work):
        return
    engines = _engines(devices, "bf16")
    rate = engines[0].engine.flop_per_s / engines[1].engine.flop_per_s
    formula = f"measured x matrix rate {engines[0].engine.flop_per_s / 1e12:.0f} / "
    formula += f"{engines[1].engine.flop_per_s / 1e12:.0f} TFLOP/s"
    weaker = max(engines[0].grade, engines[1].grade)
    ratios.put(work, rate, (max(weaker, Grade.EXTRAPOLATED), KERNEL), formula)
    gemms = classes == OpClass.GEMM
    shapes = gemm_shapes(graph, trace, origins(graph, trace), gemms)
    for dtype, ops in _by_dtype(trace, shapes, gemms):
        engines = _engines(devices, dtype)
        sizes = _sizes(shapes, ops)
        old, new = (_gemm_ns(sizes, dtype, engine) for engine in engines)
        grade = np.maximum(*(engine.grades(sizes) for engine in engines)).astype(np.int64)
        formula = f"measured x GEMM model(new) / model(old), {dtype}, by shape"
        ratios.put(ops, new / old, (grade, _gemm_doubt(engines)), formula)


def _gemm_doubt(engines: tuple[GradedEngine, GradedEngine]) -> Doubt:
    """Of a ratio new / old: the doubts of the new device, and those of the old one the other way round."""
    low, high = FITTED
    for engine, (least, most) in zip(
        engines, ((1 / DATASHEET_GEMM[1], 1 / DATASHEET_GEMM[0]), DATASHEET_GEMM), strict=True
    ):
        if engine.grade is not Grade.FITTED:
            low, high = min(low, low * least), max(high, high * most)
    return low, high


def _by_dtype(trace: Trace, shapes: GemmShapes, gemms: Bool) -> Iterator[tuple[str, Int64]]:
    """Ops with a known dense shape by the data type of their operator's first input (BF16 where it does not say)."""
    known = np.flatnonzero(gemms & (shapes.flops > 0) & (shapes.experts == 1))
    code = trace.dtype[shapes.operator[known]]
    words = [first_of(text) if text else "bf16" for text in trace.dtypes]
    named = np.array([words[c] if c >= 0 else "bf16" for c in code.tolist()] or [""])
    for dtype in np.unique(named[: len(known)]).tolist():
        yield dtype, known[named[: len(known)] == dtype]


def _sizes(shapes: GemmShapes, ops: Int64) -> dict[str, Float64]:
    """m, n and k of (m, k) x (k, n)."""
    n, k = shapes.columns[ops], shapes.inner[ops]
    return {"m": shapes.flops[ops] / (2.0 * n * k), "n": n, "k": k}


def _gemm_ns(sizes: dict[str, Float64], dtype: str, engine: GradedEngine) -> Float64:
    elements = matrix_elements(dtype) or BF16
    precision = gemm.Precision(elements.left, elements.output, right_nbytes=elements.right)
    return gemm.time_ns(sizes["m"], sizes["n"], sizes["k"], precision, engine.engine)


def _engines(devices: Devices, dtype: str) -> tuple[GradedEngine, GradedEngine]:
    """Matrix units of both devices at a data type, at BF16's where a profile does not know that type."""
    source, target = (_engine(profile, dtype) for profile in devices)
    return source, target


def _engine(profile: HardwareProfile, dtype: str) -> GradedEngine:
    found = engine_of(profile, dtype) or engine_of(profile, "bf16")
    if found is None:
        raise RefusedError(
            f"{OPTION}: the profile {profile.name} has no bf16_flop_per_s and hbm_bytes_per_s, which matrix "
            "multiplications need; add them to the profile"
        )
    return found


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
            f"{OPTION}: the profile {profile.name} has no {name}, which kernels need; add it to the profile"
        )
    return value


def _changes(graph: Graph, classes: Int64, ratios: _Ratios) -> Iterator[Change]:
    """One row per class of ops and formula: calls and total time before and after, the longest first."""
    touched = ratios.reason >= 0
    keys = np.stack([classes[touched].astype(np.int64), ratios.reason[touched]], axis=1)
    rows = []
    for op_class, reason in np.unique(keys, axis=0).tolist():
        chosen = (classes == op_class) & (ratios.reason == reason)
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
