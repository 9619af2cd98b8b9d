"""Learn from a recording how pipeline neighbours exchange: overlapped or not, eager or blocking, and at what cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

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
    tolerance_ns = _tolerance_ns(steps)
    dp_rank = min(item.dp_rank for item in steps[0].passes)
    for overlapped, blocking in candidates:  # the last one is taken whatever contradicts it
        found = exchanges(orders, layout, dp_rank, overlapped=overlapped)
        waits = list(_waits(found, orders, steps, layout, blocking=blocking))
        share = _contradicted(waits, tolerance_ns)
        if share <= _EXCEPTIONS:
            break
    cost = _costs(waits)
    return ExchangeModel(overlapped, blocking, cost, _evidence(overlapped, blocking, share, cost))


@dataclass(frozen=True, slots=True)
class _Wait:
    """One batch in one step: when each side was there, and when the pass that waited for it started."""

    key: CostKey
    released_ns: int  # the later of own post and peers' posts
    start_ns: int
    hidden: bool  # the rank was busy with another pass until after that


def _waits(
    found: Exchanges, orders: Sequence[ScheduleOrder], steps: Sequence[RecordedStep], layout: Layout, *, blocking: bool
) -> Iterator[_Wait]:
    """Every batch with messages that a pass waited for, in every step."""
    before: dict[Pass, Pass] = {}
    for stage, order in enumerate(orders):
        items = passes_of(order, min(item.dp_rank for item in steps[0].passes), stage)
        before.update(zip(items[1:], items, strict=False))
    waited = [
        (batch, batch.wait, found.peers(batch, layout, blocking=blocking))
        for batch in found.batches
        if batch.wait is not None and batch.messages
    ]
    for step in steps:
        end = {item: span.end_ns for item, span in step.passes.items()}
        for batch, wait, peers in waited:
            own_ns = end[batch.post] if batch.post else 0
            peer_ns = max((end[peer] for peer in peers), default=0)
            released = max(own_ns, peer_ns)
            hidden = wait in before and end[before[wait]] > released
            key = CostKey(batch.messages, batch.exposed, own=own_ns >= peer_ns)
            yield _Wait(key, released, step.passes[wait].start_ns, hidden)


def _contradicted(waits: Sequence[_Wait], tolerance_ns: float) -> float:
    """Share of batches whose waiting pass started before one of its releases ended."""
    return sum(wait.start_ns < wait.released_ns - tolerance_ns for wait in waits) / max(len(waits), 1)


def _tolerance_ns(steps: Sequence[RecordedStep]) -> float:
    forwards = [
        span.end_ns - span.start_ns
        for step in steps
        for item, span in step.passes.items()
        if item.phase == PassKind.FORWARD
    ]
    return _TOLERANCE * float(np.median(forwards))


def _costs(waits: Sequence[_Wait]) -> dict[CostKey, int]:
    """Median of start minus latest release per kind of batch, over waits that nothing else hid."""
    gaps: dict[CostKey, list[int]] = defaultdict(list)
    for wait in waits:
        if not wait.hidden:
            gaps[wait.key].append(wait.start_ns - wait.released_ns)
    return {key: max(0, round(float(np.median(values)))) for key, values in sorted(gaps.items())}


def _evidence(overlapped: bool, blocking: bool, share: float, cost: Mapping[CostKey, int]) -> tuple[str, ...]:
    habit = "overlapped with compute" if overlapped else "not overlapped"
    sends = "hold their sender until the receiver is ready" if blocking else "are eager"
    return (
        f"pipeline exchanges are {habit} and sends {sends} ({100 * share:.1f} % of the measured starts disagree)",
        f"an exchange costs {_range_ms(cost.values())} by its number of messages and by which side comes last",
    )


def _range_ms(values_ns: Collection[int]) -> str:
    low, high = min(values_ns, default=0), max(values_ns, default=0)
    return f"{ns_to_ms(low):.2f} ms" if low == high else f"{ns_to_ms(low):.2f} to {ns_to_ms(high):.2f} ms"
