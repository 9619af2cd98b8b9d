"""New over old duration of matrix work on another device: GEMMs by their shapes, the rest by the matrix units' rate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hwprofiles import HardwareProfile
from hwprofiles.fitted import Fitted
from replay.core.columns import Bool, Float64, Int64
from replay.core.dtypes import Elements, first_of, matrix_elements
from replay.core.errors import RefusedError
from replay.core.evidence import Grade
from replay.costs import gemm
from replay.costs.engine import SUSTAINED_SHARE, Engine, GradedEngine, engine_of
from replay.graph.types import Graph
from replay.program.gemm_shapes import GemmShapes, gemm_shapes
from replay.program.origins import origins
from replay.program.table_products import TableProducts
from replay.trace import Trace
from replay.whatif._expert_gemm import FP8

OPTION = "--hardware"

Doubt = tuple[float, float]
"""New duration at the ends of what is known about it, as shares of the predicted one."""

FITTED: Doubt = (0.85, 1.15)  # held-out errors of fitted tables: 90 % of GEMMs within 15 to 20 %
DATASHEET_GEMM: Doubt = (0.95, 1.8)
"""A GEMM on a device known by its datasheet: sustained shares of the peak range from 0.93 (A100) down to 0.48 (B200,
median of SimuMax's 514 shapes), and 0.88 is assumed."""
KERNEL: Doubt = (0.5, 2.0)  # attention and what tells no shape: another device means another kernel as well

BF16 = Elements(2, 2, 2)
_STAND_INS = {"tf32": ("fp32",)}

Shaped = tuple[str, Int64, dict[str, Float64]]
"""Data type of GEMMs, which ops, and their sizes (:mod:`replay.samples`)."""


def matrix_rate(source: HardwareProfile, target: HardwareProfile, dtype: str) -> tuple[float, tuple[Grade, Doubt], str]:
    """Ratio, grade with doubt, and formula of matrix work of unknown sizes."""
    (was, old), (now, new) = _engine(source, dtype), _engine(target, dtype)
    before, after = _rate(old.engine), _rate(new.engine)
    formula = f"measured x matrix rate {was} {before / 1e12:.0f} / {now} {after / 1e12:.0f} TFLOP/s"
    return before / after, (max(old.grade, new.grade, Grade.EXTRAPOLATED), KERNEL), formula


def _rate(engine: Engine) -> float:
    """What matrix work reaches at best: an engine of cubes holds their peak, and its tiles what keeps kernels below."""
    return engine.flop_per_s * (SUSTAINED_SHARE if engine.cube_side > 0 else 1.0)


def by_name(graph: Graph, ops: Int64) -> Iterator[tuple[str, Int64]]:
    """Ops by the data type that their names tell: FP8, else taken for BF16."""
    named = np.array([bool(FP8.search(name)) for name in graph.names], np.bool_)[graph.name[ops]]
    for word, chosen in (("fp8", named), ("bf16", ~named)):
        if chosen.any():
            yield word, ops[chosen]


def shaped(graph: Graph, trace: Trace, table: TableProducts, gemms: Bool) -> Iterator[Shaped]:
    """GEMMs of known sizes: by the kernel table, else by the operator that launched them."""
    for dtype, ops in table.by_dtype(np.flatnonzero(table.known)):
        yield dtype or "bf16", ops, table.columns(ops)
    shapes = gemm_shapes(graph, trace, origins(graph, trace), gemms)
    for dtype, ops in _by_dtype(trace, shapes, gemms & ~table.known):
        yield dtype, ops, _sizes(shapes, ops, dtype)


def gemm_ratios(
    source: HardwareProfile, target: HardwareProfile, shapes: Iterator[Shaped]
) -> Iterator[tuple[Int64, Float64, tuple[Int64, Doubt], str]]:
    """Ops, their ratios, grades with doubt, and formula."""
    for dtype, ops, sizes in shapes:
        (was, before), (now, after) = _engine(source, dtype), _engine(target, dtype)
        old, new = (gemm.columns_ns(graded.engine, sizes) for graded in (before, after))
        grade = np.maximum(before.grades(sizes), after.grades(sizes)).astype(np.int64)
        types = was if was == now else f"{now} for {was}"
        formula = f"measured x GEMM model(new) / model(old), {types}, by shape"
        yield ops, new / old, (grade, _gemm_doubt((before, after))), formula


def _gemm_doubt(engines: tuple[GradedEngine, GradedEngine]) -> Doubt:
    """Of a ratio new / old: the doubts of the new device, and those of the old one the other way round.

    Those of a fit are at least :data:`FITTED`, more where it missed the rows that it had not seen by more.
    """
    missed = max((_missed(engine.fitted) for engine in engines if engine.fitted is not None), default=0.0)
    low, high = min(FITTED[0], 1.0 / (1.0 + missed)), max(FITTED[1], 1.0 + missed)
    for engine, (least, most) in zip(
        engines, ((1 / DATASHEET_GEMM[1], 1 / DATASHEET_GEMM[0]), DATASHEET_GEMM), strict=True
    ):
        if engine.fitted is None:
            low, high = min(low, low * least), max(high, high * most)
    return low, high


def _missed(fit: Fitted) -> float:
    """90th percentile of the error of rows that a fit had not seen, of those fitted where no split could be scored."""
    score = fit.scores.get("random half") or fit.scores.get("fit")
    return score.p90_pct / 100.0 if score is not None else 0.0


def _by_dtype(trace: Trace, shapes: GemmShapes, gemms: Bool) -> Iterator[tuple[str, Int64]]:
    """Ops with a known dense shape by the data type of their operator's first input (BF16 where it does not say)."""
    known = np.flatnonzero(gemms & (shapes.flops > 0) & (shapes.experts == 1))
    code = trace.dtype[shapes.operator[known]]
    words = [first_of(text) if text else "bf16" for text in trace.dtypes]
    named = np.array([words[c] if c >= 0 else "bf16" for c in code.tolist()] or [""])
    for dtype in np.unique(named[: len(known)]).tolist():
        yield dtype, known[named[: len(known)] == dtype]


def _sizes(shapes: GemmShapes, ops: Int64, dtype: str) -> dict[str, Float64]:
    """m, n and k of (m, k) x (k, n), and the bytes of the elements."""
    n, k = shapes.columns[ops], shapes.inner[ops]
    elements = (matrix_elements(dtype) or BF16).sizes() | {"scale_block": 0.0}
    sizes = {"m": shapes.flops[ops] / (2.0 * n * k), "n": n, "k": k}
    return sizes | {name: np.full(len(ops), value) for name, value in elements.items()}


def _engine(profile: HardwareProfile, dtype: str) -> tuple[str, GradedEngine]:
    """What a device multiplies a data type in, and its matrix units at that.

    A type that the profile does not know is taken for one that a device without it would use, and graded assumed: FP32
    for TF32 and HF32 (V100, MI250), else BF16.
    """
    for word in dict.fromkeys((dtype, *_STAND_INS.get(dtype, ()), "bf16")):
        if (found := engine_of(profile, word)) is not None:
            return word, found if word == dtype else GradedEngine(found.engine, None, Grade.ASSUMED)
    raise RefusedError(
        f"{OPTION}: the profile {profile.name} has no bf16_flop_per_s and hbm_bytes_per_s, which matrix "
        "multiplications need; add them to the profile"
    )
