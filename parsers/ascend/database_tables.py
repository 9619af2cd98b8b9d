"""Small tables of sqlite exports as the objects and rows that the text files beside a timeline hold.

So that one reading of what they mean serves both: settings and groups of a rank, its communication statistics, its
steps, and the analysis of a whole job (``cluster_analysis.db``).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec

from parsers.ascend.csv_rows import Row
from parsers.ascend.database import Database, Value, rank_in_name
from parsers.ascend.database_names import Names, known

Object = dict[str, Any]
_TIMES = {
    "Start Timestamp(us)": "start_timestamp", "Elapse Time(ms)": "elapse_time", "Transit Time(ms)": "transit_time",
    "Wait Time(ms)": "wait_time", "Synchronization Time(ms)": "synchronization_time", "Idle Time(ms)": "idle_time",
}  # fmt: skip
STEP_PARTS = {
    "Computing": "computing", "Communication(Not Overlapped)": "communication_not_overlapped",
    "Overlapped": "overlapped", "Communication": "communication", "Free": "free", "Stage": "stage", "Bubble": "bubble",
    "Communication(Not Overlapped and Exclude Receive)": "communication_not_overlapped_and_exclude_receive",
    "Preparing": "preparing",
}  # fmt: skip
_PARTS_OF_STEP = ("Computing", "Communication(Not Overlapped)", "Free")
_US_PER_MS = 1000
_MIB = 1 << 20
_SLACK = 1.5  # steps begin before the device does, and may overlap


def rank_of_device(database: Database, device: int) -> int:
    """Rank that a device is, -1 where neither the export nor its name says."""
    pairs = [(known(rank), known(number)) for rank, number in database.rows("RANK_DEVICE_MAP", ("rankId", "deviceId"))]
    ranks = [rank for rank, _ in pairs if rank >= 0]
    told = [rank for rank, number in pairs if rank >= 0 and number == device]
    if told or (len(ranks) == 1 and len(pairs) == 1):
        return told[0] if told else ranks[0]
    return rank_in_name(database.name)


def metadata(database: Database) -> Object:
    """META_DATA, whose values are JSON or plain text."""
    return {str(name): decoded(value) for name, value in database.rows("META_DATA", ("name", "value"))}


def decoded(value: Value) -> object:
    """A value that may be JSON; the same where it is not."""
    try:
        return msgspec.json.decode(str(value))
    except (msgspec.DecodeError, RecursionError):
        return value


def memory(database: Database, names: Names) -> list[Row]:
    """The largest values of MEMORY_RECORD, in bytes there, as rows of ``memory_record.csv``."""
    most: dict[Value, list[int]] = {}
    for component, *sizes in database.rows("MEMORY_RECORD", ("component", "totalAllocated", "totalReserved")):
        numbers = [known(size) for size in sizes]
        most[component] = list(map(max, most.get(component, numbers), numbers))
    columns = ("Total Allocated(MB)", "Total Reserved(MB)")
    return [
        {"Component": names.text(component)}
        | {column: repr(size / _MIB) for column, size in zip(columns, sizes, strict=True) if size >= 0}
        for component, sizes in most.items()
    ]


def communication(database: Database) -> Object:
    """CommAnalyzerTime and CommAnalyzerBandwidth as ``communication.json``: step → kind → operator → its numbers."""
    links = _links(database)
    found: Object = {}
    columns = ("hccl_op_name", "group_name", "step", "type", *_TIMES.values())
    for name, group, step, kind, *times in database.rows("CommAnalyzerTime", columns):
        key = operator_key(name, group)
        told = {label: value for label, value in zip(_TIMES, times, strict=True) if value is not None}
        entry = {"Communication Time Info": told, "Communication Bandwidth Info": links.get((key, step), {})}
        found.setdefault(str(step or "step"), {}).setdefault(str(kind or "collective"), {})[key] = entry
    return found


def operator_key(name: Value, group: Value) -> str:
    """Key of an operator in the JSON files; sums over all operators are of no group."""
    return f"{name}" if not group or str(name).lower().startswith("total") else f"{name}@{group}"


def _links(database: Database) -> dict[tuple[str, Value], Object]:
    """Bytes and time of each operator by transport, with the sizes of its packets."""
    found: dict[tuple[str, Value], Object] = defaultdict(dict)
    columns = (
        "hccl_op_name", "group_name", "step", "transport_type", "transit_size", "transit_time", "bandwidth",
        "large_packet_ratio", "package_size", "count", "total_duration",
    )  # fmt: skip
    for name, group, step, transport, size, time, bandwidth, large, packet, count, total in database.rows(
        "CommAnalyzerBandwidth", columns
    ):
        use = found[operator_key(name, group), step].setdefault(
            str(transport),
            {
                "Transit Size(MB)": size,
                "Transit Time(ms)": time,
                "Bandwidth(GB/s)": bandwidth,
                "Large Packet Ratio": large,
                "Size Distribution": {},
            },
        )
        if count:
            use["Size Distribution"][str(packet)] = [count, total]
    return dict(found)


def matrix(database: Database) -> Object:
    """CommAnalyzerMatrix as ``communication_matrix.json``: step → kind → operator → link → its numbers."""
    found: Object = {}
    columns = (
        "hccl_op_name", "group_name", "step", "type", "src_rank", "dst_rank", "transport_type", "transit_size",
        "transit_time", "bandwidth", "op_name",
    )  # fmt: skip
    for name, group, step, kind, source, target, transport, size, time, bandwidth, op in database.rows(
        "CommAnalyzerMatrix", columns
    ):
        operator = found.setdefault(str(step or "step"), {}).setdefault(str(kind or "collective"), {})
        operator.setdefault(operator_key(name, group), {})[f"{source}-{target}"] = {
            "Transport Type": transport,
            "Transit Size(MB)": size,
            "Transit Time(ms)": time,
            "Bandwidth(GB/s)": bandwidth,
            "Op Name": op or name,
        }
    return found


def steps(database: Database, recorded_us: float) -> list[Row]:
    """StepTraceTime as rows of ``step_trace_time.csv``, in µs.

    torch_npu writes µs, its reference says ms: where the steps would fill less than a hundredth of the ``recorded_us``
    as the one and fit into them as the other, they are in ms.
    """
    columns = ("deviceId", "step", *STEP_PARTS.values())
    found = []
    for number, step, *parts in database.rows("StepTraceTime", columns):
        told = {
            label: float(part) for label, part in zip(STEP_PARTS, parts, strict=True) if isinstance(part, int | float)
        }
        found.append(({"Device_id": str(known(number)), "Step": "" if step is None else str(step)}, told))
    lasting = sum(told.get(part, 0.0) for _, told in found for part in _PARTS_OF_STEP)
    in_ms = 0 < lasting < recorded_us / 100 and lasting * _US_PER_MS < recorded_us * _SLACK
    scale = _US_PER_MS if in_ms else 1
    return [of | {label: repr(part * scale) for label, part in told.items()} for of, told in found]
