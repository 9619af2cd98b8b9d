"""Ranges around the modules of a real model, in forward and, through autograd, in backward.

Autograd runs backward nodes in reverse order of creation, so a node made right after a module is the first of its
backward and one made right before it the last: the two open and close the module's range.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, cast

import torch
from torch import Tensor
from torch.profiler import record_function


class _Mark(torch.autograd.Function):
    """Identity; calls ``action`` when its backward runs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, action: Callable[[], None]) -> Tensor:
        ctx.action = action
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        ctx.action()
        return gradients[0], None


class Ranges:
    """Draws ranges, or none where they are off (the model then runs without the marking nodes too)."""

    def __init__(self, *, on: bool) -> None:
        self._on = on
        self._unclosed: list[Any] = []  # backward ranges of modules whose input has no gradient

    def around(self, label: str) -> Any:
        """A range around what the host does."""
        return record_function(label) if self._on else nullcontext()

    def module(self, label: str, run: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """``run(x)`` in a range, and its backward in one of the same name."""
        if not self._on:
            return run(x)
        backward = record_function(label)
        first = not x.requires_grad
        if not first:
            x = _Mark.apply(x, lambda: backward.__exit__(None, None, None))
        with record_function(label):
            y = run(x)
        return cast("Tensor", _Mark.apply(y, lambda: self._open(backward, unclosed=first)))

    def close(self) -> None:
        """After a backward pass: close the range of its last module, which has no node that would."""
        while self._unclosed:
            self._unclosed.pop().__exit__(None, None, None)

    def _open(self, backward: Any, *, unclosed: bool) -> None:
        backward.__enter__()
        if unclosed:
            self._unclosed.append(backward)
