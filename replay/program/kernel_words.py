"""The text that tells what a kernel is: its type where a kernel table has it, else its name.

CANN names a kernel by the chain of calls that leads to it, with its type at the end: ``aclnnAddmm_CastAiCore_Cast`` is
a cast, whatever called it. All other names count as they are.
"""

from __future__ import annotations

import numpy as np

from replay.core.columns import Int64
from replay.graph.types import Graph

_CHAIN = "aclnn"


def kernel_words(graph: Graph) -> tuple[str, ...]:
    """One text for every name of ``graph``."""
    return tuple(_word(graph, name) for name in graph.names)


def kernel_codes(graph: Graph) -> Int64:
    """A number for every op, equal for ops that run the same kernel.

    CANN's names without the chain of calls end in a running number (``Conv2D1``, ``trans_TransData_10``): there, the
    type of the kernel table counts.
    """
    texts = [
        known.op_type if (known := graph.kernels.get(name)) and known.op_type and not name.startswith(_CHAIN) else name
        for name in graph.names
    ]
    number = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    return np.array([*(number[text] for text in texts), -1], np.int64)[graph.name]


def _word(graph: Graph, name: str) -> str:
    known = graph.kernels.get(name)
    if known is not None and known.op_type:
        return known.op_type
    return name.rpartition("_")[2] if name.startswith(_CHAIN) else name
