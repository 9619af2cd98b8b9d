"""Layers from calls of modules: the outermost class that a model calls again and again is its layer.

Kineto names the call of a module ``nn.Module: GPT2Block_3``: class and number of the instance. A layer is a call with
calls inside, one of several calls of its class by the same caller, and in no other layer; containers and stages of
layers do not count, nor do calls inside of backward nodes: those recompute layers that are known.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from replay.core.columns import Bool
from replay.core.errors import LayoutError
from replay.program.open_ranges import FIELDS
from replay.program.ranges import MISSING, read_range
from replay.program.structure._calls import Calls
from replay.program.structure._evidence import Evidence, Finding
from replay.program.structure._layers import in_model
from replay.program.types import Role
from replay.trace import EventKind, Trace

ORDER = 10
LAYER = FIELDS.index("layer")
_INSTANCE = re.compile(r"^nn\.Module: (?P<class>.*?)(?:_\d+)?$")
_WRAPPER = re.compile(r"^(?:\w*DataParallel|FSDP\w*|OptimizedModule|CheckpointWrapper)$")
_CONTAINER = re.compile(rf"{_WRAPPER.pattern}|^(?:Sequential|ModuleList|ModuleDict|\w*Stage\d*)$")


def find(evidence: Evidence) -> Finding:
    """Layer of every op inside the call of a layer's module.

    Raises :class:`LayoutError` where the calls contradict the number of layers that is known.
    """
    finding = evidence.nothing()
    trace, calls = evidence.trace, evidence.calls
    outside = evidence.engine.node < 0
    layers = _layers(_module_calls(trace, calls, outside, _CONTAINER))
    layers = layers or _layers(_module_calls(trace, calls, outside, _WRAPPER))  # models made of containers only
    if not layers:
        return finding
    number = _numbers(layers, trace, calls)
    of_call = np.full(len(calls), MISSING, np.int64)
    of_call[list(number)] = list(number.values())
    local = calls.at_ops(of_call[calls.innermost(of_call >= 0)])
    finding.states[:, LAYER] = in_model(evidence, local)
    found = Counter(module.kind for module in {module.instance: module for module in layers}.values())
    counted = ", ".join(f"{count} x {kind}" for kind, count in found.items())
    _check(evidence, 1 + max(number.values()), counted)
    return Finding(finding.states, finding.passes, (f"layers from module calls: {counted}",))


def _check(evidence: Evidence, found: int, counted: str) -> None:
    """Without a pipeline every rank calls all layers of the model."""
    stated = evidence.model.layers
    if stated not in (None, found) and evidence.layout.pp == 1:
        raise LayoutError(
            f"the model has {stated} layers, but {found} are called in the trace ({counted}); correct --layers or "
            f"--model, or say with --from how many pipeline stages there are"
        )


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """One call of a module: its class, its instance, and the nearest call around it that is no container, -1 none."""

    call: int
    kind: str
    instance: str
    caller: int


def _module_calls(trace: Trace, calls: Calls, chosen: Bool, container: re.Pattern[str]) -> list[ModuleCall]:
    """Calls of modules among the chosen calls, callers first, without those of a class that is a container."""
    module = (trace.kind[calls.event] == EventKind.MODULE) & chosen
    kinds = [_INSTANCE.sub(r"\g<class>", name) for name in trace.names]
    contained = np.array([bool(container.match(kind)) for kind in kinds], np.bool_)
    code = calls.names(trace)
    around = calls.innermost(module & ~contained[code])
    found = []
    for call in np.flatnonzero(module).tolist():
        above = int(calls.caller[call])
        name = int(code[call])
        if not contained[name]:
            found.append(ModuleCall(call, kinds[name], trace.names[name], int(around[above]) if above >= 0 else -1))
    return found


def _layers(modules: list[ModuleCall]) -> list[ModuleCall]:
    """Calls that are layers: of a class that repeats at its place, with calls inside, in no part of a layer.

    Where repeated classes nest (stages of blocks), the layer is the inner one if it repeats more than the outer.
    """
    groups: dict[tuple[int, str], list[ModuleCall]] = defaultdict(list)
    for module in modules:
        groups[module.caller, module.kind].append(module)
    callers = {module.caller for module in modules}
    part = _parts(modules)
    count = {
        module.call: len(group)
        for (caller, _), group in groups.items()
        if len(group) > 1 and (caller >= 0 or len({module.instance for module in group}) > 1)
        for module in group
        if module.call in callers and not part[module.call]
    }
    inner: dict[int, int] = defaultdict(int)
    above = {module.call: module.caller for module in modules}
    for call, size in count.items():
        outer = above[call]
        while outer >= 0:
            inner[outer] = max(inner[outer], size)
            outer = above[outer]
    chosen = {call for call, size in count.items() if size >= inner[call]}
    return [module for module in modules if module.call in chosen and not _within(module, above, chosen)]


def _within(module: ModuleCall, above: dict[int, int], chosen: set[int]) -> bool:
    outer = module.caller
    while outer >= 0 and outer not in chosen:
        outer = above[outer]
    return outer >= 0


def _parts(modules: list[ModuleCall]) -> dict[int, bool]:
    """Whether each call is a part of a layer by its name (attention, feed-forward, norm, ...) or lies in one."""
    part = {-1: False}
    for module in modules:
        part[module.call] = part[module.caller] or read_range(module.instance).role is not Role.NONE
    return part


def _numbers(layers: list[ModuleCall], trace: Trace, calls: Calls) -> dict[int, int]:
    """Number of every layer call among its rank's layers: instances in order of their first call.

    An instance that its caller calls again (shared weights) is another layer each time.
    """
    order: dict[int, dict[tuple[str, int], int]] = defaultdict(dict)
    again: Counter[tuple[int, str]] = Counter()
    number = {}
    for module in layers:
        again[module.caller, module.instance] += module.caller >= 0
        key = (module.instance, again[module.caller, module.instance])
        known = order[int(trace.rank[calls.event[module.call]])]
        number[module.call] = known.setdefault(key, len(known))
    return number
