"""Ascend's kernel tables (``kernel_details.csv``, ``op_summary_*.csv``): matrix products with their shape and duration.

One row is one kernel of a training step or a benchmark, as it ran there: with its operands in the cache or not, and
beside whatever else used the memory. Kernels fused with a collective are left out, for their time is not the product's.
Cores and clock that the counters tell go with every sample, so that a profile can be made without a name of the device.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.ascend.cores import CUBE_CORES, Counted, cores_and_clock
from parsers.ascend.csv_rows import Losses
from parsers.ascend.folder import RankFiles, Role, name_in_rank, role_of
from parsers.ascend.kernels import KernelRow, read_kernels
from parsers.ascend.matmul import Operands, Product, is_fused, is_product, product_of
from parsers.samples._rows import Gathered, Row
from parsers.source import SourceFile
from replay.core.dtypes import matrix_elements
from replay.samples import Samples

FORMAT = "Ascend kernel table"
SOFTWARE = "cann"


def claims_head(head: bytes) -> bool:
    """The header of a kernel table."""
    return role_of(head) is Role.KERNELS


def read(file: SourceFile) -> Samples:
    """One sample per matrix product with a known shape; ``line`` is the number of its row."""
    losses, gathered = Losses(), Gathered(name_in_rank(file))
    kernels = read_kernels(RankFiles(file.path.parent, files={Role.KERNELS: [file]}), losses)
    cores, clock = cores_and_clock(_counted(kernels))
    known = {name: value for name, value in (("cores", cores), ("clock_hz", clock)) if value is not None}
    for kernel in kernels:
        if is_product(kernel.op_type, kernel.core):
            _take(kernel, known, gathered)
    gathered.notes += losses.damaged
    if not gathered.rows and not gathered.left_out:
        gathered.say("no matrix products in the table", 1)
    return gathered.samples()


def _take(kernel: KernelRow, known: dict[str, float], gathered: Gathered) -> None:
    cells = (kernel.input_shapes, kernel.input_dtypes, kernel.input_formats)
    results = (kernel.output_shapes, kernel.output_dtypes, kernel.output_formats)
    product = product_of(kernel.op_type, Operands(*cells, *results))
    if product is None:
        gathered.leave_out("no shape (level 0, dynamic, or of no plain product)", kernel.number)
    elif is_fused(kernel.op_type):
        gathered.leave_out("fused with a collective", kernel.number)
    elif kernel.dur_ns <= 0:
        gathered.leave_out("no time", kernel.number)
    else:
        dtype = "tf32" if product.left == "fp32" and kernel.hf32 == 1 else product.left
        op, sizes = _sizes(product)
        elements = matrix_elements(dtype)
        sizes |= {} if elements is None else elements.sizes()
        layouts = "x".join(dict.fromkeys(filter(None, product.formats)))
        variant = f"{kernel.op_type} {layouts}".strip()
        gathered.rows.append(
            Row(
                op,
                float(kernel.dur_ns),
                kernel.number,
                sizes | known,
                dtype,
                software=SOFTWARE,
                variant=variant,
                repeats=1,
            )
        )


def _sizes(product: Product) -> tuple[str, dict[str, float]]:
    """Op and sizes of a sample (:mod:`replay.samples`); experts count as equally loaded."""
    m, n, k = float(product.m), float(product.n), float(product.k)
    if product.experts == 1:
        return "gemm", {"m": m, "n": n, "k": k, "batch": float(product.batch)}
    experts = float(product.experts)
    rows, width = (k, m) if product.over_inner else (m, k)
    return "grouped_gemm", {
        "experts": experts, "m": rows / experts, "n": n, "k": width, "backward_weight": float(product.over_inner),
    }  # fmt: skip


def _counted(kernels: Sequence[KernelRow]) -> Counted:
    on_cube = [kernel for kernel in kernels if kernel.core in CUBE_CORES]
    columns = [(k.dur_ns, k.blocks, k.cube_ns, k.cube_cycles) for k in on_cube]
    dur, blocks, cube, cycles = np.array(columns, np.int64).reshape(-1, 4).T.copy()
    return Counted(dur, np.array([k.cube_utilization_pct for k in on_cube], np.float64), blocks, cube, cycles)
