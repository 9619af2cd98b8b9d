"""The 80 % interval of a prediction, from independent parts added in quadrature.

Each part is a relative half-width of the step at 80 % (1.2816 standard deviations of a normal). Asymmetric parts, such
as the bracket of transfer times, have two sides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

Z80 = 1.2816  # 80 % two-sided quantile of the standard normal
Z95 = 1.9600
MAD_TO_DEVIATION = 1.4826  # of a normal distribution
FEW_STEPS = 3  # fewer say nothing of their spread
UNKNOWN_SPREAD = 0.02  # assumed where the input holds fewer than three steps to learn it from


@dataclass(frozen=True, slots=True)
class Part:
    """One source of uncertainty: relative half-widths below and above, and the sentence that says where it is from."""

    low: float
    high: float
    basis: str
    kind: str = ""  # a word for the source

    @classmethod
    def symmetric(cls, width: float, basis: str, kind: str = "") -> Part:
        """The same width on both sides."""
        return cls(width, width, basis, kind)


def spread_pct(steps_ns: Sequence[int]) -> float | None:
    """Robust standard deviation of the steps in percent of their median; ``None`` for fewer than three.

    1.4826 x the median distance from the median, which is the standard deviation of a normal. The step replayed is the
    median one, and the first steps of a recording fill queues and caches: they say nothing of its spread.
    """
    if len(steps_ns) < FEW_STEPS:
        return None
    centre = median(steps_ns)
    return 100 * MAD_TO_DEVIATION * median([abs(step - centre) for step in steps_ns]) / centre


def step_spread(steps_ns: Sequence[int]) -> Part:
    """From the steps of the input: 1.28 robust deviations; a stated width where there are too few to tell."""
    spread = spread_pct(steps_ns)
    if spread is None:
        return Part.symmetric(
            UNKNOWN_SPREAD, f"one step says nothing of the spread: ± {100 * UNKNOWN_SPREAD:g} % assumed", "spread"
        )
    width = Z80 * spread / 100
    return Part.symmetric(width, f"spread of {len(steps_ns)} steps: ± {100 * width:.2f} %", "spread")


def spread_range(half_range_pct: float) -> Part:
    """From half the 10-90 % range of the steps, which is a half-width at 80 % as it stands."""
    return Part.symmetric(half_range_pct / 100, f"spread of the steps: ± {half_range_pct:.2f} %", "spread")


def start_error(p95_pct: float) -> Part:
    """From the baseline: its start errors' 95th percentile, brought to 80 %."""
    width = p95_pct / 100 * Z80 / Z95
    return Part.symmetric(width, f"start errors of the baseline: ± {100 * width:.2f} %", "start")


def bias(error_pct: float, what: str) -> Part:
    """From a known deviation of a step that should have been reproduced."""
    width = abs(error_pct) / 100
    return Part.symmetric(width, f"{what} error: ± {100 * width:.2f} %", what)


def bracket(predicted_ns: float, bounds_ns: tuple[float, float], basis: str, kind: str = "") -> Part:
    """From simulations with the durations at the lower and upper end of what is known about them."""
    low = max(0.0, 1 - min(bounds_ns) / predicted_ns)
    high = max(0.0, max(bounds_ns) / predicted_ns - 1)
    return Part(low, high, f"{basis}: -{100 * low:.2f} / +{100 * high:.2f} %", kind)


def interval(predicted_ms: float, parts: Iterable[Part]) -> tuple[float, float]:
    """Quadrature sum of the parts around the prediction, ms."""
    known = list(parts)
    low = math.sqrt(sum(part.low**2 for part in known))
    high = math.sqrt(sum(part.high**2 for part in known))
    return predicted_ms * max(0.0, 1 - low), predicted_ms * (1 + high)
