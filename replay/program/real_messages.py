"""Recorded sends and receives that moved nothing, taken out so that the k-th message is the k-th of the schedule.

With several chunks a rank, StragglerAnalysis records a send and a receive for every pass, those included whose
neighbour does not exist (the model's first and last chunk); the very first receive may be missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from replay.core.errors import TraceError
from replay.layout import Layout
from replay.pipelines import ScheduleOrder
from replay.program.p2p import crosses, passes_of
from replay.program.recorded_steps import PHASE_WORDS, OpKey, Pass, RecordedStep, Span


def real_messages(step: RecordedStep, layout: Layout, orders: Sequence[ScheduleOrder]) -> RecordedStep:
    """``step`` with the messages that the schedule needs, numbered in its order.

    Raises :class:`TraceError` with the counts when they are neither one for every message nor one for every pass.
    """
    others: dict[OpKey, Span] = {}
    queues: dict[tuple[int, int, str], list[tuple[int, Span]]] = defaultdict(list)
    for key, span in step.others.items():
        if key.op_type.endswith(("-send", "-recv")):
            queues[key.dp_rank, key.stage, key.op_type].append((key.order, span))
        else:
            others[key] = span
    for (dp_rank, stage, op_type), queue in queues.items():
        word, direction = op_type.split("-")[0], 1 if op_type.endswith("-send") else -1
        same = [item for item in passes_of(orders[stage], dp_rank, stage) if PHASE_WORDS[item.phase] == word]
        slots = _slots(same, layout, direction, len(queue))
        if slots is None:
            raise TraceError(
                f"step {step.step}: stage {stage} of data-parallel rank {dp_rank} recorded {len(queue)} {op_type} for "
                f"{len(same)} passes, {sum(crosses(item, layout, direction) for item in same)} of which need one"
            )
        spans = [span for _, span in sorted(queue)]
        others |= {OpKey(dp_rank, stage, op_type, order): spans[slot] for order, slot in enumerate(slots)}
    return replace(step, others=others)


def _slots(same: Sequence[Pass], layout: Layout, direction: int, recorded: int) -> list[int] | None:
    """Places of the real messages among the recorded ones; None when the numbers do not fit."""
    real = [place for place, item in enumerate(same) if crosses(item, layout, direction)]
    if recorded == len(real):
        return list(range(recorded))
    if recorded == len(same):
        return real
    if recorded == len(same) - 1 and 0 not in real:
        return [place - 1 for place in real]
    return None
