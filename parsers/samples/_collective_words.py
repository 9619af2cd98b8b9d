"""Names of collectives as tests, files and tables spell them, and the ratio of their two bandwidths."""

from __future__ import annotations

import re

OPS = {
    "all_reduce": "all_reduce", "allreduce": "all_reduce",
    "all_gather": "all_gather", "allgather": "all_gather",
    "reduce_scatter": "reduce_scatter", "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all", "all_to_all": "all_to_all", "all2all": "all_to_all", "alltoallv": "all_to_all",
    "alltoallvc": "all_to_all", "all_to_allv": "all_to_all",
    "broadcast": "broadcast", "bcast": "broadcast",
    "sendrecv": "send_recv", "send_recv": "send_recv", "p2p": "send",
    "gather": "gather", "scatter": "scatter", "hypercube": "all_gather", "reduce": "reduce",
}  # fmt: skip
"""Spelling → op of samples (:mod:`replay.samples`), longer spellings first where one contains another."""

_SPELLED = re.compile(
    r"(?<![a-z])(" + "|".join(sorted(OPS, key=len, reverse=True)) + r")(?:_(?:perf|test|output|bench))?(?![a-z])", re.I
)


def op_of(word: str) -> str:
    """The op that a word of a table names; one that is no collective stays as it is, in lower case."""
    return OPS.get(word.lower(), word.lower())


def op_in(text: str) -> str:
    """The collective that a command, file name or title names, "" where it names none or several."""
    found = {OPS[match.group(1).lower()] for match in _SPELLED.finditer(text.replace("-", "_"))}
    return found.pop() if len(found) == 1 else ""


def bus_factor(op: str, ranks: int) -> float | None:
    """Bus bandwidth / algorithm bandwidth of nccl-tests (src/*.cu, GetBw): 2(n-1)/n, (n-1)/n or 1."""
    if op == "all_reduce":
        return 2.0 * (ranks - 1) / ranks
    if op in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
        return (ranks - 1) / ranks
    return 1.0 if op in ("broadcast", "reduce", "send_recv", "send") else None
