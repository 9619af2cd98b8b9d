"""One table of an nccl-tests log: which collective it is, in which unit, and whether its numbers agree.

algbw · time = bytes and busbw / algbw = a factor of collective and ranks (nccl-tests src/*.cu, GetBw), so a wrong unit,
a size of one block only, or a table under the wrong name are seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parsers.samples._collective_words import bus_factor, op_in
from parsers.samples._nccl_header import Context
from parsers.samples._rows import Gathered, Row
from replay.core.units import NS_PER

_UNITS = ("us", "ms", "s")
_PRECISE_GB_PER_S = 1.0  # below, bandwidths are printed with less than three digits
_AGREE = 0.05


@dataclass(frozen=True, slots=True)
class Half:
    """One half of a row, as printed; bandwidths in GB/s (1e9 bytes)."""

    line: int
    size: int
    dtype: str
    redop: str
    in_place: bool
    time: float
    algbw: float
    busbw: float
    wrong: str


def add(halves: Sequence[Half], context: Context, gathered: Gathered) -> None:
    """Take the rows of one table as samples, or say why not."""
    usable = [half for half in halves if _is_measurement(half, gathered)]
    if not usable:
        return
    first = usable[0].line
    op = context.op or op_in(gathered.source) or _op_of_bandwidths(usable, context)
    if not op:
        why = "nothing says which collective they are; name the file after it"
        gathered.say(f"{len(usable)} rows left out: {why}", first)
        return
    if (reason := _contradiction(usable, op, context)) is not None:
        gathered.say(f"{len(usable)} rows left out: {reason}", first)
        return
    to_ns, blocks = _scales(usable, context, gathered)
    spans = context.spans() or _ranks_of_bandwidths(usable, op)
    for half in usable:
        nbytes = half.size * blocks
        if half.algbw >= _PRECISE_GB_PER_S and abs(half.algbw * half.time * to_ns / nbytes - 1.0) > _AGREE:
            gathered.leave_out("time and bandwidth contradict each other", half.line)
            continue
        sizes = {"nbytes": nbytes, **spans, "in_place": float(half.in_place)}
        gathered.rows.append(
            Row(op, half.time * to_ns, half.line, sizes, half.dtype, context.device, context.software,
                context.variant, context.repeats)
        )  # fmt: skip


def _is_measurement(half: Half, gathered: Gathered) -> bool:
    if half.size == 0:
        gathered.leave_out("no bytes were sent (fewer elements than ranks)", half.line)
    elif not half.time > 0:
        gathered.leave_out("the time is not above zero", half.line)
    elif half.wrong.replace(".", "", 1).replace("e+", "", 1).isdigit() and float(half.wrong) > 0:
        gathered.leave_out("the result was wrong", half.line)
    else:
        return True
    return False


def _precise(halves: Sequence[Half]) -> list[Half]:
    """The five rows with the largest bandwidth that is printed with three digits."""
    readable = (half for half in halves if half.algbw >= _PRECISE_GB_PER_S and half.busbw > 0)
    return sorted(readable, key=lambda half: half.algbw)[-5:]


def _ratio(precise: Sequence[Half]) -> float:
    return float(np.median([half.busbw / half.algbw for half in precise]))


def _op_of_bandwidths(halves: Sequence[Half], context: Context) -> str:
    """all_reduce or reduce_scatter where a reduction tells them apart by busbw / algbw, else ""."""
    ranks = int(context.spans().get("ranks", 0))
    precise = _precise(halves)
    if ranks < 2 or not precise or any(half.redop == "none" for half in halves):
        return ""
    ratio = _ratio(precise)
    likely = [op for op in ("all_reduce", "reduce_scatter") if abs(ratio - (bus_factor(op, ranks) or 0.0)) < 0.02]
    return likely[0] if len(likely) == 1 else ""


def _contradiction(halves: Sequence[Half], op: str, context: Context) -> str | None:
    """Why the rows cannot be of this collective among these ranks, by the ratio of their bandwidths."""
    ranks = int(context.spans().get("ranks", 0))
    precise = _precise(halves)
    expected = bus_factor(op, ranks) if ranks > 1 else None
    if expected is None or not precise or abs(_ratio(precise) - expected) <= 0.02 + 0.02 * expected:
        return None
    return f"busbw / algbw is {_ratio(precise):.3f}, but {op} among {ranks} ranks has {expected:.3f}"


def _scales(halves: Sequence[Half], context: Context, gathered: Gathered) -> tuple[float, float]:
    """ns per unit of the time column, and buffers per size column, from algbw · time = bytes."""
    named = NS_PER[context.unit or "us"]
    precise = _precise(halves)
    ranks = context.spans().get("ranks", 1.0)
    if not precise:
        return named, 1.0
    sent = float(np.median([half.algbw * half.time / half.size for half in precise]))  # 1e9 · bytes / size, per unit
    for unit in _UNITS:
        to_ns = NS_PER[unit]
        for blocks in (1.0, ranks):
            if abs(sent * to_ns / blocks - 1.0) < _AGREE:
                if unit != context.unit and context.unit:
                    gathered.say(f"times are in {unit} by algbw · time, not in {context.unit}", halves[0].line)
                if blocks > 1:
                    gathered.say(f"sizes are of one block; taken times {int(blocks)} ranks", halves[0].line)
                return to_ns, blocks
    return named, 1.0


def _ranks_of_bandwidths(halves: Sequence[Half], op: str) -> dict[str, float]:
    """Number of ranks from busbw / algbw where no rank is listed: n = top / (top - ratio), if that is whole."""
    precise = _precise(halves)
    top = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}.get(op)
    if not precise or top is None:
        return {}
    ratio = _ratio(precise)
    error = max(0.01 / half.algbw for half in precise)
    if ratio >= top - 2 * error:
        return {}
    ranks = top / (top - ratio)
    resolved = top * error / (top - ratio) ** 2 < 0.5  # the digits printed tell neighbouring numbers apart
    whole = round(ranks)
    return {"ranks": float(whole)} if resolved and abs(ranks - whole) < 0.1 and whole > 1 else {}
