"""What is compared, and what a comparison answers. Times are integer ns until they are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from replay.report.breakdown import Breakdown
from replay.report.result import Numbers, OpMean
from replay.report.slices import Run
from replay.simulate.timeline import Timeline


class Category(IntEnum):
    """What sort of work an op is."""

    KERNEL = 0
    COLLECTIVE = 1
    COPY = 2
    HOST = 3  # host work between calls
    CALL = 4  # a runtime call's own cost

    @property
    def label(self) -> str:
        """Lower-case word of the JSON output."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class OpFacts:
    """Words per op of a graph, as far as the program's structure is known; empty strings where it is not."""

    phase: tuple[str, ...]
    role: tuple[str, ...]
    name: tuple[str, ...] = ()  # in place of the op's own, where that numbers equal ops (pipeline passes)


@dataclass(frozen=True, slots=True)
class Execution:
    """A step whose ops are known. ``faithful`` is its simulation with residuals, which ``run`` is compared against."""

    run: Run
    faithful: Timeline
    breakdown: Breakdown
    facts: OpFacts
    stage: Mapping[int, int] = field(default_factory=dict)  # rank → pipeline stage, where the layout is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two steps, with as much as its source knows."""

    source: str  # "trace", "recording", "prediction", "log"
    name: str
    step_ns: int
    step_used: str = ""
    spread_pct: float | None = None  # of the steps, in percent of the one compared
    interval_ns: tuple[int, int] | None = None  # of a prediction, 80 %
    parts_ns: Mapping[str, int] = field(default_factory=dict)  # breakdown of one rank; empty where not known
    rank: int | None = None  # the rank that the parts are of
    layout: Mapping[str, int | str | None] = field(default_factory=dict)
    numbers: Numbers = field(default_factory=dict)  # tokens_per_s, peak_gib, ... with the unit in the name
    execution: Execution | None = None
    ops: tuple[OpMean, ...] = ()  # where ops are known by name only
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpDifference:
    """Ops of one template on the ranks compared, before and after; times are summed over calls and ranks."""

    op: str
    category: str
    phase: str
    role: str
    stages: tuple[int, ...]
    ranks: tuple[int, ...]  # that the difference lies on
    calls_before: int
    calls_after: int
    total_before_ms: float
    total_after_ms: float
    difference_ms: float
    share_pct: float  # of the summed step time of the ranks compared
    noise: bool
    spread_pct: float | None  # typical change of one call from step to step; None where there is nothing to learn from


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Ops that changed together, and how the step moves when they alone change.

    ``effect_ms`` is the mean of two simulations: the first step with these ops as in the second, and the second step
    with these ops as in the first (the change made first, and made last).
    """

    what: str
    category: str
    ranks: tuple[int, ...]
    calls_before: int
    calls_after: int
    own_before_ms: float
    own_after_ms: float
    effect_ms: float
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WaitChange:
    """Waiting inside collectives of one template: a consequence of who comes late, never a cause."""

    op: str
    ranks: tuple[int, ...]
    before_ms: float
    after_ms: float
    difference_ms: float


@dataclass(frozen=True, slots=True)
class PathRow:
    """Time that ops of one name hold on the two critical paths."""

    label: str
    before_ms: float
    after_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Step of ``b`` less step of ``a``. ``parts_ns`` sums to ``difference_ns``."""

    a: Side
    b: Side
    difference_ns: int
    parts_ns: Mapping[str, int]
    parts_by_rank_ns: Mapping[int, Mapping[str, int]]
    rank: int | None
    ranks: tuple[int, ...]
    causes: tuple[Cause, ...] = ()
    explained_ms: float | None = None  # how the step moves when all causes change together
    ops: tuple[OpDifference, ...] = ()
    waits: tuple[WaitChange, ...] = ()
    critical_path: tuple[PathRow, ...] = ()
    noise_ms: float = 0.0
    within_spread: bool | None = None  # of the measured steps; None where neither side holds enough of them
    only_a: tuple[str, ...] = ()  # what one side alone knows
    only_b: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
