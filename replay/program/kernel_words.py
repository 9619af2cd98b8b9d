"""The text that tells what a kernel is: its type where a kernel table has it, else its name.

CANN names a kernel by the chain of calls that leads to it, with its type at the end: ``aclnnAddmm_CastAiCore_Cast`` is
a cast, whatever called it. All other names count as they are.
"""

from __future__ import annotations

from replay.graph.types import Graph


def kernel_words(graph: Graph) -> tuple[str, ...]:
    """One text for every name of ``graph``."""
    return tuple(_word(graph, name) for name in graph.names)


def _word(graph: Graph, name: str) -> str:
    known = graph.kernels.get(name)
    if known is not None and known.op_type:
        return known.op_type
    return name.rpartition("_")[2] if name.startswith("aclnn") else name
