"""ByteDance StragglerAnalysis: ``trace-<job>.parquet``, one row an op, and ``meta-<job>.yaml`` beside it.

Format sheet: ``start_ts`` and ``duration`` are float32 *seconds*, so their resolution is that of the largest time;
``seq_id`` is the k-th op of its type in the step on its worker, ``mc`` the chunk on the stage, ``mb_id`` the
micro-batch (compute only). Tensor parallelism is collapsed: a worker is one (dp_rank, stage). Needs pyarrow (extra
``parquet``).
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parsers._parquet import read_parquet
from parsers._passes import Intake, PassRow, Source, complete_steps, recording
from parsers.source import SourceFile
from replay.core.errors import TraceError
from replay.core.units import NS_PER_S
from replay.layout import Layout
from replay.recording import PassKind, PipelineRecording

FORMAT = "straggler-analysis"
KINDS = {
    "forward-compute": PassKind.FORWARD,
    "backward-compute": PassKind.BACKWARD,
    "forward-send": PassKind.FORWARD_SEND,
    "forward-recv": PassKind.FORWARD_RECV,
    "backward-send": PassKind.BACKWARD_SEND,
    "backward-recv": PassKind.BACKWARD_RECV,
    "params-all-gather": PassKind.PARAMS_ALL_GATHER,
    "grads-reduce-scatter": PassKind.GRADS_REDUCE_SCATTER,
    "layernorm-grads-all-reduce": PassKind.LAYERNORM_GRADS,
    "embedding-grads-all-reduce": PassKind.EMBEDDING_GRADS,
    "optimizer-clip-main-grad": PassKind.CLIP_GRAD,
    "optimizer": PassKind.OPTIMIZER,
}
COLUMNS = ("dp_rank", "stage", "step", "optype", "start_ts", "duration", "seq_id", "mc", "mb_id")
SIZES = ("dp_size", "pp_size", "tp_size", "vpp_size", "world_size")
_MAGIC = b"PAR1"
_TABLE = re.compile(r"trace-.+\.parquet$")
_TAIL_BYTES = 1 << 16  # a parquet file ends with its schema
_YAML_LINE = re.compile(r"^\s*([A-Za-z_]\w*)\s*:\s*(.*?)\s*(?:#.*)?$")
COMPANIONS = re.compile(r"(timeline|ideal-timeline|result|ms|mw)-.+\.json(\.gz)?$")  # exports of the same job, not read


def sniff(head: bytes, path: Path) -> bool:
    """A parquet file with this format's columns, or the job description beside it."""
    if head[:4] == _MAGIC:
        schema = _tail(path) if path.is_file() else b""
        return bool(_TABLE.match(path.name)) or all(name in schema for name in (b"optype", b"start_ts", b"seq_id"))
    return path.suffix in (".yaml", ".yml") and b"vpp_size:" in head and b"dp_size:" in head


def read(files: Sequence[SourceFile], options: object) -> PipelineRecording:
    """The recording of one job. Raises :class:`TraceError` for missing columns, workers or job description."""
    del options
    tables = [file for file in files if file.head(4) == _MAGIC]
    metas = [file for file in files if file not in tables]
    if len(tables) != 1:
        names = ", ".join(file.name for file in files)
        raise TraceError(f"{names}: expected one trace-<job>.parquet with its meta-<job>.yaml, found {len(tables)}")
    columns = _columns(tables[0])
    intake = Intake(events=len(columns["step"]))
    resolution_ns = _resolution_ns(columns)
    rows = _rows(columns, resolution_ns, intake)
    layout = _layout(metas, rows, tables[0].name, intake)
    complete = complete_steps(rows, layout, intake, tables[0].name)
    return recording(
        complete, Source(layout, resolution_ns, FORMAT, tuple(file.name for file in files)), intake.health()
    )


def _tail(path: Path) -> bytes:
    with path.open("rb") as stream:
        size = stream.seek(0, io.SEEK_END)
        stream.seek(max(0, size - _TAIL_BYTES))
        return stream.read()


def _columns(file: SourceFile) -> dict[str, Any]:
    """Columns of the table as numpy arrays (op types as a list of str)."""
    table = read_parquet(file)
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise TraceError(
            f"{file.name}: columns {', '.join(missing)} are missing; found {', '.join(table.column_names)}"
        )
    return {
        name: table[name].to_pylist() if name == "optype" else table[name].to_numpy(zero_copy_only=False)
        for name in COLUMNS
    }


def _resolution_ns(columns: dict[str, Any]) -> int:
    """Spacing of the stored number type at the largest finite time (float32: 0.24 ms at 2,048 s)."""
    starts = columns["start_ts"]
    finite = starts[np.isfinite(starts)]
    return max(1, round(float(np.spacing(np.abs(finite).max(initial=starts.dtype.type(0)))) * NS_PER_S))


def _rows(columns: dict[str, Any], resolution_ns: int, intake: Intake) -> list[PassRow]:
    names = columns["optype"]
    with np.errstate(invalid="ignore", over="ignore"):  # numbers that are none are counted by Intake.span
        start_s = columns["start_ts"].astype(np.float64)
        end_s = start_s + columns["duration"].astype(np.float64)
        whole = {name: columns[name].astype(np.int64) for name in ("dp_rank", "stage", "step", "seq_id", "mc", "mb_id")}
    rows = []
    for i, name in enumerate(names):
        times = intake.span(start_s[i] * NS_PER_S, end_s[i] * NS_PER_S, resolution_ns)
        if times is None:
            continue
        kind = KINDS.get(name, PassKind.OTHER)
        at = {key: int(column[i]) for key, column in whole.items()}
        microbatch = at["mb_id"] if kind in (PassKind.FORWARD, PassKind.BACKWARD) else -1
        rows.append(
            PassRow(at["step"], at["dp_rank"], at["stage"], kind, at["mc"], microbatch, at["seq_id"], *times, name)
        )
    return rows


def _layout(metas: Sequence[SourceFile], rows: Sequence[PassRow], where: str, intake: Intake) -> Layout:
    """Sizes from the job description; without one, from the rows. Raises where the two contradict."""
    found = {
        "dp_size": 1 + max((row.dp_rank for row in rows), default=0),
        "pp_size": 1 + max((row.stage for row in rows), default=0),
        "vpp_size": 1 + max((row.chunk for row in rows), default=0),
    }
    sizes = {**found, "tp_size": 1, **(_sizes(metas[0]) if metas else {})}
    for key, seen in found.items():
        if sizes[key] != seen:
            raise TraceError(f"{metas[0].name} says {key} {sizes[key]}, but {where} holds {seen}; give matching files")
    if not metas:
        intake.inferred["sizes of the layout: no meta-*.yaml"] += 1
        intake.warnings.append(f"{where}: no meta-*.yaml beside it; sizes are taken from the rows, tp 1 is assumed")
    forwards = [row.microbatch for row in rows if row.kind == PassKind.FORWARD]
    model_parallel = sizes["dp_size"] * sizes["pp_size"] * sizes["tp_size"]
    world = sizes.get("world_size", model_parallel)
    return Layout(
        tp=sizes["tp_size"],
        pp=sizes["pp_size"],
        vpp=sizes["vpp_size"],
        dp=sizes["dp_size"],
        cp=max(1, world // model_parallel),  # dsp: the sequence is divided over these ranks
        microbatches=1 + max(forwards, default=0),
        world_size=world,
        schedule="interleaved" if sizes["vpp_size"] > 1 else "1f1b",
        group_size=sizes["pp_size"] if sizes["vpp_size"] > 1 else None,
    )


def _sizes(file: SourceFile) -> dict[str, int]:
    """The ``<name>_size: <int>`` lines of the job description; it is flat YAML, so lines are enough."""
    lines = (_YAML_LINE.match(line) for line in file.read().decode("utf-8", "replace").splitlines())
    values = {match[1]: match[2].strip("'\"") for match in lines if match}
    broken = [f"{key}: {values[key]}" for key in SIZES if key in values and not values[key].isdecimal()]
    if broken or any(values.get(key) == "0" for key in SIZES):
        raise TraceError(f"{file.name}: sizes must be positive whole numbers, got {'; '.join(broken) or '0'}")
    return {key: int(values[key]) for key in SIZES if key in values}
