"""Result logs of MLPerf Training: ``:::MLLOG {json}`` lines, perhaps behind a launcher's rank prefix.

The step is ``tracked_stats.train_step_time`` (NVIDIA's submissions since 5.0), the mean since the entry before.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parsers._log_reading import read_log
from parsers.source import SourceFile
from replay.runlog import RunLog

if TYPE_CHECKING:
    from parsers import ReadOptions

FORMAT = "mlperf-log"
BESIDE_OTHERS = True
_MARK = b":::MLLOG {"


def sniff(head: bytes, path: Path) -> bool:
    """True where the beginning holds a log entry."""
    del path
    return _MARK in head


def read(files: Sequence[SourceFile], options: ReadOptions) -> RunLog:
    """The log; several files are read one after the other."""
    del options
    return read_log(files, FORMAT)
