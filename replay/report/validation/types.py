"""One case of a validation: what was asked, predicted and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from replay.core.units import percent

UNKNOWN_DEVICE = "unknown"


@dataclass(frozen=True, slots=True)
class Width:
    """One part of an interval: relative half-widths below and above, and where it is from."""

    kind: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CaseRow:
    """A case and its outcome; ``refused`` is the reason why there is no prediction."""

    name: str
    device: str
    change: str  # what changes, as keys joined by +
    source: str
    options: str = ""  # the question in words of the command line
    split: str = ""
    measured_step_ms: float | None = None
    spread_pct: float | None = None  # of the measured steps
    predicted_step_ms: float | None = None
    interval_ms: tuple[float, float] | None = None
    widths: tuple[Width, ...] = ()  # before calibration
    changed: tuple[str, ...] = ()  # sizes and edits, without what follows from them
    unprofiled_step_ms: float | None = None  # measured
    source_overhead_pct: float | None = None  # profiled against unprofiled step of the source
    apart: str = ""  # sizes whose changes are summed apart: the tool does not answer them yet
    refused: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def error_pct(self) -> float | None:
        """Predicted against measured, in percent of the measured step: positive is too slow."""
        return _error_pct(self.predicted_step_ms, self.measured_step_ms)

    @property
    def in_interval(self) -> bool | None:
        """Whether the 80 % interval holds the measured step."""
        if self.interval_ms is None or self.measured_step_ms is None:
            return None
        low, high = self.interval_ms
        return low <= self.measured_step_ms <= high

    @property
    def overhead_pct(self) -> float | None:
        """What the profiler adds to the target's step."""
        return _error_pct(self.measured_step_ms, self.unprofiled_step_ms)

    @property
    def unprofiled_error_pct(self) -> float | None:
        """The prediction as it stands against the unprofiled step: it still holds the source's overhead."""
        return _error_pct(self.predicted_step_ms, self.unprofiled_step_ms)

    @property
    def unprofiled_predicted_ms(self) -> float | None:
        """The prediction without the overhead that the source's own two steps tell."""
        if self.predicted_step_ms is None or self.source_overhead_pct is None:
            return None
        return self.predicted_step_ms / (1 + self.source_overhead_pct / 100)

    @property
    def corrected_error_pct(self) -> float | None:
        """The prediction without the source's overhead, against the unprofiled step."""
        return _error_pct(self.unprofiled_predicted_ms, self.unprofiled_step_ms)


@dataclass(frozen=True, slots=True)
class Validation:
    """All cases of a file, in its order."""

    file: str
    rows: Sequence[CaseRow]
    warnings: tuple[str, ...] = field(default=())


def _error_pct(value: float | None, reference: float | None) -> float | None:
    return None if value is None or reference is None else percent(value - reference, reference)
