"""A pipeline step as a graph of whole passes; order, data and exchanges come from the layout alone (R7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from replay.graph.types import OpKind, Rule
from replay.layout import Layout
from replay.pipelines import ScheduleOrder
from replay.program.draft import Draft, DraftOp
from replay.program.p2p import ExchangeModel, Exchanges, exchanges, neighbour, passes_of
from replay.program.pipeline_graph import Cost, PipelineGraph
from replay.program.recorded_steps import PHASE_WORDS, Pass, rank_orders
from replay.recording import PassKind


def pass_graph(
    layout: Layout, exchange: ExchangeModel, cost: Callable[[Pass], Cost], dp_ranks: Sequence[int] = (0,)
) -> PipelineGraph:
    """One step of ``layout`` with the given pass costs, for each of the replicas ``dp_ranks``."""
    orders = rank_orders(layout)
    draft, place = Draft(), {}
    for dp_rank in dp_ranks:
        for stage, order in enumerate(orders):
            for item in passes_of(order, dp_rank, stage):
                place[item] = draft.op(_op(item, layout, cost(item)))
        _order_edges(draft, place, orders, layout, dp_rank)
        found = exchanges(orders, layout, dp_rank, overlapped=exchange.overlapped)
        _exchange_edges(draft, place, found, layout, exchange)
    return PipelineGraph(draft.build("synthesised step"), tuple(place))


def pass_name(item: Pass, layout: Layout) -> str:
    """Phase, micro-batch and, where a rank has several, chunk."""
    chunk = f" chunk {item.chunk}" if layout.vpp > 1 else ""
    return f"{PHASE_WORDS[item.phase]} {item.microbatch}{chunk}"


def _op(item: Pass, layout: Layout, cost: Cost) -> DraftOp:
    return DraftOp(
        name=pass_name(item, layout),
        rank=item.dp_rank * layout.pp + item.stage,
        lane="passes",
        kind=OpKind.COMPUTE,
        duration_ns=cost.duration_ns,
        grade=cost.grade,
    )


def _order_edges(
    draft: Draft, place: Mapping[Pass, int], orders: Sequence[ScheduleOrder], layout: Layout, dp_rank: int
) -> None:
    """Each rank runs its passes in schedule order; the loss and neighbouring chunks of one rank hand over directly."""
    for stage, order in enumerate(orders):
        items = passes_of(order, dp_rank, stage)
        for before, after in pairwise(items):
            draft.edge(place[before], place[after], Rule.SCHEDULE)
        for item in items:
            producer = neighbour(item, layout, -1)
            if producer is None and item.phase == PassKind.BACKWARD:
                draft.edge(place[item._replace(phase=PassKind.FORWARD)], place[item], Rule.DATA)
            elif producer is not None and producer.stage == item.stage:
                draft.edge(place[producer], place[item], Rule.DATA)


def _exchange_edges(
    draft: Draft, place: Mapping[Pass, int], found: Exchanges, layout: Layout, exchange: ExchangeModel
) -> None:
    """Each waiting pass starts the batch's cost after everything that the batch waits for."""
    for batch in found.batches:
        if batch.wait is None or not batch.messages:
            continue
        if batch.post is not None:
            draft.edge(place[batch.post], place[batch.wait], Rule.P2P, exchange.cost(batch, own=True))
        for released in found.peers(batch, layout, blocking=exchange.blocking):
            draft.edge(place[released], place[batch.wait], Rule.P2P, exchange.cost(batch, own=False))
