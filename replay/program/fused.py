"""Kernels that multiply matrices and communicate in one (CANN's MC2: MatmulAllReduce, AllGatherMatmul, …).

Both parts run at once, tile by tile, and nothing recorded says which of them takes longer.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Bool
from replay.graph.types import Graph, OpKind
from replay.program.expert_ops import GEMM
from replay.program.kernel_words import kernel_words


def is_fused(graph: Graph) -> Bool:
    """Transfers whose kernel is named as a matrix product."""
    product = np.array([*(bool(GEMM.search(word)) for word in kernel_words(graph)), False], np.bool_)
    return np.asarray(product[graph.name] & (graph.kind == OpKind.TRANSFER))
