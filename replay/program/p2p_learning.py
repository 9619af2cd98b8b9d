"""Learn from a recording how pipeline neighbours exchange: overlapped or not, eager or blocking, and at what cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from replay.core.units import ns_to_ms
from replay.layout import Layout
from replay.pipelines import ScheduleOrder
from replay.program.p2p import CostKey, ExchangeModel, Exchanges, exchanges, passes_of
from replay.program.recorded_steps import Pass, RecordedStep, rank_orders
from replay.recording import PassKind

_TOLERANCE = 0.05  # of a median forward: clocks of ranks differ by less, a wrong habit by a whole pass
_EXCEPTIONS = 0.02  # share of batches that may contradict a habit (disturbed steps)


def learn_exchange(steps: Sequence[RecordedStep], layout: Layout) -> ExchangeModel:
    """The most constrained habit that the measured starts do not contradict, with its costs.

    A habit is contradicted where a pass started before a pass that it has to wait for had ended.
    """
    orders = rank_orders(layout)
    if layout.pp == 1:
        return ExchangeModel()
    candidates = [(overlapped, blocking) for blocking in (True, False) for overlapped in (False, True)]
    if layout.vpp == 1:
        candidates = [(overlapped, blocking) for overlapped, blocking in candidates if not overlapped]
    dp_rank = min(item.dp_rank for item in steps[0].passes)
    for overlapped, blocking in candidates:
        found = exchanges(orders, layout, dp_rank, overlapped=overlapped)
        share = _contradicted(found, steps, layout, blocking=blocking)
        if share <= _EXCEPTIONS or (overlapped, blocking) == candidates[-1]:
            cost = _costs(found, orders, steps, layout, blocking=blocking)
            return ExchangeModel(overlapped, blocking, cost, _evidence(overlapped, blocking, share, cost))
    raise AssertionError("the last candidate is always taken")


def _contradicted(found: Exchanges, steps: Sequence[RecordedStep], layout: Layout, *, blocking: bool) -> float:
    """Share of batches whose waiting pass started before one of its releases ended."""
    early = total = 0
    for step in steps:
        forwards = [span.end_ns - span.start_ns for item, span in step.passes.items() if item.phase == PassKind.FORWARD]
        tolerance = _TOLERANCE * float(np.median(forwards))
        for batch in found.batches:
            if batch.wait is None or not batch.messages:
                continue
            released = max(step.passes[item].end_ns for item in found.releases(batch, layout, blocking=blocking))
            total += 1
            early += step.passes[batch.wait].start_ns < released - tolerance
    return early / max(total, 1)


def _costs(
    found: Exchanges, orders: Sequence[ScheduleOrder], steps: Sequence[RecordedStep], layout: Layout, *, blocking: bool
) -> dict[CostKey, int]:
    """Median of start minus latest release per kind of batch, over waits that nothing else hid."""
    before: dict[Pass, Pass] = {}
    for stage, order in enumerate(orders):
        items = passes_of(order, min(item.dp_rank for item in steps[0].passes), stage)
        before.update(zip(items[1:], items, strict=False))
    gaps: dict[CostKey, list[int]] = defaultdict(list)
    for step in steps:
        for batch in found.batches:
            if batch.wait is None or not batch.messages:
                continue
            released = max(step.passes[item].end_ns for item in found.releases(batch, layout, blocking=blocking))
            previous = before.get(batch.wait)
            if previous is None or step.passes[previous].end_ns <= released:
                gaps[CostKey(batch.messages, batch.exposed)].append(step.passes[batch.wait].start_ns - released)
    return {key: max(0, round(float(np.median(values)))) for key, values in sorted(gaps.items())}


def _evidence(overlapped: bool, blocking: bool, share: float, cost: Mapping[CostKey, int]) -> tuple[str, ...]:
    habit = "overlapped with compute" if overlapped else "not overlapped"
    sends = "hold their sender until the receiver is ready" if blocking else "are eager"
    costs = ", ".join(
        f"{key.messages} message{'s' if key.messages > 1 else ''} "
        f"{'back to back' if key.exposed else 'posted ahead'} {ns_to_ms(value):.2f} ms"
        for key, value in cost.items()
    )
    return (
        f"pipeline exchanges are {habit} and sends {sends} ({100 * share:.1f} % of the measured starts disagree)",
        f"exchange cost, median: {costs}",
    )
