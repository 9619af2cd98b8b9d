"""hccl_test of the CANN toolkit: ``data_size | aveg_time | alg_bandwidth | check_result`` lines.

The output names neither collective nor ranks: they are read from the command line where the log shows it
(``mpirun -n 8 ./bin/all_reduce_test -d fp32 -p 8``), else from the file's name. Time is that of the root rank.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from parsers.samples._collective_words import op_in
from parsers.samples._rows import Gathered, Row
from parsers.source import SourceFile
from replay.core.units import NS_PER_US
from replay.samples import UNKNOWN, Samples

FORMAT = "hccl_test log"

_NUMBER = r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)"
_ROW = re.compile(rf"(?<![\d.])(\d+)\s*\|\s*{_NUMBER}\s*\|\s*{_NUMBER}\s*\|\s*(success|failed|NULL)", re.I)
_COMMAND = re.compile(r"\b(all_?reduce|all_?gather|reduce_?scatter|alltoallv?c?|broadcast|reduce|scatter)_test\b")
_ITERS = re.compile(r"\biters is (\d+)")
_PROCESSES = re.compile(r"(?:mpirun|mpiexec)\b.*?\s-(?:n|np)\s+(\d+)")
_PER_NODE = re.compile(r"_test\b.*?\s-p\s+(\d+)")
_DTYPE = re.compile(r"_test\b.*?\s-d\s+(\w+)")
_RANKS_IN_NAME = re.compile(r"(?<![a-z0-9])(\d+)p(?![a-z0-9])")
_ERROR = re.compile(r"hccl interface return err.*|This is an error in .*")


@dataclass(frozen=True, slots=True)
class _Run:
    """What the lines before a row say."""

    op: str = ""
    ranks: int = 0
    per_node: int = 0
    dtype: str = "fp32"  # the default of hccl_test
    repeats: int = UNKNOWN

    def sizes(self) -> dict[str, float]:
        """ranks, nodes and ranks per node, as far as known."""
        if not self.ranks:
            return {}
        each = min(self.per_node or 0, self.ranks)
        known = {"nodes": self.ranks / each, "ranks_per_node": float(each)} if each and self.ranks % each == 0 else {}
        return {"ranks": float(self.ranks), **known}


def sniff(head: bytes) -> bool:
    """The header of the table, however it spells the average, or the line before it."""
    return b"data_size(Bytes)" in head or (b"the minbytes is" in head and b"warmup_iters is" in head)


def read(file: SourceFile) -> Samples:
    """All rows; those that failed their check are left out."""
    gathered = Gathered(file.name)
    named = _RANKS_IN_NAME.search(file.name)
    run = _Run(op=op_in(file.name), ranks=int(named[1]) if named else 0)
    for number, line in enumerate(file.read().decode("utf-8", "replace").splitlines(), start=1):
        if row := _ROW.search(line):
            _take(row, run, number, gathered)
        else:
            run = _advance(run, line)
            if error := _ERROR.search(line):
                gathered.say(f"the log reports a failure: {error[0]}", number)
    if gathered.rows and not run.ranks:
        gathered.say("nothing says how many ranks ran; keep the mpirun line in the log", gathered.rows[0].line)
    return gathered.samples()


def _advance(run: _Run, line: str) -> _Run:
    if iters := _ITERS.search(line):
        run = replace(run, repeats=int(iters[1]))
    if command := _COMMAND.search(line):
        run = replace(run, op=op_in(command[1]) or run.op)
    if processes := _PROCESSES.search(line):
        run = replace(run, ranks=int(processes[1]))
    if per_node := _PER_NODE.search(line):
        run = replace(run, per_node=int(per_node[1]))
    if dtype := _DTYPE.search(line):
        run = replace(run, dtype=dtype[1])
    return run


def _agree(ratio: float) -> bool:
    """Bandwidth · time / bytes is one; some releases divide by 2^30 under the name of GB/s."""
    return min(abs(ratio - 1.0), abs(ratio * 2**30 / 1e9 - 1.0)) < 0.05


def _take(row: re.Match[str], run: _Run, number: int, gathered: Gathered) -> None:
    nbytes, time_us, bandwidth = int(row[1]), float(row[2]), float(row[3])
    if row[4].lower() == "failed":
        gathered.leave_out("the check failed", number)
    elif not nbytes or not time_us > 0:
        gathered.leave_out("no bytes or no time", number)
    elif not run.op:
        gathered.leave_out("nothing says which collective it is; name the file after it", number)
    elif bandwidth >= 0.01 and not _agree(bandwidth * 1e3 * time_us / nbytes):
        gathered.leave_out("time and bandwidth contradict each other", number)
    else:
        sizes = {"nbytes": float(nbytes), **run.sizes(), "in_place": 0.0}
        time_ns = time_us * NS_PER_US
        gathered.rows.append(Row(run.op, time_ns, number, sizes, run.dtype, software="hccl", repeats=run.repeats))
