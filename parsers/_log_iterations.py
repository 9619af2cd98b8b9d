"""Iteration lines: one function per way of writing them, and one table of what their segments mean.

A new dialect is one function in :data:`DIALECTS`; a new name for a known quantity is one entry in :data:`SEGMENTS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

MS, S = 1e6, 1e9  # nanoseconds in a unit of the log

SEGMENTS: dict[str, tuple[str, float]] = {
    "consumed samples": ("consumed_samples", 1),
    "samples count": ("consumed_samples", 1),
    "elapsed time per iteration (ms)": ("elapsed_ns", MS),
    "train step timing in s": ("elapsed_ns", S),
    "train step time": ("elapsed_ns", S),
    "iter time (s)": ("elapsed_ns", S),
    "global batch size": ("global_batch", 1),
    "lm loss": ("loss", 1),
    "reduced train loss": ("loss", 1),
    "loss": ("loss", 1),
    "learning rate": ("learning_rate", 1),
    "lr": ("learning_rate", 1),
    "grad norm": ("grad_norm", 1),
    "number of skipped iterations": ("skipped", 1),
    "number of nan iterations": ("nan", 1),
    "throughput per gpu (tflop/s/gpu)": ("tflops_per_device", 1),  # Megatron-LM, Primus to 26.4
    "compute per gpu (tflop/s/gpu)": ("tflops_per_device", 1),  # Primus from 26.5
    "throughput per npu (tflop/s/npu)": ("tflops_per_device", 1),
    "actual throughput per npu (tflop/s/npu)": ("tflops_per_device", 1),  # MindSpeed --op-cal-tflops
    "tflops": ("tflops_per_device", 1),  # Megatron-DeepSpeed
    "tflops per gpu": ("tflops_per_device", 1),  # NeMo
    "tflops per sec per gpu": ("tflops_per_device", 1),
    "tokens per gpu per second (tgs)": ("tokens_per_s_per_device", 1),  # Megatron-DeepSpeed
    "tokens per gpu (tokens/s/gpu)": ("tokens_per_s_per_device", 1),  # Primus
    "tokens/s/gpu inst/harmonic mean": ("tokens_per_s_per_device", 1),
    "tokens/sec/gpu": ("tokens_per_s_per_device", 1),  # Pai-Megatron-Patch
}
"""Normalised segment name → column and factor to its unit."""

_FARTHEST = 10**15
_ITERATION = re.compile(r"iteration:?\s+(\d{1,15})\s*/\s*(\d{1,15})\s*\|")
_FOREIGN = re.compile(r"\[Rank \d|time \(ms\)|\[(?:before|after) ")  # other output glued to the line
_NUMBER = re.compile(r"\s*([-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|nan|inf)\b)")
_PROGRESS = re.compile(r"(\d{1,15})/(?:\d{1,15}|\?) \[([^\]]{0,2000})\]")
_ENGINE = re.compile(r"steps: (\d{1,15}) (loss: \S+) (iter time \(s\): \S+) (samples/sec: \S+)")


@dataclass(frozen=True, slots=True)
class Line:
    """One logged iteration: ``values`` by column name, other segments by their own names."""

    dialect: str
    iteration: int
    values: Mapping[str, float]


def pipes(text: str) -> Iterator[Line]:
    """`` iteration 20/ 1000 | name: value | ...``: Megatron-LM, its forks, MindSpeed, Primus, Bridge, NeMo 2."""
    if "iteration" not in text:
        return
    found = list(_ITERATION.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    for match, end in zip(found, ends, strict=False):
        body = text[match.end() : end]
        if foreign := _FOREIGN.search(body):
            body = body[: foreign.start()]
        yield Line("pipes", int(match[1]), _values(piece.rpartition(":")[::2] for piece in body.split("|")))


def progress(text: str) -> Iterator[Line]:
    """NeMo 1's progress bar: ``12/100 [00:39<04:40, reduced_train_loss=9.87, train_step_timing in s=3.21]``."""
    if "train_step_timing in s=" not in text:
        return
    for match in _PROGRESS.finditer(text):
        values = _values(pair.partition("=")[::2] for pair in match[2].split(","))
        step = values.get("global step", -1.0)
        yield Line("progress", int(step) if 0 <= step < _FARTHEST else int(match[1]), values)


def dllogger(text: str) -> Iterator[Line]:
    """``DLLL {"step": [0, 12], "data": {"train_step_timing in s": 3.21}}``."""
    document = _json_after(text, "DLLL ")
    step, data = document.get("step"), document.get("data")
    step = step[-1] if isinstance(step, list) and step else step
    if isinstance(step, int) and 0 <= step < _FARTHEST and isinstance(data, dict):
        yield Line("dllogger", step, _values((name, str(value)) for name, value in data.items()))


def engine(text: str) -> Iterator[Line]:
    """DeepSpeed's own line: ``steps: 10 loss: 7.1 iter time (s): 1.234 samples/sec: 3.2``."""
    for match in _ENGINE.finditer(text) if "iter time (s)" in text else ():
        yield Line("engine", int(match[1]), _values(piece.rpartition(": ")[::2] for piece in match.groups()[1:]))


def mllog(text: str) -> Iterator[Line]:
    """MLPerf's ``tracked_stats`` with a step (counted from 0) and its time; block averages carry no step: left out."""
    event = mllog_event(text)
    value, metadata = event.get("value"), event.get("metadata")
    if event.get("key") != "tracked_stats" or not isinstance(value, dict) or not isinstance(metadata, dict):
        return
    step = metadata.get("step")
    if isinstance(step, (int, float)) and 0 <= step < _FARTHEST and "train_step_time" in value:
        shown = {"samples_count": metadata.get("samples_count"), **value}
        yield Line("mllog", int(step) + 1, _values((name, str(number)) for name, number in shown.items()))


DIALECTS: tuple[Callable[[str], Iterable[Line]], ...] = (mllog, pipes, progress, dllogger, engine)
"""Strongest first: where a log tells its iterations in several ways, the first way found is taken."""


def mllog_event(text: str) -> Mapping[str, Any]:
    """The object of a ``:::MLLOG`` line, empty for other lines and damaged ones."""
    return _json_after(text, ":::MLLOG ")


def _values(pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Numbers by column; of ``current/average`` pairs the current one. The first of a name counts."""
    values: dict[str, float] = {}
    for name, text in pairs:
        number = _NUMBER.match(text)
        key = " ".join(name.lower().replace("_", " ").replace("-", " ").split())
        if number and key:
            column, factor = SEGMENTS.get(key, (key, 1.0))
            values.setdefault(column, _float(number[1]) * factor)
    return values


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # 1.2.3: a version, not a quantity
        return float("nan")


def _json_after(text: str, mark: str) -> Mapping[str, Any]:
    at = text.find(mark)
    if at < 0:
        return {}
    try:
        document = msgspec.json.decode(text[at + len(mark) :].strip().encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {}
    return document if isinstance(document, dict) else {}
