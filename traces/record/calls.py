"""What is remembered about a host call beside its range: enough to write the rows a GPU profiler would have written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

NO_ARGS: Mapping[str, Any] = MappingProxyType({})

Rendezvous = Callable[[int], int]  # my arrival on the device clock → the last member's arrival


class Call(NamedTuple):
    """What a host call did; the profiler's range knows only its correlation."""

    stream: int
    name: str = ""  # of the kernel launched, or of the operator
    args: Mapping[str, Any] = NO_ARGS  # of its row, beside device, stream and correlation
    sequence: int = -1  # of a collective: how many calls its group had before
    record: int = -1  # correlation of the event record that this call waits for
    record_stream: int = -1


@dataclass(frozen=True, slots=True)
class Meeting:
    """What makes a kernel a collective: how its members meet, and the constant part of its row's args."""

    rendezvous: Rendezvous
    args: Mapping[str, Any]
