"""Rows of one rank: what every parser of event records fills, column by column, before ranks are put together."""

from __future__ import annotations

from dataclasses import dataclass

from replay.core.columns import Int64
from replay.trace import MISSING, Lane, LinkUse


@dataclass(frozen=True, slots=True)
class CommInfo:
    """Communication metadata as recorded on one event."""

    name: str  # "Collective name"
    in_nelems: int = MISSING
    out_nelems: int = MISSING
    in_nbytes: int = MISSING  # given directly by some producers
    out_nbytes: int = MISSING
    dtype: str = ""
    group: str = ""
    description: str = ""
    group_size: int = MISSING
    ranks: tuple[int, ...] = ()
    peer: int = MISSING  # global rank of a send's or receive's peer
    member: int = MISSING  # the peer's number inside its group
    sequence: int = MISSING
    in_split: tuple[int, ...] = ()
    out_split: tuple[int, ...] = ()
    transfer_ns: int = MISSING  # time on the wire, where the recording tells it from waiting
    algorithm: str = ""  # as the library names it
    links: tuple[LinkUse, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of length n of one file, times in ns as the file counts them; codes refer to the tables beside them."""

    start_ns: Int64
    dur_ns: Int64
    kind: Int64
    name: Int64
    lane: Int64
    correlation: Int64
    external_id: Int64
    sequence: Int64
    stream: Int64
    wait_on_record: Int64
    wait_on_stream: Int64
    nbytes: Int64
    graph_node: Int64
    shape: Int64
    dtype: Int64
    names: tuple[str, ...]
    shapes: tuple[str, ...]
    dtypes: tuple[str, ...]
    lanes: tuple[Lane, ...]
    comms: dict[int, CommInfo]  # row -> metadata recorded on it

    def __len__(self) -> int:
        return len(self.start_ns)


COLUMNS = (
    "start_ns", "dur_ns", "kind", "name", "lane", "correlation", "external_id", "sequence", "stream", "wait_on_record",
    "wait_on_stream", "nbytes", "graph_node", "shape", "dtype",
)  # fmt: skip
