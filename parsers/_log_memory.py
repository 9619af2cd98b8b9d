"""Memory and parameter counts that Megatron prints: allocator reports per rank, and its own theoretical estimate.

Megatron's MB is 2^20 bytes. Source: Megatron-LM ``report_memory``, ``theoretical_memory_usage.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MIB = 1 << 20

_SIZE = r"\d{1,15}(?:\.\d*)?"
_REPORT = re.compile(
    rf"\[Rank (\d{{1,9}})\] \(after (\d{{1,15}}) iterations\) memory \(MB\)((?: \| [a-z ]+: {_SIZE}(?=[ \[]|$))+)"
)
_FIELD = re.compile(rf"\| ([a-z ]+): ({_SIZE})")
_PARAMETERS = re.compile(
    r"number of parameters on (?:\([^)]*\)\s*)?model parallel rank \(?([\d, ]{1,60})\)?: (\d{1,18})(?!\d)"
)
_BILLIONS = re.compile(rf"((?:Number|Total number) of (?:active )?parameters[\w ]*) in billions:\s*({_SIZE})")
_FOOTPRINT = re.compile(rf"(weight and optimizer|activation|total)=({_SIZE}) MB")
_ACTIVATION = re.compile(rf"Activation memory footprint per transformer layer[^:]*: ({_SIZE}) MB")


class Report(NamedTuple):
    """The caching allocator of one rank, bytes; -1 where a field is not printed."""

    rank: int
    iteration: int
    allocated: int
    max_allocated: int
    reserved: int
    max_reserved: int


def reports(text: str) -> Iterator[Report]:
    """Reports in a line, which may hold several (ranks write at once)."""
    if "memory (MB)" not in text:
        return
    for rank, iteration, body in _REPORT.findall(text):
        sizes = {name: _bytes(value) for name, value in _FIELD.findall(body)}
        if "max allocated" in sizes:
            names = ("allocated", "max allocated", "reserved", "max reserved")
            yield Report(int(rank), int(iteration), *(sizes.get(name, -1) for name in names))


def parameter_counts(text: str) -> Iterator[tuple[tuple[int, int], int]]:
    """((tensor rank, pipeline rank), parameters); other dimensions in between are left out."""
    if "model parallel rank" not in text:
        return
    for ranks, count in _PARAMETERS.findall(text):
        numbers = [int(part) for part in ranks.replace(",", " ").split()]
        if numbers:
            yield (numbers[0], numbers[-1] if len(numbers) > 1 else 0), int(count)


def theoretical(text: str) -> Iterator[tuple[str, float]]:
    """Named parts of Megatron's estimate: bytes, and parameters as counts."""
    if "in billions" in text and (match := _BILLIONS.search(text)):
        yield match[1].lower(), float(match[2]) * 1e9
    elif "Theoretical memory footprints" in text:
        yield from ((f"{name} nbytes", float(_bytes(value))) for name, value in _FOOTPRINT.findall(text))
    elif "Activation memory footprint" in text and (match := _ACTIVATION.search(text)):
        yield "activation per layer nbytes", float(_bytes(match[1]))


def _bytes(text: str) -> int:
    return round(float(text) * MIB)
