"""Host sides of small training steps, as the profiler of PyTorch writes them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.program.events import AUTOGRAD, HOST, Row, launched, operator


@dataclass
class Step:
    """Operators in order of time, 10 ns each, every one of which launches a kernel of 1 ns."""

    rows: list[Row] = field(default_factory=list)
    now: int = 0
    number: int = 0  # next autograd sequence number
    kernels: int = 0

    def forward(self, name: str, *, node: bool = True) -> int:
        """One operator on the main thread; returns the number of the node that it makes."""
        self.rows.append(operator(name, HOST, self.now, self.now + 10, self.number))
        self._launch(HOST, f"{name} kernel")
        self.number += node
        return self.number - 1

    def backward(self, name: str, number: int = -1, *, lane: int = AUTOGRAD) -> None:
        """One node of the engine, with the operator that does its work inside."""
        label = f"autograd::engine::evaluate_function: {name}"
        self.rows.append(operator(label, lane, self.now, self.now + 10, number))
        self.rows.append(operator(name, lane, self.now + 1, self.now + 9, number))
        self._launch(lane, f"{name} kernel")

    def plain(self, name: str) -> None:
        """One operator without a number."""
        self.rows.append(operator(name, HOST, self.now, self.now + 10))
        self._launch(HOST, f"{name} kernel")

    def _launch(self, lane: int, name: str) -> None:
        self.kernels += 1
        self.rows += launched(name, lane, self.now + 5, self.now + 8, 1, self.kernels)
        self.now += 20
