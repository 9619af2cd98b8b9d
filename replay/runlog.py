"""RunLog: what a training log says about a job, as columns, and the steady-state step in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from replay.core.columns import Bool, Float64, Int32, Int64, check_equal_length, freeze
from replay.layout import Layout
from replay.model import ModelSpec
from replay.trace import Health

if TYPE_CHECKING:
    import pandas as pd

NOT_LOGGED = -1  # in integer columns; float columns hold NaN
STARTUP = -1  # iteration of timers printed before the first iteration

FIRST_INTERVAL = 1  # the first logged interval of a run holds compilation and allocation, whatever its length
WARMUP_SIGMAS = 3.0
NEVER_WARMUP = 0.01  # an iteration within 1 % of the steady level belongs to it, however quiet the rest is
NORMAL_MAD = 1.4826  # standard deviation of a normal distribution / its median absolute deviation
FEWEST_FOR_SPREAD = 3


class _Columns:
    """A frozen dataclass whose array fields are columns of one length."""

    __slots__ = ()

    def __post_init__(self) -> None:
        columns = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        arrays = {name: value for name, value in columns.items() if isinstance(value, np.ndarray)}
        check_equal_length(type(self).__name__, **arrays)
        for array in arrays.values():
            freeze(array)


@dataclass(frozen=True, slots=True)
class Iterations(_Columns):
    """One row per logged line, in file order. A line is the mean over the ``span`` iterations since the line before."""

    run: Int32  # 0-based; a file may hold several runs of a job, and runs that log nothing are numbered too
    iteration: Int64
    span: Int64
    elapsed_ns: Int64  # mean wall time of one iteration
    consumed_samples: Int64
    global_batch: Int64
    skipped: Int64  # iterations of the span whose update was skipped (loss scale too high)
    nan: Int64
    loss: Float64
    learning_rate: Float64
    grad_norm: Float64
    tflops_per_device: Float64  # as logged; which formula it is, the log does not say
    tokens_per_s_per_device: Float64  # as logged
    is_warmup: Bool
    is_checkpoint: Bool  # a checkpoint was written since the line before
    is_evaluation: Bool  # an evaluation ran since the line before
    other: Mapping[str, Float64] = field(default_factory=dict)  # every other segment of the lines, by its name

    def __len__(self) -> int:
        return len(self.run)

    def to_frame(self) -> pd.DataFrame:
        """One row per logged line, other segments under their own names."""
        import pandas as pd  # noqa: PLC0415 - only notebook users pay for it

        names = [f.name for f in fields(self) if f.name != "other"]
        return pd.DataFrame({name: getattr(self, name) for name in names} | dict(self.other))


@dataclass(frozen=True, slots=True)
class Timers(_Columns):
    """One row per timer and block. One rank's timers have min = max = mean; ``mean_ns`` is -1 where only a range is."""

    run: Int32
    iteration: Int64  # the line the block follows; STARTUP before the first
    name: Int32  # index into names
    min_ns: Int64
    max_ns: Int64
    mean_ns: Int64
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.run)

    def to_frame(self) -> pd.DataFrame:
        """One row per timer and block, names spelled out."""
        import pandas as pd  # noqa: PLC0415 - only notebook users pay for it

        columns = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "names"}
        return pd.DataFrame(columns | {"name": [self.names[code] for code in self.name]})


@dataclass(frozen=True, slots=True)
class Memory(_Columns):
    """One row per rank and report of the allocator, bytes."""

    run: Int32
    iteration: Int64
    rank: Int32
    allocated_nbytes: Int64
    max_allocated_nbytes: Int64
    reserved_nbytes: Int64
    max_reserved_nbytes: Int64

    def __len__(self) -> int:
        return len(self.run)

    def to_frame(self) -> pd.DataFrame:
        """One row per rank and report."""
        import pandas as pd  # noqa: PLC0415 - only notebook users pay for it

        return pd.DataFrame({f.name: getattr(self, f.name) for f in fields(self)})


@dataclass(frozen=True, slots=True)
class RunLog:
    """A training log; what is not a table is of its longest run.

    ``stated`` are the sizes that the log states, ``layout`` is ``None`` where they do not make one.
    """

    iterations: Iterations
    timers: Timers
    memory: Memory
    parameters: Mapping[tuple[int, int], int]  # (tensor rank, pipeline rank) → parameters held
    theoretical: Mapping[str, float]  # the log's own estimate: bytes and parameter counts, by their names
    arguments: Mapping[str, Any]
    stated: Mapping[str, int | str | bool]
    layout: Layout | None
    model: ModelSpec
    format: str
    device: str
    files: tuple[str, ...]
    health: Health

    @property
    def runs(self) -> int:
        """Runs that logged iterations."""
        return len(np.unique(self.iterations.run))


@dataclass(frozen=True, slots=True)
class SteadyStep:
    """Median of the iterations of a run that are neither warm-up, checkpoint nor evaluation.

    ``spread_pct`` is half their 10-90 % range in percent of the median (``None`` for fewer than three). ``updates`` is
    false where every one of them skipped its update: then the optimizer's time is not in the step.
    """

    step_ns: int
    spread_pct: float | None
    lines: int  # logged lines behind it
    run: int
    updates: bool


def steady_rows(iterations: Iterations, run: int) -> Bool:
    """Rows of ``run`` that the steady step is taken from.

    Iterations whose update was skipped are left out unless nothing else remains; so are the marked ones.
    """
    rows = (iterations.run == run) & (iterations.elapsed_ns > 0)
    marked = iterations.is_warmup | iterations.is_checkpoint | iterations.is_evaluation
    updated = iterations.skipped <= 0
    choices: tuple[Bool, ...] = (rows & ~marked & updated, rows & ~marked)
    return next((kept for kept in choices if kept.any()), rows)


def longest_run(iterations: Iterations) -> int | None:
    """The run with the most logged lines, the later one of equals; ``None`` where none has a time."""
    timed = iterations.run[iterations.elapsed_ns > 0]
    if not len(timed):
        return None
    counts = np.bincount(timed)
    return int(len(counts) - 1 - np.argmax(counts[::-1]))


def steady_step(log: RunLog) -> SteadyStep | None:
    """The steady-state step of the longest run."""
    iterations = log.iterations
    run = longest_run(iterations)
    if run is None:
        return None
    rows = steady_rows(iterations, run)
    elapsed = iterations.elapsed_ns[rows]
    centre = float(np.median(elapsed))
    spread = None
    if len(elapsed) >= FEWEST_FOR_SPREAD:
        low, high = np.percentile(elapsed, (10, 90))
        spread = float(100 * (high - low) / 2 / centre)
    updates = bool((iterations.skipped[rows] < iterations.span[rows]).any())
    return SteadyStep(round(centre), spread, len(elapsed), run, updates)


def warmup_rows(elapsed_ns: Int64, usable: Bool) -> int:
    """How many leading rows of one run are warm-up.

    The first row always is, where others follow. Then those above the level of the second half of the usable rows
    (median + three robust standard deviations, at least 1 %), up to the first that is not.
    """
    rows = np.flatnonzero(usable & (np.arange(len(elapsed_ns)) >= FIRST_INTERVAL))
    if len(rows) == 0:
        return min(FIRST_INTERVAL, len(elapsed_ns) - 1)
    level = elapsed_ns[rows[len(rows) // 2 :]]
    centre = float(np.median(level))
    deviation = NORMAL_MAD * float(np.median(np.abs(level - centre)))
    limit = centre + max(WARMUP_SIGMAS * deviation, NEVER_WARMUP * centre)
    steady = rows[elapsed_ns[rows] <= limit]
    return int(steady[0])
