"""Graph mode: one call executes a whole model, whose tasks were put on their streams when it was loaded or captured.

Such tasks name the model. Their ``connection_id`` is that of the loading, so the call that executed them is found by
order: the device executes models in the order of the calls. One execution begins wherever the model's first task does.
"""

from __future__ import annotations

import re
from collections import Counter
from operator import attrgetter

import numpy as np

from parsers._numbers import integer, integers
from parsers.ascend.text import NONE
from parsers.ascend.timed import Timed
from replay.core.columns import Int64
from replay.trace import MISSING

# the same call as its layers show it, outermost first
_CALLS = tuple(map(re.compile, (r"AscendCL@aclmdl(?:RI)?Execute", r"Model@\w*Execute", r"Runtime@ModelExecute")))
_MODEL, _COMM_MODEL = attrgetter("model"), attrgetter("comm_model")


def executed(cann: Timed, device: Timed) -> dict[int, int]:
    """Device row → the call that executed its model, for rows that no later call launched by themselves."""
    calls = _calls(cann)
    model = np.maximum(*(integers(list(map(read, device.args))) for read in (_MODEL, _COMM_MODEL)))
    model[model == NONE] = MISSING  # an operator of its own
    if not len(calls) or not (model >= 0).any():
        return {}
    begins = {number: _begins(device, np.flatnonzero(model == number)) for number in np.unique(model[model >= 0])}
    order = sorted((int(begin), int(number)) for number, found in begins.items() for begin in found)
    call_of = _in_order(order, cann, calls)
    first = dict(zip(cann.connection[::-1].tolist(), cann.start_ns[::-1].tolist(), strict=True))
    launched: dict[int, int] = {}
    for row in np.flatnonzero(model >= 0).tolist():
        number = int(model[row])
        at = int(np.searchsorted(begins[number], device.start_ns[row], side="right")) - 1
        call = call_of.get((int(begins[number][max(at, 0)]), number), -1)
        own = first.get(int(device.connection[row]), -1) if device.connection[row] > 0 else -1
        if call >= 0 and own < int(cann.start_ns[call]):
            launched[row] = call
    return launched


def _calls(cann: Timed) -> Int64:
    """Calls that execute a model, of the outermost layer that shows them, in order of start."""
    names = [str(event.name) for event in cann.events]
    for pattern in _CALLS:
        rows = np.array([row for row, name in enumerate(names) if pattern.match(name)], np.int64)
        if len(rows):
            return rows[np.argsort(cann.start_ns[rows], kind="stable")]
    return np.zeros(0, np.int64)


def _begins(device: Timed, rows: Int64) -> Int64:
    """When the executions of one model began: every task occurs once in each, so the earliest of those tells.

    Of two counts that equally many tasks have the larger is taken: an execution that was cut lacks some.
    """
    keys = [
        (device.events[row].tid, integer(device.args[row].task_id), device.events[row].name) for row in rows.tolist()
    ]
    counts = Counter(keys)
    often = Counter(counts.values())
    usual = max(often, key=lambda number: (often[number], number))
    starts: dict[object, list[int]] = {key: [] for key in keys if counts[key] == usual}
    for key, row in zip(keys, rows.tolist(), strict=True):
        if key in starts:
            starts[key].append(int(device.start_ns[row]))
    return np.array(min(map(sorted, starts.values())), np.int64)


def _in_order(executions: list[tuple[int, int]], cann: Timed, calls: Int64) -> dict[tuple[int, int], int]:
    """(begin, model) of every execution → its call; ends whose other half was not recorded stay alone.

    A call that sinks its data makes the device go through the model many times (MindSpore's ``dataset_sink_mode``).
    Else, where there are more executions than calls, the calls of the first were made before the recording.
    """
    each, rest = divmod(len(executions), len(calls))
    sunk = np.repeat(calls, each if not rest else 1).tolist()
    for skipped, callers in ((0, sunk), (max(len(executions) - len(calls), 0), calls.tolist()), (0, calls.tolist())):
        pairs = list(zip(executions[skipped:], callers, strict=False))
        if all(int(cann.start_ns[call]) <= begin for (begin, _), call in pairs):
            return dict(pairs)
    return {}
