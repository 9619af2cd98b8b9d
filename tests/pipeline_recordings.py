"""Pipeline recordings for tests: ranks execute their schedule by hand, message cost included."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from replay.layout import Layout
from replay.pipelines import schedule
from replay.recording import PassKind, PipelineRecording
from replay.trace import Health

F, B = PassKind.FORWARD, PassKind.BACKWARD
MS = 1_000_000

Item = tuple[int, PassKind, int, int]  # rank, phase, chunk, micro-batch
PassMs = Callable[[Item], int]


def layout_of(p: int, m: int, v: int = 1, name: str = "", **sizes: int) -> Layout:
    """A layout of p ranks alone."""
    name = name or ("interleaved" if v > 1 else "1f1b")
    return Layout(pp=p, vpp=v, world_size=p, microbatches=m, schedule=name, group_size=p if v > 1 else None, **sizes)


def recording_of(layout: Layout, pass_ms: PassMs, lag_ms: int = 0, steps: int = 4) -> PipelineRecording:
    """Equal steps in which a pass starts when its rank is free and ``lag_ms`` after its input left another rank."""
    spans = execute(layout, pass_ms, lag_ms)
    rows = [(step, *item, *span) for step in range(steps) for item, span in spans.items()]
    step, rank, phase, chunk, microbatch, start, end = (np.array(column) for column in zip(*rows, strict=True))
    order = np.lexsort((start, rank, step))
    count = len(rows)
    return PipelineRecording(
        step=step[order].astype(np.int64),
        dp_rank=np.zeros(count, np.int32),
        stage=rank[order].astype(np.int32),
        kind=phase[order].astype(np.int8),
        chunk=chunk[order].astype(np.int32),
        microbatch=microbatch[order].astype(np.int32),
        order=np.zeros(count, np.int32),
        start_ns=start[order].astype(np.int64) * MS + step[order] * 10_000 * MS,
        dur_ns=(end - start)[order].astype(np.int64) * MS,
        names=("pass",) * count,
        layout=layout,
        resolution_ns=1000,
        format="test",
        files=(),
        health=Health(),
    )


def execute(layout: Layout, pass_ms: PassMs, lag_ms: int = 0) -> dict[Item, tuple[int, int]]:
    """Start and end (ms) of every pass: the semantics of a pipeline, without any of the code under test."""
    p, m, v = layout.pp, layout.microbatches or 1, layout.vpp
    orders = []
    for rank in range(p):
        order = schedule(layout.schedule or "").order(p, rank, m, v, layout.group_size or p)
        columns = zip(order.phase, order.chunk, order.microbatch, strict=True)
        orders.append([(rank, PassKind(k), int(c), int(i)) for k, c, i in columns])
    spans: dict[Item, tuple[int, int]] = {}
    free, position = [0] * p, [0] * p
    while any(position[rank] < len(orders[rank]) for rank in range(p)):
        for rank in range(p):
            while position[rank] < len(orders[rank]):
                item = orders[rank][position[rank]]
                producer = producer_of(item, p, v)
                if producer and producer not in spans:
                    break
                lag = lag_ms if producer and producer[0] != rank else 0
                start = max(free[rank], spans[producer][1] + lag if producer else 0)
                free[rank] = start + pass_ms(item)
                spans[item] = (start, free[rank])
                position[rank] += 1
    return spans


def producer_of(item: Item, p: int, v: int) -> Item | None:
    """The pass whose output ``item`` reads."""
    rank, phase, chunk, microbatch = item
    place = chunk * p + rank + (-1 if phase == F else 1)
    if place < 0:
        return None
    return (rank, F, chunk, microbatch) if place == p * v else (place % p, phase, place // p, microbatch)
