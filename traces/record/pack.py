"""Recorded runs as two files: ``matrix.tar.xz``, a folder a run, and ``matrix.toml``, what was measured, as cases."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from traces.record.matrix_runs import RUNS, TARGETS_ONLY
from traces.record.pairs import Manifest, pairs, split_of

ARCHIVE, CASES = "matrix.tar.xz", "matrix.toml"
RUN_FILE = "run.json"
EMULATED = "emulated"
LINKS = {EMULATED: "links-emulated.toml", "cpu": "links-cpu.toml"}
"""Profiles with the links of each device: `replay calibrate` on what `python -m traces.record links` measured."""

_DIGITS = 1  # of a microsecond
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 64 << 20, "lc": 4, "pb": 0}]  # text, not words

_HEADER = """\
# Recorded runs, and every ordered pair of them that a what-if leads from one to the other of.
# Written by: python -m traces.record pack. Check predictions with: replay validate traces/matrix.toml
# Times are milliseconds: medians of the steps, spread = (largest - smallest) / median of the profiled ones.
"""


def pack(folders: Sequence[Path], out: Path) -> None:
    """Read the runs under ``folders`` and write both files into ``out``."""
    found = sorted(path.parent for folder in folders for path in folder.glob(f"*/{RUN_FILE}"))
    runs = {folder: json.loads((folder / RUN_FILE).read_text()) for folder in found}
    write_archive(out / ARCHIVE, found)
    (out / CASES).write_text(cases([*runs.values()]))


def write_archive(target: Path, folders: Sequence[Path]) -> None:
    """Traces unpacked, so that likeness between ranks is seen; the same bytes for the same recordings."""
    with lzma.open(target, "wb", filters=_FILTERS) as packed, tarfile.open(fileobj=packed, mode="w|") as archive:
        for folder in folders:
            for path in _kept(folder):
                content = path.read_bytes()
                if path.suffix == ".gz":
                    content = _shipped(folder, gzip.decompress(content))
                member = tarfile.TarInfo(f"{folder.name}/{path.name.removesuffix('.gz')}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def _kept(folder: Path) -> list[Path]:
    """The description of a run, and its traces unless it is a target only."""
    traces = () if folder.name in TARGETS_ONLY else folder.glob("rank*.json.gz")
    return [folder / RUN_FILE, *sorted(traces, key=_rank)]


def _shipped(folder: Path, trace: bytes) -> bytes:
    """Emulated traces compacted; those of real compute as torch wrote them."""
    device = json.loads((folder / RUN_FILE).read_text())["device"]
    return compact(trace) if device == EMULATED else trace


def compact(trace: bytes) -> bytes:
    """Rows by category, name and time, and times to 0.1 us: what compresses to two thirds.

    Starts and ends are rounded, so that what lay inside another row still does.
    """
    content = json.loads(trace)
    for row in content["traceEvents"]:
        if "dur" in row:
            start, end = round(row["ts"], _DIGITS), round(row["ts"] + row["dur"], _DIGITS)
            row |= {"ts": start, "dur": round(end - start, _DIGITS)}
    content["traceEvents"].sort(key=lambda row: (row["ph"] != "M", row.get("cat", ""), row["name"], row["ts"]))
    return json.dumps(content, separators=(",", ":")).encode()


def cases(runs: Sequence[Manifest]) -> str:
    """A ``[[run]]`` table for each run and a ``[[case]]`` table for each pair and each counterfactual run."""
    by_name = {run["name"]: run for run in runs}
    disturbed = {name: run for name, run in by_name.items() if run["options"].get("disturbance")}
    plain = [run for name, run in by_name.items() if name not in disturbed]
    without = TARGETS_ONLY.union(disturbed)
    tables = [_table("run", {**_described(run), "traces": name not in without}) for name, run in by_name.items()]
    for pair in pairs(plain):
        if pair.source in TARGETS_ONLY:
            continue
        question = {"target": pair.options, "kind": pair.kind}
        tables.append(_table("case", _case(by_name[pair.source], by_name[pair.target], question)))
    for run in RUNS:
        if run.name in disturbed and run.base in by_name:
            question = {"edit": run.edit, "kind": "disturbance"}
            tables.append(_table("case", _case(by_name[run.base], by_name[run.name], question)))
    return "\n".join([_HEADER, *tables])


def _case(source: Manifest, target: Manifest, question: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": f"{source['name']} -> {target['name']}",
        "source": f"{ARCHIVE}/{source['name']}",
        **question,
        **_links(source),
        "measured_step_ms": target["profiled_step_ms"]["median"],
        "unprofiled_step_ms": target["unprofiled_step_ms"]["median"],
        "spread_pct": target["profiled_step_ms"]["spread_pct"],
        "device": target["device"],
        "split": split_of(source["name"], target["name"]),
    }


def _links(source: Manifest) -> dict[str, str]:
    """A rank alone in its data-parallel group sums no gradients and exchanges no tokens.

    What its links do with messages of those sizes is known from microbenchmarks only.
    """
    return {"source_hardware": LINKS[source["device"]]} if source["layout"]["dp"] == 1 else {}


def _described(run: Manifest) -> dict[str, Any]:
    steps = ("profiled_step_ms", "unprofiled_step_ms")
    times = {key: run[key]["median"] for key in steps} | {
        key.replace("step_ms", "spread_pct"): run[key]["spread_pct"] for key in steps
    }
    kept = ("name", "device", "layout", "model", "options")
    return {**{key: run[key] for key in kept}, **times, "command": run["command"]}


def _table(name: str, content: Mapping[str, Any]) -> str:
    return "\n".join([f"[[{name}]]", *(f"{key} = {_value(value)}" for key, value in content.items()), ""])


def _value(value: object) -> str:
    """As TOML: JSON's spelling, but for tables."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


def _rank(path: Path) -> int:
    return int(re.sub(r"\D", "", path.name))
