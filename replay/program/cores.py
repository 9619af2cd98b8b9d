"""Which kind of core of an Ascend device carries out a kernel, where a kernel table tells."""

from __future__ import annotations

from enum import Enum

import numpy as np

from parsers.ascend.cores import CUBE_CORES
from replay.core.columns import Bool
from replay.graph.types import Graph, OpKind
from replay.program.kernel_words import kernel_words
from replay.program.op_class import OpClass, class_of_kernel


class Core(Enum):
    """Kinds of cores; values are the words used in options and reports."""

    CUBE = "cube"  # multiplies matrices
    VECTOR = "vector"
    AI_CPU = "aicpu"


_CORES = {
    **dict.fromkeys(CUBE_CORES, Core.CUBE),
    "AI_VECTOR_CORE": Core.VECTOR,
    "MIX_AIV": Core.VECTOR,
    "AI_CPU": Core.AI_CPU,
    "HCCL_AI_CPU": Core.AI_CPU,
}
_APART = frozenset({"MIX_AIC", "AI_VECTOR_CORE", "MIX_AIV"})  # said by devices that have cores of either kind


def on_core(graph: Graph, core: Core) -> Bool:
    """Kernels of ``graph`` that ``core`` carries out.

    A device with one kind of core for everything (910A) says AI_CORE of every kernel; there, those that work on memory
    count as the vector units'.
    """
    together = _APART.isdisjoint(kernel.core for kernel in graph.kernels.values())
    chosen = np.zeros(len(graph.names) + 1, np.bool_)
    for code, (name, word) in enumerate(zip(graph.names, kernel_words(graph), strict=True)):
        known = graph.kernels.get(name)
        found = _CORES.get(known.core) if known is not None else None
        if together and found == Core.CUBE and class_of_kernel(word) == OpClass.MEMORY:
            found = Core.VECTOR
        chosen[code] = found == core
    return np.asarray(chosen[graph.name] & (graph.kind == OpKind.COMPUTE))
