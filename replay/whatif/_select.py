"""Choose ops by name pattern or by class. Patterns are matched as text and never become code."""

from __future__ import annotations

import difflib
import fnmatch
import re

import numpy as np

from replay.core.columns import Bool
from replay.core.errors import RefusedError
from replay.graph.types import Graph, OpKind
from replay.program.cores import Core, on_core
from replay.program.expert_ops import GEMM
from replay.program.fused import is_fused
from replay.program.kernel_words import kernel_words
from replay.program.op_class import ATTENTION

_COPY = (OpKind.MEMCPY, OpKind.MEMSET)
_KINDS: dict[str, tuple[OpKind, ...]] = {
    "@all": tuple(OpKind),
    "@host": (OpKind.HOST, OpKind.CALL),
    "@device": (OpKind.COMPUTE, OpKind.TRANSFER, *_COPY),
    "@compute": (OpKind.COMPUTE,),
    "@comm": (OpKind.TRANSFER,),
    "@copy": _COPY,
}
# First match wins: attention kernels may be built on GEMMs.
_KERNELS: dict[str, re.Pattern[str]] = {"@attention": ATTENTION, "@gemm": GEMM}
_CORES = {f"@{core.value}": core for core in Core}
_OF_RANK = re.compile(r"(?P<pattern>.+)@(?P<rank>\d+)")
_OTHER = "@other"  # device kernels of no class above
_FUSED = "@fused"  # kernels that compute and communicate: in none of @compute, @gemm and @comm
CLASSES = (*_KINDS, *_KERNELS, _OTHER, *_CORES, _FUSED)


def choose(graph: Graph, pattern: str) -> Bool:
    """Ops that ``pattern`` names; :class:`RefusedError` with near words when there is none.

    ``@class`` is one of :data:`CLASSES`. Anything else is compared with op names, whatever their case: a whole name,
    the type that a kernel table gives it (``MatMulV2``), a shell pattern of either (``*gemm*``, ``?``, ``[ab]``), or,
    without wildcard, a part of the name. ``@3`` behind it leaves those of rank 3.
    """
    if (of_rank := _OF_RANK.fullmatch(pattern)) and pattern.casefold() not in map(str.casefold, graph.names):
        return _on_rank(graph, of_rank["pattern"], int(of_rank["rank"]))
    chosen = _of_class(graph, pattern) if pattern.startswith("@") else np.isin(graph.name, _matching(graph, pattern))
    if pattern in _CORES and not graph.kernels:
        raise RefusedError(f"{pattern!r} needs the core of every kernel, which no kernel table of this input tells")
    if not chosen.any():
        raise RefusedError(f"no op matches {pattern!r}; {_suggestion(graph, pattern)}")
    return chosen


def _on_rank(graph: Graph, pattern: str, rank: int) -> Bool:
    chosen = choose(graph, pattern) & (graph.rank == rank)
    if not chosen.any():
        ranks = ", ".join(map(str, np.unique(graph.rank).tolist()))
        raise RefusedError(f"no op of rank {rank} matches {pattern!r}; ranks of this input: {ranks}")
    return np.asarray(chosen)


def classes_in(graph: Graph) -> tuple[str, ...]:
    """Classes that have ops with a duration in ``graph``."""
    timed = graph.duration_ns > 0
    return tuple(name for name in CLASSES if (_of_class(graph, name) & timed).any())


def _of_class(graph: Graph, name: str) -> Bool:
    if name == _FUSED:
        return is_fused(graph)
    if name in _KINDS:
        chosen = np.isin(graph.kind, _KINDS[name])
        return np.asarray(chosen & ~is_fused(graph) if name == "@comm" else chosen)
    if name not in CLASSES:
        raise RefusedError(f"{name!r} is no class of ops; known: {', '.join(CLASSES)}")
    if name in _CORES:
        return on_core(graph, _CORES[name])
    classes = [_kernel_class(word) for word in kernel_words(graph)]
    codes = [code for code, kernel_class in enumerate(classes) if kernel_class == name]
    return np.asarray((graph.kind == OpKind.COMPUTE) & np.isin(graph.name, codes))


def _kernel_class(name: str) -> str:
    return next((label for label, words in _KERNELS.items() if words.search(name)), _OTHER)


def _matching(graph: Graph, pattern: str) -> list[int]:
    """Codes of the names that ``pattern`` matches: name or type is equal, fits as shell pattern, or the name has it."""
    wanted = pattern.casefold()
    used = [(code, graph.names[code]) for code in np.unique(graph.name).tolist()]  # modules have names, but are no ops
    names = {code: name.casefold() for code, name in used}
    types = {code: known.op_type.casefold() for code, name in used if (known := graph.kernels.get(name))}
    for texts in (names, types):
        if equal := [code for code, text in texts.items() if wanted and text == wanted]:
            return equal
    if any(wildcard in pattern for wildcard in "*?["):
        fit = re.compile(fnmatch.translate(wanted)).match
        return [code for code, name in names.items() if fit(name) or fit(types.get(code, ""))]
    return [code for code, name in names.items() if wanted and wanted in name]


def _suggestion(graph: Graph, pattern: str) -> str:
    """Words of op names and types that resemble the pattern (each is a pattern itself), else the classes."""
    used = [graph.names[code].casefold() for code in np.unique(graph.name)]
    used += [known.op_type.casefold() for known in graph.kernels.values()]
    whole = {word for name in used for word in re.findall(r"[a-z_][a-z0-9_]*", name)}
    words = sorted(whole.union(*(word.split("_") for word in whole)))
    bare = re.sub(r"[*?\[\]]", "", pattern).casefold()
    near = difflib.get_close_matches(bare, words, n=3, cutoff=0.6)
    if near:
        return f"nearest in the names of ops: {', '.join(map(repr, near))}"
    return f"give part of an op's name, or a class: {', '.join(classes_in(graph))}"
