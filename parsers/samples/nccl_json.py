"""nccl-tests JSON reports (``-J``, since 2.18): the table of a run with its devices and iterations."""

from __future__ import annotations

import re
from typing import Any

import orjson

from parsers.samples._collective_words import OPS, op_in
from parsers.samples._nccl_header import decoded_version
from parsers.samples._rows import Gathered, Row, common, spans
from parsers.source import SourceFile
from replay.core.errors import TraceError
from replay.core.units import NS_PER_US
from replay.samples import UNKNOWN, Samples

FORMAT = "nccl-tests JSON report"


def sniff(head: bytes) -> bool:
    """A JSON object with the keys of the report's beginning."""
    return head.lstrip()[:1] == b"{" and b'"nccl_version"' in head and (b'"results"' in head or b'"args"' in head)


def read(file: SourceFile) -> Samples:
    """Both placements of every result."""
    gathered = Gathered(file.name)
    try:
        report = orjson.loads(file.read())
        for index, result in enumerate(report["results"], start=1):
            _take(result, report, index, gathered)
    except orjson.JSONDecodeError as error:
        raise TraceError(f"{file.name}: is cut short or no JSON ({error}); the run may have been killed") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise TraceError(f"{file.name}: is no whole nccl-tests report (no {error})") from None
    gathered.notes += [f"{file.name}: the report says: {error}" for error in report.get("errors", []) if error]
    return gathered.samples()


def _take(result: dict[str, Any], report: dict[str, Any], index: int, gathered: Gathered) -> None:
    """Samples of one result; ``line`` is its number in the list."""
    op = _op(result, report, gathered.source)
    config = report.get("config", {})
    ranks = spans(_of_devices(config, "hostname"))
    for in_place, key in enumerate(("out_of_place", "in_place")):
        half = result.get(key)
        if not half:
            continue
        per_iteration = result.get(f"{key}_per_iter") or {}
        time = half.get("time", half.get("cpu_time"))
        if (reason := _unusable(op, result, half, time)) is not None:
            gathered.leave_out(reason, index)
            continue
        gathered.rows.append(
            Row(
                op=op,
                time_ns=float(per_iteration.get("p50_us", time)) * NS_PER_US,
                spread_ns=float(per_iteration.get("stdev_us", "nan")) * NS_PER_US,
                repeats=int(result.get("actual_iterations", config.get("iterations", UNKNOWN))),
                line=index,
                sizes={"nbytes": float(result["size"]), **ranks, "in_place": float(in_place)},
                dtype=str(result.get("type", "")),
                device=common(_of_devices(config, "device_info")),
                software=f"nccl {decoded_version(int(report['nccl_version']))}",
                variant=_variant(result),
            )
        )


def _unusable(op: str, result: dict[str, Any], half: dict[str, Any], time: object) -> str | None:
    if not op:
        return "nothing says which collective it is"
    if not result.get("size"):
        return "no bytes were sent"
    if not isinstance(time, int | float) or not time > 0:
        return "the time is not above zero"
    return "the result was wrong" if isinstance(half.get("nwrong"), int | float) and half["nwrong"] > 0 else None


def _op(result: dict[str, Any], report: dict[str, Any], source: str) -> str:
    """Name of the experiment ("AllReduce"), else the program, else the file."""
    spelled = re.sub(r"[^a-z]", "", str(result.get("experiment_name", "")).lower())
    arguments = [str(word) for word in report.get("args", [])[:1]]
    return OPS.get(spelled, "") or op_in(" ".join(arguments)) or op_in(source)


def _of_devices(config: dict[str, Any], key: str) -> list[str]:
    """A word of every device, one a rank."""
    return [str(device.get(key, "")) for device in config.get("devices", [])]


def _variant(result: dict[str, Any]) -> str:
    tuning = result.get("tuning") or {}
    return " ".join(f"{name}={tuning[name]}" for name in ("algo", "proto") if tuning.get(name))
