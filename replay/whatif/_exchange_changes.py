"""How the expert exchanges of a graph change: factors, brackets and the rows of the report."""

from __future__ import annotations

import numpy as np

from replay.core.columns import Bool, Float64, Int64
from replay.core.errors import RefusedError
from replay.core.evidence import Grade
from replay.layout import Layout
from replay.program.expert_ops import ExpertOps
from replay.program.expert_side import ExpertSide, combine_nbytes, dispatch_nbytes
from replay.program.groups import sizes
from replay.program.links import UNSEEN, Moved
from replay.program.retiming import Change
from replay.trace import MISSING, CollectiveKind
from replay.whatif._comparison import Comparison, side_quantities
from replay.whatif._draft import Draft, grade_of, quantities
from replay.whatif._expert_exchange import (
    deduplicated_ns,
    deduplicated_ratio,
    flat_factor,
    gradient_ratio,
    leaves_node,
)
from replay.whatif._expert_gemm import FP8


def put_deduplicated(draft: Draft, c: Comparison, ops: ExpertOps) -> None:
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
            factor = value * c.exchange_load[mask]
            bracket = (np.minimum(factor, 1.0), np.maximum(factor, 1.0)) if c.tiers is None else (factor, factor)
            formula = "measured x distinct remote nodes(new) / (old), the slower of both tiers"
            grade = grade_of(profiled=c.tiers is not None)
        draft.put(mask, factor, bracket, Change(name, before, after, formula, c.graded(grade)))


def _absolute(c: Comparison, mask: Bool, token_nbytes: float | None) -> tuple[Float64, tuple[Float64, Float64]]:
    """Factors that turn measured durations into the link model's; the other end of the bracket keeps the efficiency."""
    if c.tiers is None or c.new.tokens is None or token_nbytes is None:
        needs = (
            (c.tiers, f"a hardware profile that lists the device {c.trace.device!r} with both link bandwidths"),
            (c.new.tokens, "the tokens per rank (--from seq=…,mbs=…)"),
            (token_nbytes, "the hidden size (--model)"),
        )
        missing = " and ".join(what for value, what in needs if value is None)
        raise RefusedError(
            f"ep {c.old.ep} -> {c.new.ep} moves the expert exchange to another link tier than was measured; that needs "
            f"{missing}"
        )
    absolute = deduplicated_ns(c.new, c.tiers, token_nbytes)
    factor = absolute * c.exchange_load[mask] / np.maximum(c.graph.duration_ns[mask], 1)
    efficient = absolute / deduplicated_ns(c.old, c.tiers, token_nbytes) * c.exchange_load[mask]
    return factor, (np.minimum(factor, efficient), np.maximum(factor, efficient))


def put_flat(draft: Draft, c: Comparison, ops: ExpertOps) -> None:
    """Flat all-to-alls of the expert group."""
    chosen = np.flatnonzero(ops.all_to_all)
    if not len(chosen):
        return
    nbytes = c.graph.comms.nbytes[c.graph.comm[chosen]]
    known = nbytes[nbytes != MISSING].sum() or None
    before, after = (
        side_quantities(side) | quantities(calls=len(chosen), nbytes=known and known * (1 - 1 / side.ep))
        for side in (c.old, c.new)
    )
    if c.new.ep == 1:
        draft.put(
            ops.all_to_all, 0.0, (0.0, 0.0), Change("all-to-all", before, {}, "no exchange at ep 1", Grade.SCALED)
        )
        return
    if c.old.ep == 1:
        formula = "messages x time of a message of that size on the input's links; bytes = tokens x top-k x hidden"
        change = Change("all-to-all", {}, after, formula, Grade.EXTRAPOLATED)
        load = c.exchange_load[chosen]
        draft.put(ops.all_to_all, load, (load * (1 - UNSEEN), load * (1 + UNSEEN)), change)
        return
    factor, how, grade = _flat_factor(c, ops.all_to_all, chosen, nbytes)
    plain = flat_factor(c.old, c.new, c.graph.duration_ns[chosen].astype(np.float64), 0.0) * c.exchange_load[chosen]
    bracket = np.minimum(factor, np.minimum(plain, 1.0)), np.maximum(factor, np.maximum(plain, 1.0))
    formula = f"{how}; bytes = tokens x top-k x hidden x (1 - 1/ep)"
    draft.put(ops.all_to_all, factor, bracket, Change("all-to-all", before, after, formula, c.graded(grade)))


def _flat_factor(c: Comparison, ops: Bool, chosen: Int64, nbytes: Int64) -> tuple[Float64, str, Grade]:
    """Factors of flat all-to-alls, how they come about, and how well they are known."""
    duration, load = c.graph.duration_ns[chosen].astype(np.float64), c.exchange_load[chosen]
    if (nbytes <= 0).all():
        return flat_factor(c.old, c.new, duration, 0.0) * load, "measured x bytes(new) / (old)", Grade.ASSUMED
    known = np.where(nbytes > 0, nbytes, np.median(nbytes[nbytes > 0]))
    found = {size: _by_messages(c, size) for size in np.unique(known).tolist()}
    factor = np.array([found[size][0] for size in known.tolist()])
    timed = "timed as the trace's transfers are by size" + (", or by the profile" if c.profile is not None else "")
    how = f"measured x (ep - 1) messages of 1/ep of the bytes(new) / (old), {timed}"
    return factor * load, how, max(grade for _, grade in found.values())


def _by_messages(c: Comparison, nbytes: float) -> tuple[float, Grade]:
    """New over old time of an all-to-all of ``nbytes`` a rank, on the links that the trace shows or a profile knows."""
    old, new = (Moved(CollectiveKind.ALL_TO_ALL, nbytes, ranks) for ranks in (c.old_group, c.new_group))
    factor, grade = c.links.ratio(old, new)
    return factor * c.new.load / c.old.load, grade


def put_gathers(draft: Draft, c: Comparison, ops: ExpertOps) -> None:
    """All-gather dispatcher: every token goes to all other ranks of the group, whatever its experts."""
    if not ops.all_gather.any() or c.new.ep == c.old.ep:
        return
    factor = (c.new.ep - 1) / (c.old.ep - 1)
    before, after = (
        side_quantities(side) | quantities(calls=float(ops.all_gather.sum()), copies_per_token=side.ep - 1)
        for side in (c.old, c.new)
    )
    formula = "measured x (ep - 1)(new) / (old): tokens x hidden to every other rank"
    change = Change("all-gather dispatch and reduce-scatter combine", before, after, formula, Grade.ASSUMED)
    draft.put(ops.all_gather, factor, (min(factor, 1.0), max(factor, 1.0)), change)


def put_waits(draft: Draft, c: Comparison, ops: ExpertOps) -> None:
    """Notify kernels wait for peers: no bytes to scale. Their wait stays; it could shrink to the shortest seen."""
    if not ops.notify.any() or c.new.ep == c.old.ep:
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


def put_gradients(draft: Draft, c: Comparison, ops: ExpertOps, source: Layout, target: Layout) -> None:
    """Expert gradients and parameters over the expert-data group, which shrinks as ep grows."""
    before, after = (sizes(layout, expert=True)["dp"] for layout in (source, target))
    if (before, c.old.local_experts) == (after, c.new.local_experts):
        return
    if before == 1 < after and not ops.gradient_sync.any():
        draft.warn(
            f"expert gradients are summed over {after} ranks at ep {target.ep}; at ep {source.ep} each expert has one "
            "copy, so the input has no such exchange"
        )
    if before == 1:
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


def _exchange_side(side: ExpertSide, calls: int, token_nbytes: float | None) -> dict[str, float]:
    sent = None
    if side.tokens is not None and token_nbytes is not None:
        sent = calls * side.tokens * side.remote_nodes * token_nbytes
    return quantities(
        calls=calls, remote_nodes=side.remote_nodes, copies_inside_node=side.copies_inside, nbytes_to_other_nodes=sent,
        nbytes_per_token=token_nbytes,
    )  # fmt: skip
