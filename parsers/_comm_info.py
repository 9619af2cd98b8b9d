"""Collective metadata of an event's args, as PyTorch and Kineto write them (formats: NCCL metadata of Kineto)."""

from __future__ import annotations

import re

import msgspec

from parsers._chrome_events import CommArgs, Event
from parsers._numbers import Scalar
from parsers._rows import CommInfo
from replay.trace import MISSING

_NUMBER = re.compile(r"-?\d+")
C10D_PAIRS = frozenset({"c10d::send", "c10d::recv_"})
_PEER_ARGUMENT = 2  # of (tensors, process group, peer, tag)


def comm_info(args: CommArgs) -> CommInfo:
    """Metadata of one event that has a "Collective name"."""
    group = args.group_name if args.group_name is not None else args.group_id
    size = _int(args.group_size)
    return CommInfo(
        name=str(args.collective),
        in_nelems=_int(args.in_nelems),
        out_nelems=_int(args.out_nelems),
        in_nbytes=_int(args.in_size),
        out_nbytes=_int(args.out_size),
        dtype=str(args.dtype or ""),
        group="" if group is None else str(group),
        description=str(args.group_description or ""),
        group_size=size,
        ranks=_group_ranks(args, size),
        peer=max(_int(args.src_rank), _int(args.dst_rank)),
        sequence=_int(args.comm_sequence),
        in_split=int_list(args.in_split) or (),
        out_split=int_list(args.out_split) or (),
    )


def c10d_pair(event: Event) -> CommInfo:
    """Metadata of one of ``C10D_PAIRS``: the peer's number in its group is among the concrete inputs, if recorded."""
    try:
        inputs = msgspec.json.decode(bytes(event.args.concrete if event.args else b"") or b"[]")
    except msgspec.DecodeError:
        inputs = []
    known = isinstance(inputs, list) and len(inputs) > _PEER_ARGUMENT
    return CommInfo(str(event.name), member=_int(str(inputs[_PEER_ARGUMENT])) if known else MISSING)


def _group_ranks(args: CommArgs, size: int) -> tuple[int, ...]:
    listed = int_list(args.group_ranks)
    if listed:
        return listed
    start, stride = _int(args.rank_start), _int(args.rank_stride)
    if start >= 0 and stride > 0 and size > 0:
        return tuple(range(start, start + stride * size, stride))
    return ()


def int_list(raw: msgspec.Raw | str) -> tuple[int, ...] | None:
    """Integers of a list or of a string that holds one; ``None`` where it is absent or shortened by "..."."""
    text = raw if isinstance(raw, str) else bytes(raw).decode("utf-8", "replace")
    if not text or "..." in text or ".." in text:
        return None
    return tuple(map(int, _NUMBER.findall(text)))


def _int(value: Scalar) -> int:
    if isinstance(value, str):
        return int(value) if _NUMBER.fullmatch(value) else MISSING
    return MISSING if value is None or isinstance(value, float) else int(value)
