"""What the comment lines of an nccl-tests log say about the rows below them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace

from parsers.samples._collective_words import op_in
from parsers.samples._rows import common, spans
from replay.samples import UNKNOWN

_RANK = re.compile(
    r"#\s*Rank\s+(\d+)\s+(?:Group\s+(-?\d+)\s+)?(?:Pid\s+\d+\s+)?on\s+(\S+)\s+device\s+(\S+)\s+\[[^\]]*\]\s*(.*)$"
)
_OPTIONS = re.compile(r"#\s*nThread\s+\d+\s+nGpus\s+\d+.*?(?<!warmup )\biters:\s*(\d+)(?:.*?\bagg iters:\s*(\d+))?")
_ENDED = re.compile(r"Avg bus bandwidth|Collective test concluded")
_STARTING = re.compile(r"Collective test starting:\s*(\S+)")
_COMMAND = re.compile(r"([a-z_0-9]+_perf)\b")
_LIBRARY = re.compile(r"nccl-library=(\d+)")
_VERSION = re.compile(r"\b(NCCL|RCCL) version\s*:?\s*(\d[\w.\-]*)")
_COMPILED = re.compile(r"compiled with NCCL (\d[\d.]*)")
_IN_FILE_NAME = re.compile(r"(?<![a-z])([nr]ccl)[_\-]v?(\d+)[_.](\d+)(?!\d*[a-zA-Z])")
_SETTING = re.compile(r"NCCL_(ALGO|PROTO)(?:=| set by environment to )([A-Za-z0-9]+)")


TIMES = ("time", "cputime")


@dataclass(frozen=True, slots=True)
class Context:
    """State of a log at a line: who runs, what, with which library.

    ``columns`` are the words of the table's header, ``unit`` that of its time column ("" where it does not say).
    ``op_named`` is False once a table of ``op`` has ended: a run that follows names its own.
    """

    op: str = ""
    op_named: bool = False
    hosts: tuple[tuple[str, int, str], ...] = ()  # (host, group, device) per rank
    software: str = ""
    repeats: int = UNKNOWN
    columns: tuple[str, ...] = ()
    unit: str = ""
    in_place_only: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    rows_seen: bool = False  # since the header: a new rank list then belongs to another run

    @property
    def lead(self) -> int:
        """Columns before the first time column."""
        return next(i for i, word in enumerate(self.columns) if word in TIMES)

    @property
    def halves(self) -> int:
        """2 where the table has an out-of-place and an in-place half, else 1."""
        return sum(word in TIMES for word in self.columns)

    @property
    def width(self) -> int:
        """Columns of one half; what follows the last half (a time stamp) is in none."""
        return (len(self.columns) - self.lead) // self.halves

    @property
    def members(self) -> list[tuple[str, str]]:
        """Host and device of the ranks of the largest group (a split run has several, all alike)."""
        sizes = Counter(group for _, group, _ in self.hosts)
        if not sizes:
            return []
        largest = max(sizes, key=lambda group: (sizes[group], -group))
        return [(host, device) for host, group, device in self.hosts if group == largest]

    def spans(self) -> dict[str, float]:
        """ranks, nodes and ranks_per_node as far as the log tells them."""
        return spans(host for host, _ in self.members)

    @property
    def device(self) -> str:
        """Model of the devices, "" where they differ."""
        return common(device for _, device in self.members)

    @property
    def variant(self) -> str:
        """Algorithm and protocol where they were set."""
        return " ".join(f"{name.lower()}={value}" for name, value in sorted(self.settings.items()))


def advance(context: Context, line: str) -> Context:
    """The context after a line that is not a row."""
    if rank := _RANK.search(line):
        again = context.rows_seen or (int(rank[1]) == 0 and not rank[2])
        before = () if again else context.hosts
        hosts = (*before, (rank[3], int(rank[2] or 0), rank[5].strip()))
        return replace(context, hosts=hosts, rows_seen=False)
    if "algbw" in line and "busbw" in line:
        words = line[line.index("#") if "#" in line else 0 :].replace("#", " ").split()
        return replace(context, columns=tuple(words), unit="") if TIMES[0] in words or TIMES[1] in words else context
    if context.columns and not context.unit and (unit := re.search(r"\((us|ms|s)\)", line)):
        return replace(context, unit=unit[1])
    return _facts(context, line)


def _facts(context: Context, line: str) -> Context:
    """Software, iterations, the name of the test and settings."""
    if "in-place" in line or "out-of-place" in line:
        return replace(context, in_place_only="out-of-place" not in line)
    if options := _OPTIONS.search(line):  # a run begins: what was known of the run before no longer holds
        total = int(options[1]) * int(options[2] or 1)
        op = context.op if context.op_named else ""
        return replace(context, op=op, repeats=total, hosts=(), columns=(), rows_seen=False)
    if _ENDED.search(line):
        return replace(context, op_named=False)
    if (starting := _STARTING.search(line) or _COMMAND.search(line)) and (op := op_in(starting[1])):
        return replace(context, op=op, op_named=True)
    if software := _software(line):
        return replace(context, software=software)
    if setting := _SETTING.search(line):
        return replace(context, settings=context.settings | {setting[1]: setting[2]})
    return context


def software_in(name: str) -> str:
    """Library and version that a file name tells (``polaris_nccl_2_18_n2…``), "" where it tells none."""
    found = _IN_FILE_NAME.search(name)
    return f"{found[1]} {found[2]}.{found[3]}" if found else ""


def _software(line: str) -> str:
    """Library and version, as nccl-tests, NCCL_DEBUG or RCCL print them."""
    if library := _LIBRARY.search(line):
        return f"nccl {decoded_version(int(library[1]))}"
    if version := _VERSION.search(line):
        return f"{version[1].lower()} {version[2].split('+')[0]}"
    compiled = _COMPILED.search(line)
    return f"nccl {compiled[1]}" if compiled else ""


def decoded_version(code: int) -> str:
    """Version of a version code: 22807 is 2.28.7, 2804 is 2.8.4 (nccl.h: the factor changed with 2.9)."""
    major, rest = divmod(code, 10_000 if code >= 10_000 else 1_000)
    return f"{major}.{rest // 100}.{rest % 100}"
