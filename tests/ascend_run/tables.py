"""The tables and settings beside a timeline."""

from __future__ import annotations

from typing import Any

from tests.ascend_run.recorded import Rank
from tests.ascend_run.streams import Task, identity
from tests.ascend_run.timeline import microseconds
from tests.ascend_run.words import GROUPS

_COLUMNS = "Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us)"
_SHAPES = ",Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats"


def settings(rank: Rank, level: int) -> dict[str, Any]:
    """``profiler_info_<rank>.json``."""
    return {"config": {"experimental_config": {"_profiler_level": f"Level{level}"}}, "rank_id": rank.number}


def metadata(rank: Rank, *, named: bool) -> dict[str, Any]:
    """``profiler_metadata.json``: communicators of more than one rank, ``named`` as MindSpeed does."""
    groups = {
        identity(group): {
            "group_name": GROUPS[group.description] if named or group.description == "default_pg" else "",
            "group_rank": group.ranks.index(rank.number),
            "global_ranks": list(group.ranks),
        }
        for group in rank.groups.values()
        if rank.number in group.ranks and len(group.ranks) > 1
    }
    return {"parallel_group_info": groups, "ENV_VARIABLES": {"WORLD_SIZE": str(rank.world_size)}}


def kernel_details(rank: Rank, tasks: list[Task], *, shapes: bool) -> str:
    """``kernel_details.csv``: kernels and collectives, with the input sizes of the operators that launched them."""
    lines = [_COLUMNS + (_SHAPES if shapes else "")]
    for task in (task for task in tasks if task.kernel.type):
        name = task.exchange.operator if task.exchange else task.kernel.name
        times = [f"{microseconds(task.start)}\t", microseconds(task.end - task.start), "0.0"]
        dims = _dims(rank, task)
        cells = [cell for tensors in (dims[:2], _result(dims)) for cell in _described(tensors)]
        lines.append(",".join([name, task.kernel.type, task.kernel.core, *times, *(cells if shapes else ())]))
    return "\r\n".join(lines) + "\r\n"


def _described(tensors: list[list[int]]) -> list[str]:
    """Shapes, types and formats of tensors."""
    shapes = ";".join(",".join(map(str, shape)) for shape in tensors)
    return [f'"""{shapes}"""', ";".join(["DT_BF16"] * len(tensors)), ";".join(["ND"] * len(tensors))]


def _result(factors: list[list[int]]) -> list[list[int]]:
    """What a product returns; that of a gradient of experts' weights is the recorded third operand."""
    if len(factors) < 2 or len(factors[0]) != 2:
        return []
    return [factors[2]] if len(factors) > 2 else [[factors[0][0], factors[1][-1]]]


def _dims(rank: Rank, task: Task) -> list[list[int]]:
    """Input sizes of the innermost operator around the call."""
    call = task.call
    around = (row for row in rank.operators if row.tid == call.tid and row.start <= call.start and call.end <= row.end)
    return list(max(around, key=lambda row: row.start, default=call).args.get("Input Dims", []))


def communication(rank: Rank, tasks: list[Task]) -> dict[str, Any]:
    """``communication.json``: times of every collective."""
    kinds: dict[str, dict[str, Any]] = {"p2p": {}, "collective": {}}
    for task in tasks:
        if (exchange := task.exchange) is not None:
            wait, transit = exchange.moves - task.start, task.end - exchange.moves
            times = {"Start Timestamp(us)": task.start / 1000, "Elapse Time(ms)": (wait + transit) / 1e6}
            times |= {"Transit Time(ms)": transit / 1e6, "Wait Time(ms)": wait / 1e6}
            kind = "p2p" if task.args["Collective name"] in ("send", "recv") else "collective"
            key = f"{exchange.operator}@{identity(exchange.group)}"
            kinds[kind][key] = {"Communication Time Info": times, "Communication Bandwidth Info": {}}
    step = next(row.name for row in rank.ranges if row.name.startswith("ProfilerStep#"))
    return {f"step{step.partition('#')[2]}": kinds}
