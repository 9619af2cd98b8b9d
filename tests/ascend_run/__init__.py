"""What torch_npu would have written for a recorded run: one ``*_ascend_pt`` folder a rank, from ``traces/record``'s.

Times are those of the recording. Kernels, operators and groups get the names that CANN, torch_npu and MindSpeed give
them; launches go through torch_npu's task queue; streams carry the tasks of event records and waits; collectives become
HCCL operators whose planes tell waiting from moving data.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.ascend_run.recorded import Rank, read_rank
from tests.ascend_run.streams import Task, last_arrivals, tasks_of
from tests.ascend_run.tables import communication, kernel_details, metadata, settings
from tests.ascend_run.timeline import timeline


@dataclass(frozen=True, slots=True)
class Written:
    """What the profiler was asked to record."""

    level: int = 1  # 0: neither CANN's calls nor planes nor shapes of kernels
    ranges: bool = True  # the training loop's own, as record_function draws them
    operators: bool = True  # framework operators; without them only the task queue and CANN are left of the host
    named_groups: bool = True  # communicators that bear MindSpeed's names


def write(recording: Path, target: Path, written: Written = Written(), only: tuple[int, ...] = ()) -> Path:
    """Folders of all ranks of ``recording`` (``only`` some) below ``target``, with the ``run.json`` of the job."""
    ranks = [read_rank(file) for file in recording.glob("rank*.json*")]
    latest = last_arrivals(ranks)
    for rank in ranks:
        if not only or rank.number in only:
            _write_rank(rank, tasks_of(rank, latest), target, written)
    shutil.copy(recording / "run.json", target)
    return target


def _write_rank(rank: Rank, tasks: list[Task], target: Path, written: Written) -> None:
    top = target / f"node_{rank.number}_20240605000000000_ascend_pt"
    output = top / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    detailed = written.level > 0
    files = {
        top / f"profiler_info_{rank.number}.json": settings(rank, written.level),
        top / "profiler_metadata.json": metadata(rank, named=written.named_groups),
        output / "trace_view.json": timeline(rank, tasks, written),
        **({output / "communication.json": communication(rank, tasks)} if detailed else {}),
    }
    for path, value in files.items():
        path.write_text(json.dumps(value), encoding="utf-8")
    table = kernel_details(rank, tasks, shapes=detailed)
    (output / "kernel_details.csv").write_text(table, encoding="utf-8", newline="")
