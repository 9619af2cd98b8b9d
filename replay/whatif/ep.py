"""``--ep N``: another expert-parallel size, and another load of the experts, on the ops of a labelled graph.

Per rank the FLOPs of the experts stay; shapes, weight traffic, the exchanges and the expert gradients change (R8).
Every factor is model(new) / model(old) on a measured duration (R1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hwprofiles import HardwareProfile
from replay.core.columns import Bool, Float64
from replay.core.errors import RefusedError
from replay.core.evidence import Grade
from replay.graph.types import Graph, OpKind, Rule
from replay.layout import Layout
from replay.program.expert_ops import ExpertOps, expert_ops
from replay.program.expert_side import (
    ExpertSide,
    check_fits,
    combine_nbytes,
    dispatch_nbytes,
    experts_of,
    ranks_per_node,
    tokens_per_rank,
)
from replay.program.groups import coordinates, sizes
from replay.program.origins import origins
from replay.program.retiming import Change, RetimeContext, Retiming
from replay.program.types import Labels
from replay.trace import MISSING
from replay.whatif._draft import Draft, grade_of, quantities
from replay.whatif._expert_exchange import (
    Tiers,
    deduplicated_ns,
    deduplicated_ratio,
    envelope,
    flat_ratio,
    gradient_ratio,
    leaves_node,
)
from replay.whatif._expert_gemm import FP8, device_of, gemm_kinds, ratio, work

LEVEL = "program"
OPTION = "--ep"
ASSUMED_DEVICES_PER_NODE = 8  # every NVLink, xGMI and HCCS training node that a profile of this project describes


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that the classes of ops are compared with."""

    graph: Graph
    profile: HardwareProfile | None
    old: ExpertSide
    new: ExpertSide
    tiers: Tiers | None
    rank_load: Float64  # per op: load of its own rank (all ranks seen) or of the busiest, over the mean of maxima
    layer_load: Float64  # per op: load of the busiest rank in its layer, over the mean of maxima


def retime(graph: Graph, labels: Labels, source: Layout, target: Layout, context: RetimeContext) -> Retiming:
    """Factors on the ops of ``graph`` when experts are laid out as in ``target`` and loaded as in ``context``.

    Raises :class:`RefusedError` when the model's experts are not known, when an ep does not fit, and when the graph has
    no expert ops to re-time.
    """
    if source.ep == target.ep and context.loads is None:
        return Retiming.identity(graph)
    compared, how = _compare(graph, labels, source, target, context)
    launch_ns = origins(graph, context.trace).time_ns
    ops = expert_ops(graph, labels, source, launch_ns, compared.old.local_experts)
    _check_answerable(ops, source, target)
    draft = Draft(graph)
    draft.warn(how)
    _put_gemms(draft, compared, ops)
    _put_deduplicated(draft, compared, ops)
    _put_flat(draft, compared, ops)
    _put_waits(draft, compared, ops)
    _put_gradients(draft, compared, ops, source, target)
    return draft.finish()


def _compare(
    graph: Graph, labels: Labels, source: Layout, target: Layout, context: RetimeContext
) -> tuple[Comparison, str]:
    """Both sides in numbers, and how the tokens are known."""
    experts = experts_of(context.model)
    for layout in (source, target):
        check_fits(experts, layout)
    tokens, how = tokens_per_rank(context.trace, source, context.model)
    per_node = (context.profile and context.profile.get("devices_per_node")) or ASSUMED_DEVICES_PER_NODE
    old, new = (ExpertSide(experts, x.ep, ranks_per_node(x, int(per_node)), tokens) for x in (source, target))
    ones = np.ones(len(graph))
    if context.loads is None:
        return Comparison(graph, context.profile, old, new, Tiers.of(context.profile), ones, ones), how
    slowest = context.loads.slowest(target.ep)
    row = np.maximum(labels.layer, 0) % len(slowest)
    layer_load = slowest[row] / slowest.mean()
    rank_load = layer_load
    if len(np.unique(graph.rank)) == target.world_size:
        index = {rank: coordinates(target, rank, expert=True)["ep"] for rank in range(target.world_size)}
        own = np.array([index[int(rank)] for rank in graph.rank])
        rank_load = context.loads.of_ranks(target.ep)[row, own] / slowest.mean()
    new = replace(new, load=float(slowest.mean()))
    return Comparison(graph, context.profile, old, new, Tiers.of(context.profile), rank_load, layer_load), how


def _check_answerable(ops: ExpertOps, source: Layout, target: Layout) -> None:
    if not (ops.fused | ops.separate | ops.exchanges()).any():
        raise RefusedError(
            "no expert work can be told apart (no grouped GEMM, no dispatch or combine, no all-to-all of an expert "
            "group): record with ranges such as 'experts', 'dispatch' and 'combine' around them"
        )
    if source.ep == 1 and target.ep > 1:
        raise RefusedError("the measurement has ep 1, so it holds no expert exchange that could be re-timed")


def _put_gemms(draft: Draft, c: Comparison, ops: ExpertOps) -> None:
    """Grouped GEMMs, GEMMs of one expert each with their launches, and work on rows."""
    for separate, mask in ((False, ops.fused), (True, ops.separate)):
        for kind, chosen in gemm_kinds(c.graph, mask).items():
            device = device_of(c.profile, kind)
            found = ratio(c.old, c.new, kind, device, separate=separate)
            load = c.rank_load[chosen]
            what = "weight gradients" if kind.weight_gradient else "GEMMs"
            change = Change(
                f"expert {what}, {'one kernel an expert' if separate else 'grouped'}{', FP8' if kind.fp8 else ''}",
                _gemm_side(c.old, int(chosen.sum())),
                _gemm_side(c.new, int(chosen.sum()) * (c.new.local_experts if separate else 1)
                           / (c.old.local_experts if separate else 1)),
                "measured x roofline(new) / roofline(old), rows per expert = tokens x top-k x ep / experts x load"
                if device else "measured x FLOPs(new) / FLOPs(old); weight traffic not costed without a profile",
                grade_of(profiled=device is not None),
            )  # fmt: skip
            draft.put(chosen, found.value * load, (found.low * load, found.high * load), change)
    _put_launches(draft, c, ops.separate)
    if c.new.load != c.old.load:
        factor = c.new.load / c.old.load * c.rank_load[ops.rowwise]
        rows = Change(
            "expert activations and permutations", _side(c.old), _side(c.new), "measured x rows", Grade.SCALED
        )
        draft.put(ops.rowwise, factor, (factor, factor), rows)


def _put_launches(draft: Draft, c: Comparison, separate: Bool) -> None:
    """Host time of launching one kernel an expert: as many more launches as there are more experts on the rank."""
    edges = c.graph.edges
    launching = (edges.rule == Rule.LAUNCH) & separate[edges.target]
    calls = np.zeros(len(c.graph), dtype=np.bool_)
    calls[edges.source[launching]] = True
    calls &= c.graph.kind == OpKind.CALL
    factor = c.new.local_experts / c.old.local_experts
    before = quantities(calls=float(calls.sum()))
    after = quantities(calls=float(calls.sum()) * factor)
    change = Change("launches of expert GEMMs", before, after, "measured x experts a rank", Grade.SCALED)
    draft.put(calls, factor, (min(factor, 1.0), max(factor, 1.0)), change)


def _put_deduplicated(draft: Draft, c: Comparison, ops: ExpertOps) -> None:
    """Dispatch and combine that send one copy per distinct remote node."""
    experts = c.old.experts
    fp8 = any(FP8.search(name) for name in c.graph.names)
    for name, mask, nbytes in (
        (f"dispatch ({'FP8 + scales' if fp8 else 'BF16'})", ops.dispatch, dispatch_nbytes(experts, fp8=fp8)),
        ("combine (BF16)", ops.combine, combine_nbytes(experts)),
    ):
        if not mask.any():
            continue
        before, after = (_exchange_side(side, int(mask.sum()), nbytes) for side in (c.old, c.new))
        if c.new.ep == 1:
            draft.put(mask, 0.0, (0.0, 0.0), Change(name, before, {}, "no exchange at ep 1", Grade.SCALED))
            continue
        if leaves_node(c.old) != leaves_node(c.new):
            factor, bracket = _absolute(c, mask, nbytes)
            formula, grade = "tokens x copies x bytes / bandwidth: another link tier than measured", Grade.DATASHEET
        else:
            value = deduplicated_ratio(c.old, c.new, c.tiers)
            factor = value * c.layer_load[mask]
            bracket = (np.minimum(factor, 1.0), np.maximum(factor, 1.0)) if c.tiers is None else (factor, factor)
            formula = "measured x distinct remote nodes(new) / (old), the slower of both tiers"
            grade = grade_of(profiled=c.tiers is not None)
        draft.put(mask, factor, bracket, Change(name, before, after, formula, grade))


def _absolute(c: Comparison, mask: Bool, token_nbytes: float | None) -> tuple[Float64, tuple[Float64, Float64]]:
    """Factors that turn measured durations into the link model's; the other end of the bracket keeps the efficiency."""
    if c.tiers is None or c.new.tokens is None or token_nbytes is None:
        raise RefusedError(
            f"ep {c.old.ep} -> {c.new.ep} moves the expert exchange to another link tier than was measured: give "
            "--hardware with both bandwidths, --model with the hidden size and --from seq=…,mbs=…"
        )
    absolute = deduplicated_ns(c.new, c.tiers, token_nbytes)
    factor = absolute * c.layer_load[mask] / np.maximum(c.graph.duration_ns[mask], 1)
    efficient = absolute / deduplicated_ns(c.old, c.tiers, token_nbytes) * c.layer_load[mask]
    return factor, (np.minimum(factor, efficient), np.maximum(factor, efficient))


def _put_flat(draft: Draft, c: Comparison, ops: ExpertOps) -> None:
    """Flat all-to-alls of the expert group."""
    chosen = np.flatnonzero(ops.all_to_all)
    if not len(chosen):
        return
    nbytes = c.graph.comms.nbytes[c.graph.comm[chosen]]
    known = nbytes[nbytes != MISSING]
    before, after = (
        _side(side) | quantities(calls=len(chosen), nbytes=known.sum() * (1 - 1 / side.ep) if len(known) else None)
        for side in (c.old, c.new)
    )
    if c.new.ep == 1:
        draft.put(
            ops.all_to_all, 0.0, (0.0, 0.0), Change("all-to-all", before, {}, "no exchange at ep 1", Grade.SCALED)
        )
        return
    fit = None if c.tiers else envelope(c.graph, ops.all_to_all)
    by_size = {int(size): flat_ratio(c.old, c.new, c.tiers, max(float(size), 1.0), fit) for size in np.unique(nbytes)}
    factor = np.array([by_size[int(size)] for size in nbytes]) * c.layer_load[chosen]
    plain = (1 - 1 / c.new.ep) / (1 - 1 / c.old.ep) * c.new.load / c.old.load * c.layer_load[chosen]
    low, high = np.minimum(factor, np.minimum(plain, 1.0)), np.maximum(factor, np.maximum(plain, 1.0))
    how = "link time" if c.tiers else "latency + bytes / bandwidth as the trace shows them" if fit else "bytes"
    formula = f"measured x (new) / (old) by {how}; bytes = tokens x top-k x hidden x (1 - 1/ep)"
    grade = Grade.SCALED if c.tiers else Grade.FITTED if fit else Grade.ASSUMED
    draft.put(ops.all_to_all, factor, (low, high), Change("all-to-all", before, after, formula, grade))


def _put_waits(draft: Draft, c: Comparison, ops: ExpertOps) -> None:
    """Notify kernels wait for peers: no bytes to scale. Their wait stays; it could shrink to the shortest seen."""
    if not ops.notify.any():
        return
    calls = quantities(calls=float(ops.notify.sum()))
    if c.new.ep == 1:
        draft.put(ops.notify, 0.0, (0.0, 0.0), Change("notify", calls, {}, "no exchange at ep 1", Grade.SCALED))
        return
    duration = np.maximum(c.graph.duration_ns[ops.notify], 1)
    shortest = duration.min() / duration
    change = Change(
        "notify (waiting for peers)", calls, calls, "kept as measured: a wait, not a transfer", Grade.ASSUMED
    )
    draft.put(ops.notify, 1.0, (shortest, np.ones(len(duration))), change)


def _put_gradients(draft: Draft, c: Comparison, ops: ExpertOps, source: Layout, target: Layout) -> None:
    """Expert gradients and parameters over the expert-data group, which shrinks as ep grows."""
    before, after = (sizes(layout, expert=True)["dp"] for layout in (source, target))
    if before == after:
        return
    if before == 1:
        draft.warn(
            f"expert gradients are summed over {after} ranks at ep {target.ep}; at ep {source.ep} each expert has one "
            "copy, so the input has no such exchange and the prediction does not include it"
        )
        return
    factor = gradient_ratio((c.old.local_experts, before), (c.new.local_experts, after))
    calls = float(ops.gradient_sync.sum())
    change = Change(
        "expert gradient exchange",
        quantities(calls=calls, ranks=before, local_experts=c.old.local_experts),
        quantities(calls=calls if after > 1 else 0.0, ranks=after, local_experts=c.new.local_experts),
        "measured x local experts x (n - 1) / n, n = ranks of the expert-data group",
        Grade.SCALED,
    )
    draft.put(ops.gradient_sync, factor, (min(factor, 1.0), max(factor, 1.0)), change)


def _side(side: ExpertSide) -> dict[str, float]:
    return quantities(ep=side.ep, tokens=side.tokens, load_max_over_mean=side.load)


def _gemm_side(side: ExpertSide, calls: float) -> dict[str, float]:
    return quantities(
        experts_per_rank=side.local_experts, rows_per_expert=side.rows_per_expert, flop_per_pass=work(side), calls=calls
    )


def _exchange_side(side: ExpertSide, calls: int, token_nbytes: float | None) -> dict[str, float]:
    sent = None
    if side.tokens is not None and token_nbytes is not None:
        sent = calls * side.tokens * side.remote_nodes * token_nbytes
    return quantities(
        calls=calls, remote_nodes=side.remote_nodes, copies_inside_node=side.copies_inside, nbytes_to_other_nodes=sent,
        nbytes_per_token=token_nbytes,
    )  # fmt: skip
