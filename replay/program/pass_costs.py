"""What a pass costs by chunk, phase and position, learned from many steps and spread over other chunks (R7, R12).

Templates are kept apart by position (first, middle, last micro-batch: weight casts, parameter gathers, gradient syncs
differ) and by pairing (a pass of the steady state shares the device with exchanges; one of warm-up or cool-down runs
alone, R10). They are trimmed means: sums of medians fall short of the sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from replay.core.errors import LayoutError, RefusedError
from replay.core.evidence import Grade
from replay.core.statistics import trimmed_mean
from replay.layout import Layout
from replay.program.p2p import passes_of
from replay.program.pipeline_graph import Cost
from replay.program.recorded_steps import PHASE_WORDS, Pass, RecordedStep, rank_orders
from replay.recording import PassKind


class Position(IntEnum):
    """Place of a micro-batch in the step."""

    FIRST = 0
    MIDDLE = 1
    LAST = 2


class Template(NamedTuple):
    """Passes that cost the same."""

    place: int  # chunk of the model, 0-based: chunk·p + stage
    phase: PassKind
    paired: bool  # with a pass of the other phase, in the steady state
    position: Position


@dataclass(frozen=True, slots=True)
class ChunkCost:
    """Trimmed mean, and root of the trimmed mean square deviation, of one chunk's passes; for the report."""

    stage: int
    chunk: int
    phase: str
    mean_ns: float
    spread_ns: float
    count: int


@dataclass(frozen=True, slots=True)
class PassCosts:
    """Trimmed means (ns) of a recording's templates, and of whole (place, phase) pools."""

    layout: Layout
    templates: Mapping[Template, float]
    pools: Mapping[tuple[int, PassKind], float]
    chunks: tuple[ChunkCost, ...]

    def of(self, wanted: Template) -> float:
        """Cost of a template; of the nearest one of its (place, phase) when it was not seen."""
        if wanted in self.templates:
            return self.templates[wanted]
        alike = [t for t in self.templates if (t.place, t.phase) == (wanted.place, wanted.phase)]
        nearest = min(alike, key=lambda t: (t.paired != wanted.paired, abs(t.position - wanted.position), t.position))
        return self.templates[nearest]


def template_of(layout: Layout) -> dict[Pass, Template]:
    """Template of every pass of one replica of ``layout``."""
    found: dict[Pass, Template] = {}
    for stage, order in enumerate(rank_orders(layout)):
        items = passes_of(order, 0, stage)
        unpaired = {*items[: order.warmup], *items[len(items) - order.warmup :]}
        for item in items:
            position = _position(item.microbatch, layout.microbatches or 1)
            found[item] = Template(item.chunk * layout.pp + stage, item.phase, item not in unpaired, position)
    return found


def _position(microbatch: int, count: int) -> Position:
    if microbatch == 0:
        return Position.FIRST
    return Position.LAST if microbatch == count - 1 else Position.MIDDLE


def learn_costs(steps: Sequence[RecordedStep], layout: Layout) -> PassCosts:
    """Templates over the passes of all ``steps`` and replicas."""
    template = template_of(layout)
    samples: dict[Template, list[int]] = defaultdict(list)
    for step in steps:
        for item, span in step.passes.items():
            samples[template[item._replace(dp_rank=0)]].append(span.end_ns - span.start_ns)
    pooled: dict[tuple[int, PassKind], list[int]] = defaultdict(list)
    for key, values in samples.items():
        pooled[key.place, key.phase] += values
    return PassCosts(
        layout,
        {key: float(trimmed_mean(values)) for key, values in samples.items()},
        {key: float(trimmed_mean(values)) for key, values in pooled.items()},
        tuple(_chunk_cost(layout, place, phase, values) for (place, phase), values in sorted(pooled.items())),
    )


def _chunk_cost(layout: Layout, place: int, phase: PassKind, values: Sequence[int]) -> ChunkCost:
    stage, chunk = place % layout.pp, place // layout.pp
    mean = float(trimmed_mean(values))
    spread = float(np.sqrt(trimmed_mean((np.array(values) - mean) ** 2)))
    return ChunkCost(stage, chunk, PHASE_WORDS[phase], mean, spread, len(values))


def costs_for(costs: PassCosts, target: Layout, layers: int | None) -> Callable[[Pass], Cost]:
    """Cost of every pass of ``target``, from the chunks of the recorded layout.

    As many chunks as recorded: each keeps its own cost. More or fewer: with S source and S' target chunks,

        cost'(k) = body(k) · S / S' + first(k) + last(k)

    where ``body`` is the cost without embedding and head, kept by pipeline rank when the ranks are the same ones, and
    ``first`` (``last``) is what the first (last) chunk takes above the mean of the chunks between, so that embedding
    and head stay whole on the first and last chunk. Raises :class:`RefusedError` when they cannot be told apart.
    """
    source = costs.layout
    places, wanted = source.pp * source.vpp, target.pp * target.vpp
    template = template_of(target)
    grade, of = Grade.MEASURED, costs.of
    if places != wanted:
        grade = _check_layers(layers, places, wanted)
        _check_ends(places)
        of = _Spread(costs, target, places, wanted).of
    price = {key: Cost(max(0, round(of(key))), grade) for key in set(template.values())}
    return lambda item: price[template[item._replace(dp_rank=0)]]


def _check_layers(layers: int | None, places: int, wanted: int) -> Grade:
    """How well the new chunks' share of the layers is known."""
    if layers is None:
        if max(places, wanted) % min(places, wanted):
            raise RefusedError(
                f"{places} chunks do not split into {wanted}: which layers each would hold is not known; "
                "give the model's layer count with --layers"
            )
        return Grade.ASSUMED
    for chunks in (places, wanted):
        if layers % chunks:
            raise LayoutError(f"{layers} layers do not divide over {chunks} chunks (pp x vpp)")
    return Grade.SCALED


def _check_ends(places: int) -> None:
    if places < 3:
        raise RefusedError(
            f"the recording has {places} chunk{'s' if places > 1 else ''}: embedding and head cannot be told apart "
            "from the layers without a chunk between them; record a layout with at least 3 chunks (pp x vpp)"
        )


@dataclass(frozen=True, slots=True)
class _Spread:
    """Costs of ``wanted`` chunks from those of ``places`` recorded ones."""

    costs: PassCosts
    target: Layout
    places: int
    wanted: int

    def of(self, wanted: Template) -> float:
        """Cost of a target template."""
        place, phase = wanted.place, wanted.phase
        body = float(np.mean([self._body(wanted._replace(place=donor)) for donor in self._donors(place)]))
        first = self._extra(0, phase) if place == 0 else 0.0
        last = self._extra(self.places - 1, phase) if place == self.wanted - 1 else 0.0
        return body * self.places / self.wanted + first + last

    def _donors(self, place: int) -> Sequence[int]:
        """Recorded chunks whose layers speak for a target chunk: those of its rank, else all that are plain layers."""
        if self.target.pp == self.costs.layout.pp:
            return range(place % self.target.pp, self.places, self.target.pp)
        return range(1, self.places - 1)

    def _body(self, key: Template) -> float:
        """A recorded chunk without embedding and head."""
        return self.costs.of(key) - (self._extra(key.place, key.phase) if key.place in (0, self.places - 1) else 0.0)

    def _extra(self, place: int, phase: PassKind) -> float:
        """What an end chunk takes above the plain ones; an end chunk that takes less has nothing to keep apart."""
        plain = np.mean([self.costs.pools[k, phase] for k in range(1, self.places - 1)])
        return max(0.0, self.costs.pools[place, phase] - float(plain))
