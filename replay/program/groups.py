"""Rank order to communicators: which ranks form each group of a layout, and which group a recorded one is.

Megatron lays two grids over the same ranks (core ``RankGenerator``): the dense grid tp x cp x dp x pp and the expert
grid etp x ep x edp x pp. In both, rank = sum(index_i * stride_i), the stride being the product of the sizes to the left
in the rank order; the token ``ep`` has size 1 in the dense grid, ``cp`` in the expert grid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from replay.core.errors import LayoutError
from replay.layout import Layout
from replay.trace import Group

AXES = ("tp", "cp", "ep", "dp", "pp")


@dataclass(frozen=True, slots=True)
class Family:
    """Groups of one meaning: the axes whose indices differ between members, on one of the two grids."""

    name: str
    axes: frozenset[str]
    expert: bool = False
    ends_only: bool = False  # only the first and last pipeline stage (embedding gradients)

    @property
    def of_replicas(self) -> bool:
        """Whether gradients are summed over it: it holds replicas of the same parameters, of one stage."""
        return "dp" in self.axes and "pp" not in self.axes


def _family(name: str, axes: str, *, expert: bool = False, ends_only: bool = False) -> Family:
    return Family(name, frozenset(axes.split("-")) if axes else frozenset(), expert, ends_only)


# Most specific first: where sizes make two families equal, the earlier one is taken unless the description says more.
FAMILIES = {
    family.name: family
    for family in (
        _family("tp", "tp"),
        _family("ep", "ep", expert=True),
        _family("dp", "dp"),
        _family("pp", "pp"),
        _family("cp", "cp"),
        _family("dp_cp", "dp-cp"),
        _family("edp", "dp", expert=True),
        _family("etp", "tp", expert=True),
        _family("etp_ep", "tp-ep", expert=True),
        _family("tp_cp", "tp-cp"),
        _family("tp_dp", "tp-dp"),
        _family("tp_dp_cp", "tp-dp-cp"),
        _family("embedding", "pp", ends_only=True),
        _family("model", "tp-pp"),
        _family("etp_ep_pp", "tp-ep-pp", expert=True),
        _family("world", "tp-cp-dp-pp"),
    )
}

# Megatron's process group descriptions (core/parallel_state.py), as NCCL metadata spells them.
DESCRIPTIONS = {
    "TENSOR_MODEL_PARALLEL_GROUP": "tp",
    "CONTEXT_PARALLEL_GROUP": "cp",
    "EXPERT_MODEL_PARALLEL_GROUP": "ep",
    "EXPERT_DATA_PARALLEL_GROUP": "edp",
    "EXPERT_TENSOR_PARALLEL_GROUP": "etp",
    "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP": "etp_ep",
    "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP": "etp_ep_pp",
    "DATA_PARALLEL_GROUP": "dp",
    "DATA_PARALLEL_GROUP_WITH_CP": "dp_cp",
    "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP": "dp_cp",
    "PIPELINE_MODEL_PARALLEL_GROUP": "pp",
    "TENSOR_AND_CONTEXT_PARALLEL_GROUP": "tp_cp",
    "TENSOR_AND_DATA_PARALLEL_GROUP": "tp_dp",
    "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP": "tp_dp_cp",
    "MODEL_PARALLEL_GROUP": "model",
    "EMBEDDING_GROUP": "embedding",
    "POSITION_EMBEDDING_GROUP": "embedding",
    "default_pg": "world",
}

# What Megatron hands to ``get_nccl_options`` for each group, old and new; MindSpeed names HCCL's communicators so.
HCCL_NAMES = {
    "tp": "tp", "cp": "cp", "pp": "pp", "dp": "dp", "dp_cp": "dp_cp", "intra_dp_cp": "dp_cp",
    "exp": "ep", "ep": "ep", "tp_exp": "etp_ep", "tp_ep_mp": "etp_ep", "ep_tp": "etp", "tp_ep_pp": "etp_ep_pp",
    "dp_modulo_exp": "edp", "dp_modulo_exp_cp": "edp", "ep_dp": "edp", "intra_ep_dp": "edp",
    "tp_cp": "tp_cp", "tp_dp": "tp_dp", "tp_dp_cp": "tp_dp_cp", "mp": "model",
    "embd": "embedding", "pos_embd": "embedding", "default_group": "world", "hccl_world_group": "world",
}  # fmt: skip


def family_named(description: str) -> str:
    """Name of the family that a recorded description states, "" where it states none."""
    plain = re.sub(r":\d*$", "", description.strip()).strip()  # vLLM counts: "tp:0"
    return DESCRIPTIONS.get(plain) or HCCL_NAMES.get(plain.lower(), "")


def description_of(family: str) -> str:
    """Megatron's description of the groups of a family; the family's own name where Megatron has none."""
    return next((description for description, name in DESCRIPTIONS.items() if name == family), family)


def sizes(layout: Layout, *, expert: bool = False) -> dict[str, int]:
    """Size of every axis of the dense or the expert grid; ``tp`` and ``dp`` mean etp and edp in the expert grid."""
    if not expert:
        return {"tp": layout.tp, "cp": layout.cp, "ep": 1, "dp": layout.dp, "pp": layout.pp}
    edp = layout.world_size // (layout.etp * layout.ep * layout.pp)
    return {"tp": layout.etp, "cp": 1, "ep": layout.ep, "dp": edp, "pp": layout.pp}


def coordinates(layout: Layout, rank: int, *, expert: bool = False) -> dict[str, int]:
    """Index of a rank along every axis of one grid."""
    extent = sizes(layout, expert=expert)
    index = {}
    for axis in _order(layout):
        index[axis] = rank % extent[axis]
        rank //= extent[axis]
    return index


def rank_at(layout: Layout, index: dict[str, int], *, expert: bool = False) -> int:
    """The rank with these indices: inverse of :func:`coordinates`."""
    extent = sizes(layout, expert=expert)
    rank, stride = 0, 1
    for axis in _order(layout):
        rank += index[axis] * stride
        stride *= extent[axis]
    return rank


def members(layout: Layout, family: Family, rank: int) -> tuple[int, ...]:
    """Ranks of the group of ``family`` that ``rank`` belongs to, ascending."""
    extent = sizes(layout, expert=family.expert)
    own = coordinates(layout, rank, expert=family.expert)
    return tuple(sorted(rank_at(layout, index, expert=family.expert) for index in _span(extent, own, family)))


def classify(group: Group, layout: Layout, likely: tuple[str, ...] = ()) -> Family | None:
    """Family of a recorded group under the layout it was recorded with, or ``None`` when it fits none.

    The recorded members decide; among families with these members, the description, then ``likely`` (from what the
    collective is used for), then the order of :data:`FAMILIES`. Without members the description alone decides.
    """
    preferred = [name for name in (family_named(group.description), *likely) if name]
    if not group.ranks:
        return FAMILIES[preferred[0]] if preferred else None
    ranks = tuple(sorted(group.ranks))
    if ranks[-1] >= layout.world_size:
        return None
    fitting = [family for family in FAMILIES.values() if members(layout, family, ranks[0]) == ranks]
    named = sorted(fitting, key=lambda family: _position(preferred, family.name))
    return named[0] if named else None


def _order(layout: Layout) -> tuple[str, ...]:
    order = tuple(layout.rank_order.split("-"))
    if sorted(order) != sorted(AXES):
        raise LayoutError(f"rank order {layout.rank_order!r} must name each of {', '.join(AXES)} once")
    return order


def _span(extent: dict[str, int], own: dict[str, int], family: Family) -> Iterator[dict[str, int]]:
    axes = sorted(family.axes)
    for flat in range(prod(extent[axis] for axis in axes)):
        index = dict(own)
        for axis in axes:
            index[axis] = flat % extent[axis]
            flat //= extent[axis]  # noqa: PLW2901 - mixed-radix digits
        if not family.ends_only or index["pp"] in (0, extent["pp"] - 1):
            yield index


def _position(preferred: list[str], name: str) -> int:
    return preferred.index(name) if name in preferred else len(preferred)
