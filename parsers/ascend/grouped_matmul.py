"""Sizes of GroupedMatmul and its relatives: a list of activations, a list of weights, one product an expert.

Weights are one tensor (experts, k, n), or one matrix an expert; activations one tensor of all rows, or one an expert.
With weights' gradients the rows are summed over: (k, rows) x (rows, n) of each expert gives (experts, k, n). How many
rows each expert has is in a tensor that tables do not show.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from parsers.ascend.tensors import Sizes, Tensor, matching, true_size

_EXCHANGED_FIRST = re.compile(r"^(?:aclnn)?all_?to_?all", re.IGNORECASE)


def grouped_sizes(given: Sequence[Tensor], results: Sequence[Tensor], op_type: str) -> Sizes | None:
    """Sizes of all experts' products together; ``None`` where the tensors are not such lists."""
    if len(results) == 1 and results[0].lead and not given[0].lead and not given[1].lead:
        return _weight_gradient(given[0], given[1], results[0])
    separate = len(results) if len(results) > 1 and len(given) >= 2 * len(results) else 1
    rows, rest = given[:separate], given[separate:]
    weights = rest[: _run_of(rest)]
    experts = weights[0].batch if weights[0].lead else len(weights)
    if any(not _same_width(row, rows[0]) for row in rows) or (separate > 1 and experts != separate):
        return None
    total = sum(row.rows().size for row in rows)
    if _EXCHANGED_FIRST.search(op_type) and results:
        total = sum(row.rows().size for row in results)
    for k, n, turned in weights[0].views():
        if matching(rows[0].width, k):
            return Sizes(total, n.size, true_size(rows[0].width, k), 1, experts, False, False, turned, weights[0].dtype)
    return None


def _weight_gradient(left: Tensor, right: Tensor, result: Tensor) -> Sizes | None:
    """(rows, m) and (rows, n), the first perhaps transposed, to (experts, m, n)."""
    for m, inner, turned in left.views():
        if matching(inner, right.height) and matching(m, result.height) and matching(right.width, result.width):
            sizes = true_size(m, result.height), true_size(right.width, result.width), true_size(inner, right.height)
            return Sizes(*sizes, 1, result.batch, True, turned, False)
    return None


def _run_of(weights: Sequence[Tensor]) -> int:
    """How many tensors at the begin of a list are alike."""
    return next((at for at, weight in enumerate(weights) if not _same(weight, weights[0])), len(weights))


def _same(one: Tensor, other: Tensor) -> bool:
    return (one.lead, one.height, one.width, one.dtype) == (other.lead, other.height, other.width, other.dtype)


def _same_width(one: Tensor, other: Tensor) -> bool:
    return one.width == other.width
