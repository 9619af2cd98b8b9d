"""What ops are called in a comparison: equal in both steps though tiles, threads and streams carry other numbers."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from replay.core.columns import Int64
from replay.graph.parallel_kind import ParallelKind, parallel_kinds
from replay.graph.types import Graph, OpKind, Rule
from replay.program.template_ids import row_ids
from replay.trace import CollectiveKind

LONGEST = 60  # characters of a name
_SILENT = frozenset(  # template arguments that tell no two kernels apart
    ("at", "native", "std", "detail", "c10", "cuda", "float", "double", "int", "long", "unsigned", "char", "void",
     "bool", "BFloat16", "Half", "true", "false", "array", "Array", "cutlass", "const", "operator", "gpu_kernel_impl")
)  # fmt: skip


@lru_cache(maxsize=65_536)
def normalised(name: str) -> str:
    """A name without its numbers: tile sizes and template values differ between builds and shapes."""
    return re.sub(r"\d+", "#", name)


@lru_cache(maxsize=65_536)
def plain(name: str) -> str:
    """A name for reading: namespaces, arguments and template values go, the functor that tells kernels apart stays."""
    bare = name.replace("(anonymous namespace)::", "").removeprefix("void ")
    bare = bare if bare.startswith(("Memcpy", "Memset")) else re.sub(r"\(.*\)$", "", bare)
    head, opening, arguments = bare.partition("<")
    head = head.rpartition("::")[2] if opening else head
    telling = next((word for word in re.findall(r"(?:\w+::)*([A-Za-z]\w+)", arguments) if word not in _SILENT), "")
    short = f"{head}<{telling}>" if opening else head
    return (short if len(short) <= LONGEST else short[: LONGEST - 3] + "...").strip()


def launched(graph: Graph) -> Int64:
    """Per call op the first device op that it launches; -1 for every other op."""
    edges = graph.edges
    launch = np.flatnonzero(edges.rule == Rule.LAUNCH)[::-1]
    work = np.full(len(graph), -1, np.int64)
    work[edges.source[launch]] = edges.target[launch]
    return work


def name_codes(graphs: tuple[Graph, Graph]) -> tuple[Int64, Int64]:
    """Per op of both graphs a number that is equal where kind and meaning are.

    Collectives go by kind and group, calls by their name and what they launch, all others by their normalised name.
    """
    codes: dict[str, int] = {}
    columns = []
    for graph in graphs:
        of_name = np.array([codes.setdefault(normalised(name), len(codes)) for name in graph.names], np.int64)
        name = of_name[graph.name]
        work = launched(graph)
        target = np.where(work >= 0, name[work], -1)
        comm = np.full(len(graph), -1, np.int64)
        member = (graph.comm >= 0) & np.isin(graph.kind, (OpKind.ARRIVAL, OpKind.TRANSFER))
        row = graph.comm[member]
        comm[member] = graph.comms.kind[row].astype(np.int64) * len(ParallelKind) + parallel_kinds(graph)[row]
        columns.append((graph.kind.astype(np.int64), np.where(member, -1, name), target, comm))
    both = row_ids(*(np.concatenate(pair) for pair in zip(*columns, strict=True)))
    return both[: len(graphs[0])], both[len(graphs[0]) :]


class OpWords:
    """Names the ops of one graph for a reader, without their numbers."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._launched = launched(graph)
        self._kinds = parallel_kinds(graph)

    def label(self, op: int) -> str:
        """``all_to_all (ep)``, ``launch of gemm<>``, ``cudaDeviceSynchronize``."""
        work = int(self._launched[op])
        return f"launch of {self._named(work)}" if work >= 0 else self._named(op)

    def lane(self, op: int) -> str:
        """Lane that an op is on."""
        return self._graph.lanes[int(self._graph.lane[op])].label

    def _named(self, op: int) -> str:
        graph, comm = self._graph, int(self._graph.comm[op])
        if comm < 0 or graph.kind[op] not in (OpKind.ARRIVAL, OpKind.TRANSFER):
            return plain(graph.name_of(op))
        kind = CollectiveKind(int(graph.comms.kind[comm])).name.lower()
        return f"{kind} ({ParallelKind(int(self._kinds[comm])).label})"
