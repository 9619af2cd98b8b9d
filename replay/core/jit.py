"""The one place where kernels are compiled: cached on disk, integer time, no fast-math, so results are bit-equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` (bare arrays in, arrays out) with numba, without the GIL, cached between runs."""
    compiled: Callable[P, R] = numba.njit(cache=True, nogil=True)(function)
    return compiled
