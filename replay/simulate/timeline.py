"""Timeline: when each op ran, and what released it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from replay.core.columns import Int64

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Timeline:
    """Result of executing a graph of n ops; times are ns from the step's begin."""

    start_ns: Int64
    end_ns: Int64
    bound_by: Int64  # index of the edge (in Graph.edges) that released the op; -1: its own ready time

    @property
    def step_ns(self) -> int:
        """End of the last op; 0 for an empty graph."""
        return int(self.end_ns.max(initial=0))

    def to_frame(self) -> pd.DataFrame:
        """One row per op."""
        import pandas as pd  # noqa: PLC0415 - only notebook users pay for it

        return pd.DataFrame({"start_ns": self.start_ns, "end_ns": self.end_ns, "bound_by": self.bound_by})

    @property
    def duration_ns(self) -> Int64:
        """end - start."""
        return np.asarray(self.end_ns - self.start_ns)
