"""all_reduce_bench.py of stas00's ml-engineering, old and new: times of torch.distributed.all_reduce.

Three shapes of output: a table by payload (``|  32KiB |  1.18GBps |  0.79GBps |``), one payload with its averages
(``with a 4.0GB payload``), and one block per rank and trial (``duration: 0.0234 sec``). GBps are bytes, Gbps bits. The
old script printed an "algo throughput" that counts bytes twice, so there the duration is taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from parsers.samples._rows import Gathered, Row
from parsers.source import SourceFile
from replay.core.units import NS_PER_S
from replay.samples import UNKNOWN, Samples

FORMAT = "torch all_reduce_bench log"

_TITLE = re.compile(r"average bandwidth of all_reduce (?:with a ([\d.]+) ?GB payload )?(.*)")
_OVER = re.compile(r"(?:over )?(\d+) ranks")
_TRIALS = re.compile(r"(\d+) trials")
_ROW = re.compile(r"\|\s*([\d.]+)\s*([KMGT]?i?B)\s*\|\s*([\d.]+)\s*GBps\s*\|\s*([\d.]+)\s*GBps\s*\|")
_AVERAGE = re.compile(r"\balgbw:\s*([\d.]+)\s*GBps")
_PAYLOAD = re.compile(r"(?:data size:|-{3,}\s*1x)\s*([\d.]+)\s*GB")
_DURATION = re.compile(r"\bduration:\s*([\d.]+) sec")
_NAME = re.compile(r"name='([^']+)'")
_NCCL = re.compile(r"nccl=\(([\d, ]+)\)")
_DTYPE = re.compile(r"torch\.(float32|bfloat16|float16)")
_UNITS = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4}


@dataclass(frozen=True, slots=True)
class _Run:
    ranks: int = 0
    trials: int = UNKNOWN
    payload: float = 0.0
    device: str = ""
    software: str = ""
    dtype: str = "fp32"


def sniff(head: bytes) -> bool:
    """Words that only this script prints together."""
    return b"bandwidth of all_reduce" in head or (b"busbw:" in head and b"duration:" in head)


def read(file: SourceFile) -> Samples:
    """All payloads, or all trials."""
    gathered = Gathered(file.name)
    run = _Run()
    for number, line in enumerate(file.read().decode("utf-8", "replace").splitlines(), start=1):
        run = _advance(run, line)
        if row := _ROW.search(line):
            _take(run, _nbytes(row[1], row[2]), float(row[4]), number, gathered)
        elif average := _AVERAGE.search(line):
            _take(run, run.payload, float(average[1]), number, gathered)
        elif duration := _DURATION.search(line):
            _timed(run, float(duration[1]), number, gathered)
    if gathered.rows and any("ranks" not in row.sizes for row in gathered.rows):
        gathered.say("nothing says how many ranks ran", gathered.rows[0].line)
    return gathered.samples()


def _advance(run: _Run, line: str) -> _Run:
    if title := _TITLE.search(line):
        ranks, trials, dtype = _OVER.search(title[2]), _TRIALS.search(title[2]), _DTYPE.search(title[2])
        run = replace(
            run,
            ranks=int(ranks[1]) if ranks else 0,
            trials=int(trials[1]) if trials else UNKNOWN,
            payload=float(title[1]) * 1e9 if title[1] else 0.0,
            dtype=dtype[1] if dtype else "fp32",
        )
    elif payload := _PAYLOAD.search(line):
        run = replace(run, payload=float(payload[1]) * 1e9)
    if name := _NAME.search(line):
        run = replace(run, device=name[1])
    if nccl := _NCCL.search(line):
        run = replace(run, software=f"nccl {nccl[1].replace(', ', '.')}")
    return run


def _take(run: _Run, nbytes: float, algbw: float, number: int, gathered: Gathered) -> None:
    """A payload with its algorithm bandwidth in GB/s: time = bytes / bandwidth."""
    if not nbytes or not algbw > 0:
        gathered.leave_out("the payload or the bandwidth is not above zero", number)
        return
    ranks = {"ranks": float(run.ranks)} if run.ranks else {}
    gathered.rows.append(
        Row("all_reduce", nbytes / algbw, number, {"nbytes": nbytes, **ranks, "in_place": 1.0}, run.dtype, run.device,
            run.software, "torch", run.trials)
    )  # fmt: skip


def _timed(run: _Run, seconds: float, number: int, gathered: Gathered) -> None:
    """A trial of one rank with its duration."""
    if not run.payload:
        gathered.leave_out("nothing says how large the payload was", number)
    elif not seconds > 0:
        gathered.leave_out("the time is not above zero", number)
    else:
        sizes = {"nbytes": run.payload, "in_place": 1.0}
        gathered.rows.append(Row("all_reduce", seconds * NS_PER_S, number, sizes, run.dtype, variant="torch"))


def _nbytes(number: str, unit: str) -> float:
    """Bytes of "32KiB"; the script's own KB are 1024 bytes too, so both mean the same."""
    return float(number) * 1024.0 ** _UNITS[unit.replace("i", "")]
