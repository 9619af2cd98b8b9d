"""Which timelines of one rank's folder are pieces of one, which repeat another, and which are of other ranks.

msprof cuts large timelines in slices, writes a new set at every export, and in older releases one file per kind of row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from parsers.source import SourceFile

_MSPROF = re.compile(r"^msprof", re.IGNORECASE)
_SLICE = re.compile(r"slice_(\d+)", re.IGNORECASE)
_STAMP = re.compile(r"_(\d{14,17})\.")
_ONE_KIND = re.compile(r"^(?:hccl|task_time|acl|ge|runtime_api|ai_stack_time|thread_group|step_trace)_\d")


def runs_of(timelines: Sequence[SourceFile]) -> tuple[list[list[SourceFile]], int]:
    """Timelines that are apart, each as its pieces in order; and how many files repeat what others hold."""
    pieces = [file for file in timelines if _MSPROF.match(file.name) or _SLICE.search(file.name)]
    kinds = [file for file in timelines if file not in pieces and _ONE_KIND.match(file.name)]
    whole = [[file] for file in timelines if file not in pieces and file not in kinds]
    export = _one_export(pieces)
    repeated = len(pieces) - len(export)
    if pieces:
        repeated += len(kinds)
    elif kinds:
        export = kinds
    return [*whole, *([export] if export else [])], repeated


def _one_export(pieces: Sequence[SourceFile]) -> list[SourceFile]:
    """The newest set of msprof's files; within it slices, which together are the whole."""
    stamps = {file.name: _stamp(file) for file in pieces}
    newest = [file for file in pieces if stamps[file.name] == max(stamps.values())]
    slices = [file for file in newest if _SLICE.search(file.name)]
    return sorted(slices, key=_slice_number) or newest


def _stamp(file: SourceFile) -> str:
    found = _STAMP.search(file.name)
    return found[1] if found else ""


def _slice_number(file: SourceFile) -> int:
    found = _SLICE.search(file.name)
    return int(found[1]) if found else -1
