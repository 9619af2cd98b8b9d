"""Two expert layouts of one graph, side by side: what every class of ops is compared with."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hwprofiles import HardwareProfile
from replay.core.columns import Float64
from replay.core.evidence import Grade
from replay.graph.types import Graph
from replay.layout import Layout
from replay.program.expert_side import ExpertSide, check_fits, experts_of, ranks_per_node, tokens_per_rank
from replay.program.groups import FAMILIES, members
from replay.program.links import Links, devices_per_node, learn_links
from replay.program.measured_load import measured_load
from replay.program.retiming import RetimeContext
from replay.program.types import Labels
from replay.trace import Trace
from replay.whatif._draft import quantities
from replay.whatif._expert_exchange import Tiers


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that the classes of ops are compared with."""

    graph: Graph
    labels: Labels
    trace: Trace
    profile: HardwareProfile | None
    old: ExpertSide
    new: ExpertSide
    tiers: Tiers | None
    links: Links
    old_group: tuple[int, ...]  # ranks of one expert group
    new_group: tuple[int, ...]
    rows_load: Float64  # per op: its layer's load, new over its own rank's old, relative to new.load / old.load
    exchange_load: Float64  # the same over the old load of the busiest rank, which decided the exchange
    load_known: bool  # False: another load is asked for and the old one is assumed even

    def graded(self, grade: Grade) -> Grade:
        """The grade of what depends on loads: no better than how the old load is known."""
        return grade if self.load_known else Grade.ASSUMED


def compare(
    graph: Graph, labels: Labels, source: Layout, target: Layout, context: RetimeContext
) -> tuple[Comparison, tuple[str, ...]]:
    """Both sides in numbers, and what was assumed for them."""
    experts = experts_of(context.model)
    for layout in (source, target):
        check_fits(experts, layout)
    tokens, assumed = tokens_per_rank(context.trace, source, context.model)
    per_node = devices_per_node(context.profile)
    old, new = (ExpertSide(experts, x.ep, ranks_per_node(x, per_node), tokens) for x in (source, target))
    measured = measured_load(graph, context.trace, labels)
    known = measured.known or context.loads is None
    busiest = measured.busiest[labels.layer >= 0] if (labels.layer >= 0).any() else measured.busiest
    old = replace(old, load=float(busiest.mean()))
    target_load = measured.own, measured.busiest
    if context.loads is not None:
        slowest = context.loads.capped(experts.topk).slowest(target.ep)
        target_load = (slowest[np.maximum(labels.layer, 0) % len(slowest)],) * 2
        new = replace(new, load=float(slowest.mean()))
        if not known:
            assumed += ("the measured step is assumed to have loaded its experts evenly: it records no split sizes",)
    else:
        new = replace(new, load=old.load)
    relative = old.load / new.load
    rows, exchange = target_load[0] / measured.own * relative, target_load[1] / measured.busiest * relative
    tiers = Tiers.of(context.profile)
    old_group, new_group = (members(layout, FAMILIES["ep"], 0) for layout in (source, target))
    return Comparison(
        graph, labels, context.trace, context.profile, old, new, tiers, learn_links(graph, context.profile), old_group,
        new_group, rows, exchange, known,
    ), assumed  # fmt: skip


def side_quantities(side: ExpertSide) -> dict[str, float]:
    return quantities(ep=side.ep, tokens=side.tokens, load_max_over_mean=side.load)
