"""Which kind of parallelism a collective serves, read from its group's name and, failing that, from its own kind."""

from __future__ import annotations

import re
from enum import IntEnum

import numpy as np

from replay.core.columns import Int8
from replay.graph.types import Graph
from replay.trace import CollectiveKind, Group


class ParallelKind(IntEnum):
    """Kind of parallelism that a group of ranks exists for."""

    TP = 0
    CP = 1
    EP = 2
    DP = 3
    PP = 4
    OTHER = 5

    @property
    def label(self) -> str:
        """Lower-case word used in options, reports and JSON."""
        return self.name.lower()


# Names of Megatron-LM (core/parallel_state.py, ``group_desc``; what it hands to ``get_nccl_options`` and MindSpeed from
# there to HCCL: "dp_cp", "exp", "dp_modulo_exp", "ep_dp", "ep_tp" for expert tensor parallelism) and DTensor meshes
# ("mesh_dp_shard"), upper-cased and with single blanks for everything that is no letter or digit. First match wins:
# a name that combines two kinds stands before the names it contains.
_BY_NAME: tuple[tuple[ParallelKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (
            ParallelKind.DP,
            r"\bEXPERT DATA\b|\bMODULO EXP|\bPARTIAL DATA\b|\bDISTRIBUTED OPTIMIZER\b|\bEDP\b|\bEP DP\b",
        ),
        (ParallelKind.OTHER, r"\bMODEL PIPELINE\b|^MODEL PARALLEL|^MP\b|\bTENSOR AND DATA\b|^TP EP PP\b|^TP DP\b"),
        (ParallelKind.TP, r"\bEXPERT TENSOR PARALLEL\b|\bETP\b|^EP TP\b"),
        (ParallelKind.EP, r"\bEXPERT|\bEXP\b|\bEP\b|\bMOE\b"),
        (ParallelKind.PP, r"\bPIPELINE\b|\bPP\b|\bEMBEDDING\b|\bEMBD\b"),
        (ParallelKind.DP, r"\bDATA\b|\bD?DP\b|\bFSDP\b|\bHSDP\b"),
        (ParallelKind.TP, r"\bTENSOR\b|\bTP\b"),
        (ParallelKind.CP, r"\bCONTEXT\b|\bCP\b|\bSEQUENCE PARALLEL\b|\bULYSSES\b"),
    )
)

_BY_KIND = {
    CollectiveKind.ALL_TO_ALL: ParallelKind.EP,
    CollectiveKind.DISPATCH: ParallelKind.EP,
    CollectiveKind.COMBINE: ParallelKind.EP,
    CollectiveKind.NOTIFY: ParallelKind.EP,
    CollectiveKind.SEND: ParallelKind.PP,
    CollectiveKind.RECV: ParallelKind.PP,
    CollectiveKind.SEND_RECV: ParallelKind.PP,
}


def kind_of_group(group: Group) -> ParallelKind | None:
    """Kind told by the group's description or name; ``None`` for names that tell nothing ("default_pg", "0")."""
    words = re.sub(r"[^A-Z0-9]+", " ", f"{group.description} {group.name}".upper()).strip()
    return next((kind for kind, pattern in _BY_NAME if pattern.search(words)), None)


def parallel_kinds(graph: Graph) -> Int8:
    """:class:`ParallelKind` of every row of ``graph.comms``: the group's name first, then the collective's kind."""
    by_group = [kind_of_group(group) for group in graph.groups]

    def kind_of(collective: int, group: int) -> ParallelKind:
        named = by_group[group] if group >= 0 else None
        return _BY_KIND.get(CollectiveKind(collective), ParallelKind.OTHER) if named is None else named

    pairs = np.stack([graph.comms.kind.astype(np.int64), graph.comms.group.astype(np.int64)], axis=1)
    distinct, place = np.unique(pairs, axis=0, return_inverse=True)
    kinds = np.array([kind_of(int(collective), int(group)) for collective, group in distinct], np.int8)
    return kinds[place.reshape(-1)]
