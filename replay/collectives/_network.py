"""What a hardware profile says about the time of a collective: fitted where it was calibrated, else from its datasheet.

Best first: a fit of this collective on this tier of links (of several algorithms the one that predicted its held-out
samples best); for groups of several ranks on several nodes, a ring or tree put together from the fits of both tiers;
the profile's own bandwidths and latencies with the usual algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np

from hwprofiles import HardwareProfile
from hwprofiles.fitted import Fitted
from replay.collectives import _hccl, hierarchical, ring_all_gather, ring_all_reduce, ring_reduce_scatter
from replay.collectives._cost_model import link_of
from replay.collectives._link import Link, Sizes
from replay.collectives._two_tiers import Nodes, ring_time_ns, tree_time_ns
from replay.core.columns import Float64, Int8
from replay.core.errors import ProfileError
from replay.core.evidence import Grade
from replay.core.plugins import members
from replay.cost_model import CostModel
from replay.trace import CollectiveKind

RINGS: dict[CollectiveKind, ModuleType] = {
    CollectiveKind.ALL_REDUCE: ring_all_reduce,
    CollectiveKind.ALL_GATHER: ring_all_gather,
    CollectiveKind.REDUCE_SCATTER: ring_reduce_scatter,
}
"""Collectives that run as rings over several nodes."""

USUAL: dict[CollectiveKind, str] = {
    CollectiveKind.ALL_REDUCE: "ring_all_reduce",
    CollectiveKind.ALL_GATHER: "ring_all_gather",
    CollectiveKind.REDUCE_SCATTER: "ring_reduce_scatter",
    CollectiveKind.ALL_TO_ALL: "direct_all_to_all",
    CollectiveKind.BROADCAST: "chain",
    CollectiveKind.REDUCE: "chain",
    CollectiveKind.SEND: "point_to_point",
    CollectiveKind.RECV: "point_to_point",
    CollectiveKind.SEND_RECV: "point_to_point",
    CollectiveKind.DISPATCH: "deduplicating",
    CollectiveKind.COMBINE: "deduplicating",
}
"""Algorithm of a collective where nothing says which one runs."""

MESSAGES = (CollectiveKind.SEND, CollectiveKind.RECV, CollectiveKind.SEND_RECV)
"""Kinds that move one message from rank to rank."""

_USUAL_WORDS = {kind.name.lower(): name for kind, name in USUAL.items()}

MESHES: dict[CollectiveKind, str] = {
    CollectiveKind.ALL_REDUCE: "mesh_all_reduce",
    CollectiveKind.ALL_GATHER: "mesh_exchange",
    CollectiveKind.REDUCE_SCATTER: "mesh_exchange",
    CollectiveKind.ALL_TO_ALL: "mesh_exchange",
    CollectiveKind.BROADCAST: "mesh_all_reduce",
    CollectiveKind.REDUCE: "mesh_all_reduce",
}
"""Algorithm of a collective among devices that have a link to each other of their own. A broadcast is a scatter and an
all-gather, a reduction a reduce-scatter and a gather: two steps of S / n a pair, as those of an all-reduce."""


CLEARLY_BETTER_PCT = 1.0
"""Points of held-out error by which an unusual algorithm must be better."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Times in ns and their evidence grades, of the shape of the sizes asked for; ``formula`` says what was used."""

    time_ns: Float64
    grade: Int8
    formula: str


def collective_time(profile: HardwareProfile, kind: CollectiveKind, nbytes: Sizes, nodes: Nodes) -> Estimate | None:
    """Time of a collective of ``nbytes`` (the larger of a rank's two buffers); ``None`` where the profile cannot tell.

    0 for a lone rank. :class:`ProfileError` where the profile's fit is of no model that is known.
    """
    size = np.atleast_1d(np.asarray(nbytes, np.float64))
    if nodes.ranks == 1:
        return Estimate(np.zeros_like(size), np.full(len(size), Grade.MEASURED, np.int8), "one rank sends nothing")
    if kind in MESSAGES and nodes.nodes > 1:  # the slowest of the messages, one between nodes, decides
        nodes = replace(nodes, nodes=nodes.ranks, ranks_per_node=1)
    tier = "intra_node" if nodes.nodes == 1 else "inter_node" if nodes.ranks_per_node == 1 else "mixed"
    fit = best_fit(profile, kind, tier)
    if fit is not None:
        columns = {"nbytes": size, "ranks": np.full(len(size), float(nodes.ranks))}
        time = _model_of(profile, fit).predict(fit.values(), columns)
        return Estimate(time, fit.grades(columns), f"{fit.model} fitted on {tier} links")
    if tier == "mixed" and (composed := _composed(profile, kind, size, nodes)) is not None:
        return composed
    return _datasheet(profile, kind, size, nodes)


def best_fit(profile: HardwareProfile, kind: CollectiveKind, tier: str) -> Fitted | None:
    """The best of the fits of a collective on a tier; messages stand for one another."""
    kinds = (kind, *(other for other in MESSAGES if other is not kind)) if kind in MESSAGES else (kind,)
    for op in (one.name.lower() for one in kinds):
        fits = [fit for fit in profile.fitted if fit.key.get("op") == op and fit.key.get("tier") == tier]
        if fits:
            return best_of(fits)
    return None


def best_of(fits: Sequence[Fitted]) -> Fitted | None:
    """Of several fits of the same samples the one whose held-out samples were predicted best.

    The usual algorithm of a collective stays unless another one is better by more than a point: on few ranks they cost
    nearly the same, and what noise decides would then be extrapolated to many.
    """
    best = min(fits, key=lambda fit: fit.held_out_pct, default=None)
    usual = next(filter(is_usual, fits), None)
    if best is None or usual is None:
        return best
    return usual if usual.held_out_pct <= best.held_out_pct + CLEARLY_BETTER_PCT else best


def is_usual(fit: Fitted) -> bool:
    """Whether a fit is of its collective's usual algorithm, from which groups over several nodes are put together."""
    return fit.model == _USUAL_WORDS.get(fit.key.get("op", ""))


def _model_of(profile: HardwareProfile, fit: Fitted) -> CostModel:
    """The cost model of a fit, which a profile written by hand may misname or leave without parameters."""
    module = members("replay.collectives").get(fit.model)
    found: CostModel | None = next((m for m in getattr(module, "COST_MODELS", ()) if m.name == fit.model), None)
    if found is None:
        raise ProfileError(f"profile {profile.name}: fitted model {fit.model!r} is no known collective algorithm")
    if missing := {spec.name for spec in found.parameters} - set(fit.parameters):
        raise ProfileError(f"profile {profile.name}: fitted model {fit.model!r} lacks {', '.join(sorted(missing))}")
    return found


def _composed(profile: HardwareProfile, kind: CollectiveKind, size: Float64, nodes: Nodes) -> Estimate | None:
    """Ring or tree over both tiers from the fits of each: extrapolated, since such groups were never measured."""
    inside, across = (_link(profile, kind, tier) for tier in ("intra_node", "inter_node"))
    if inside is None or across is None or kind not in RINGS:
        return None
    ring = RINGS[kind]
    steps = float(ring.steps(nodes.ranks))
    time = ring_time_ns(ring.sent_nbytes(size, nodes.ranks), steps, nodes, inside, across)
    if kind is CollectiveKind.ALL_REDUCE:
        time = np.minimum(time, tree_time_ns(size, nodes, inside, across))
    formula = f"{USUAL[kind]} over links fitted inside a node and between nodes"
    return Estimate(time, np.full(len(size), Grade.EXTRAPOLATED, np.int8), formula)


def _link(profile: HardwareProfile, kind: CollectiveKind, tier: str) -> Link | None:
    """The link of a tier as the usual algorithm of a collective sees it.

    A protocol for small messages whose latency the samples did not tell is left out: what a fit of ten ranks may give
    it for nothing would decide the time of eighty.
    """
    fit = profile.fit(USUAL[kind], op=kind.name.lower(), tier=tier) if kind in USUAL else None
    if fit is None:
        return None
    link = link_of(fit.values())
    small = fit.parameters["small_latency_ratio"]
    return replace(link, protocols=()) if small.grade is Grade.ASSUMED else link


@dataclass(frozen=True, slots=True)
class _Known:
    """A link and how it is known."""

    link: Link
    grade: Grade
    source: str


@dataclass(frozen=True, slots=True)
class _Links:
    """Links of a profile: of a pair of a full mesh, of a node and between nodes."""

    pair: _Known | None
    intra: _Known | None
    inter: _Known | None


def _links(profile: HardwareProfile) -> _Links:
    """From the datasheet; a full mesh moves packets pair by pair, so fitted packets tell its links."""
    pair, intra, inter = (_flat_link(profile, tier) for tier in ("intra_node_pair", "intra_node", "inter_node"))
    if pair is None:
        return _Links(pair, intra, inter)
    inside, across = (_link(profile, CollectiveKind.SEND, tier) for tier in ("intra_node", "inter_node"))
    fitted = Grade.EXTRAPOLATED, "packets fitted"
    return _Links(
        pair if inside is None else _Known(inside, *fitted), intra, inter if across is None else _Known(across, *fitted)
    )


def _datasheet(profile: HardwareProfile, kind: CollectiveKind, size: Float64, nodes: Nodes) -> Estimate | None:
    """Bandwidths and latencies of the profile with the usual algorithm; as well known as the weakest link in use."""
    if kind not in USUAL:
        return None
    links = _links(profile)
    if nodes.nodes > 1 and nodes.ranks_per_node > 1:
        return _two_tier_datasheet(kind, size, nodes, links)
    meshed = nodes.nodes == 1 and links.pair is not None and kind in (*MESHES, *MESSAGES)
    known = links.pair if meshed else links.intra if nodes.nodes == 1 else links.inter
    if known is None:
        return None
    name = MESHES[kind] if meshed and kind in MESHES else USUAL[kind]
    time = members("replay.collectives")[name].time_ns(size, nodes.ranks, known.link)
    return _estimate(time, name, known)


def _two_tier_datasheet(kind: CollectiveKind, size: Float64, nodes: Nodes, links: _Links) -> Estimate | None:
    """Several ranks on several nodes."""
    across = links.inter
    if across is None:
        return None
    if (pair := links.pair) is not None and kind in _hccl.BETWEEN_SERVERS:
        time = _hccl.time_ns(kind, size, nodes, pair.link, across.link)
        return _estimate(time, "mesh inside servers and HCCL's choice between them", pair, across)
    if (inside := links.intra) is None:
        return None
    if kind in RINGS:
        ring = RINGS[kind]
        sent, steps = ring.sent_nbytes(size, nodes.ranks), float(ring.steps(nodes.ranks))
        time = ring_time_ns(sent, steps, nodes, inside.link, across.link)
        return _estimate(time, "ring over two tiers", inside, across)
    moved = hierarchical.tier_nbytes(size, nodes.ranks, nodes.ranks_per_node)
    time = hierarchical.two_tier_time_ns(*moved, inside.link, across.link)
    return _estimate(time, "the slower of two tiers", inside, across)


def _estimate(time_ns: Float64, algorithm: str, *links: _Known) -> Estimate:
    """Graded by the weakest of the links; the formula names what each is known from."""
    grade = max(known.grade for known in links)
    sources = " and ".join(dict.fromkeys(known.source for known in links))
    return Estimate(time_ns, np.full(len(time_ns), grade, np.int8), f"{algorithm}, {sources}")


def _flat_link(profile: HardwareProfile, tier: str) -> _Known | None:
    """Bandwidth of a tier, and the latency of the node's links for that of a pair; at best from the datasheet."""
    bandwidth = profile.parameters.get(f"{tier}_bytes_per_s")
    if bandwidth is None:
        return None
    latency = profile.parameters.get(f"{tier.removesuffix('_pair')}_latency_ns")
    grade = max(Grade.DATASHEET, *(known.grade for known in (bandwidth, latency) if known is not None))
    return _Known(Link(bandwidth.value, 0.0 if latency is None else latency.value), grade, grade.label)
