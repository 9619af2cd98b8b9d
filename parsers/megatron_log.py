"""Training logs of Megatron-LM and its relatives: Megatron-DeepSpeed, MindSpeed, Bridge, NeMo, Primus.

Where the program's own markers are: iteration lines ``_log_iterations``, timer blocks ``_log_timers``, memory
``_log_memory``, arguments ``_log_arguments``, and what they say about layout and model ``_log_layout``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parsers._log_reading import read_log
from parsers.source import SourceFile
from replay.runlog import RunLog

if TYPE_CHECKING:
    from parsers import ReadOptions

FORMAT = "megatron-log"
GENERIC = True  # a benchmark's log may hold such lines too
BESIDE_OTHERS = True

_MARKS = re.compile(
    rb"iteration:?\s+\d{1,15}\s*/\s*\d{1,15}\s*\|"
    rb"|-{4} [\w ]{0,60}arguments -{4}"
    rb"|using world size: \d"
    rb"|number of parameters on [^\n]{0,60}model parallel rank"
    rb"|train_step_timing in s"
    rb"|iter time \(s\): \d"
    rb"|--tensor-model-parallel-size[ =]\d"
)
OVERLAP = 1 << 8  # a mark may lie across two blocks


def sniff(head: bytes, path: Path) -> bool:
    """True where the beginning holds one of the program's marks."""
    del path
    return _MARKS.search(head) is not None


def search(file: SourceFile) -> bool:
    """True where such a mark comes later: launchers print megabytes before the program starts."""
    tail = b""
    try:
        for block in file.blocks():
            if _MARKS.search(tail + block):
                return True
            tail = block[-OVERLAP:]
    except EOFError:
        return False
    return False


def read(files: Sequence[SourceFile], options: ReadOptions) -> RunLog:
    """The log; several files are read one after the other."""
    del options
    return read_log(files, FORMAT)
