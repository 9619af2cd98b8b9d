"""What a run and an inspection answer, as frozen values whose field names are the keys of the JSON output (schema 1).

Times are milliseconds, sizes bytes, shares percent, as each name says. ``None`` means not applicable or not known and
is written as ``null``; a number that is not finite is never written (:func:`to_json_bytes` refuses it).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

import orjson

from replay.report.ascend import AscendFacts
from replay.report.log_facts import LogFacts
from replay.report.structure import StructureFacts

SCHEMA = 1

Numbers = Mapping[str, float | int | None]


@dataclass(frozen=True, slots=True)
class InputFacts:
    """Which measurement was read, and which step of it was used."""

    files: tuple[str, ...]
    format: str
    device: str
    ranks: tuple[int, ...]
    world_size: int | None
    steps: tuple[str, ...]
    step_used: str


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """What happened to the input on its way in; counts with their reasons in ``detail``."""

    events: int
    dropped: int
    clipped: int
    inferred_edges: int | None
    kernels_without_launch: int
    warnings: tuple[str, ...]
    launches_without_kernel: int = 0
    blocked_share_pct: Numbers = field(default_factory=dict)  # launches, syncs, copies: percent of the step
    clock_offset_us: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # rank → offset, ± error
    detail: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LayoutFacts:
    """Source and target layout, what was held fixed between them, and how the source was found."""

    source: Mapping[str, int | str | None]
    target: Mapping[str, int | str | None]
    held_fixed: tuple[str, ...]
    evidence: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """Ops that a what-if re-timed, before and after, as named quantities with their unit in the name."""

    name: str
    before: Numbers
    after: Numbers
    formula: str
    grade: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRow:
    """Traffic of one kind of collective in groups of one meaning, summed over the ranks given.

    ``size`` is the ranks of a group, ``nodes`` what the widest group spans, ``nbytes`` the larger of each rank's two
    buffers. ``None`` where not known, and for the side that has no such collective.
    """

    kind: str
    group: str
    size_before: int | None
    nodes_before: int | None
    calls_before: int | None
    nbytes_before: int | None
    transfer_ms_before: float | None
    size_after: int | None
    nodes_after: int | None
    calls_after: int | None
    nbytes_after: int | None
    transfer_ms_after: float | None


@dataclass(frozen=True, slots=True)
class ChunkCostRow:
    """Mean time of one chunk's passes of one phase."""

    stage: int
    chunk: int
    phase: str
    mean_ms: float
    spread_ms: float
    count: int


@dataclass(frozen=True, slots=True)
class OpMean:
    """Ops of one name: calls and time, as means over the ranks."""

    op: str
    category: str  # kernel, collective, copy, host, call
    calls_a_rank: float
    ms_a_rank: float


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How the replayed (or predicted) step moves when one parameter moves."""

    parameter: str
    change: str  # "x0.9", "x1.1"
    step_change_ms: float
    step_change_pct: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The part that a run and an inspection share: the measurement and how well it is reproduced (R5)."""

    schema: int = SCHEMA
    input: InputFacts
    health: HealthFacts
    layout: LayoutFacts
    measured_step_ms: float | None = None
    measured_step_spread_pct: float | None = None
    replayed_step_ms: float | None = None
    replay_error_pct: float | None = None
    start_error_p95_pct: float | None = None
    residual_pct: float | None = None
    breakdown: Mapping[str, Numbers] = field(default_factory=dict)  # of the slowest rank
    breakdown_mean: Mapping[str, Numbers] = field(default_factory=dict)  # over the ranks in the input
    breakdown_by_rank: Mapping[str, Numbers] = field(default_factory=dict)  # measured; rank → state → ms
    collectives: tuple[CollectiveRow, ...] = ()
    chunk_costs: tuple[ChunkCostRow, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(Measured):
    """Answer of one run. Without a question the prediction is ``None`` and only the baseline is reported."""

    lifted_step_ms: float | None = None
    lift_error_pct: float | None = None
    unassigned_pct: float | None = None
    predicted_step_ms: float | None = None
    predicted_interval_ms: tuple[float, float] | None = None
    speedup: float | None = None
    evidence_share: Numbers = field(default_factory=dict)
    sensitivity: tuple[Sensitivity, ...] = ()
    metrics: Numbers = field(
        default_factory=lambda: {"tokens_per_s": None, "tokens_per_s_per_device": None, "mfu": None}
    )
    memory: Mapping[str, Any] = field(default_factory=lambda: {"per_stage_gib": [], "peak_gib": None})
    changes: tuple[ChangeRow, ...] = ()
    interval_basis: tuple[str, ...] = ()
    question: tuple[str, ...] = ()
    pass_order: Mapping[str, str] = field(default_factory=dict)  # pipeline stage → its passes, of the target
    stragglers: Mapping[str, Any] = field(default_factory=dict)
    ops: tuple[OpMean, ...] = ()  # of the predicted step, else of the measured one
    profiled_step_ms: float | None = None  # the trace's own step where --measured-step replaced it as the anchor
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Topic:
    """One thing that can, or cannot, be asked of an input, and why."""

    option: str
    answerable: bool
    reason: str


@dataclass(frozen=True, slots=True)
class OpTotal:
    """Device ops of one name: count and summed time."""

    name: str
    calls: int
    total_ms: float
    share_pct: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection(Measured):
    """What an input holds and what can be asked of it."""

    model: Mapping[str, Any] = field(default_factory=dict)
    iterations_logged: int | None = None
    metrics: Numbers = field(
        default_factory=lambda: {"tokens_per_s": None, "tokens_per_s_per_device": None, "mfu": None}
    )
    memory: Mapping[str, Any] = field(default_factory=lambda: {"per_stage_gib": [], "peak_gib": None})
    log: LogFacts | None = None  # of a training log
    top_ops: tuple[OpTotal, ...] = ()
    launch_coverage_pct: float | None = None
    ascend: AscendFacts | None = None  # statistics of an Ascend profile
    structure: StructureFacts | None = None  # layers, micro-batches, phases found in the step of a trace
    questions: tuple[Topic, ...] = ()
    nothing_to_replay: str | None = None


Extended = TypeVar("Extended", bound=Measured)


def extend(kind: type[Extended], measured: Measured, **more: Any) -> Extended:
    """A ``kind`` with everything of ``measured`` and ``more``, which wins where both name a field."""
    shared = {f.name: getattr(measured, f.name) for f in fields(Measured)}
    return kind(**(shared | more))


def to_json(value: Any) -> Any:
    """Plain dicts, lists and scalars of a result; keys are field names."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if hasattr(value, "item"):  # a numpy scalar
        return value.item()
    return value


def to_json_bytes(result: Measured) -> bytes:
    """The JSON document of a result, indented, with a final newline.

    Raises ``ValueError`` naming the field when a number is not finite (R13): that is a bug here, never an answer.
    """
    document = to_json(result)
    broken = [path for path, number in _floats(document) if not math.isfinite(number)]
    if broken:
        raise ValueError(f"result holds a number that is not finite at {', '.join(broken)}")
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _floats(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every float below ``value`` with its dotted path."""
    if isinstance(value, float):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _floats(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, item in enumerate(value):
            yield from _floats(item, f"{path}[{index}]")
