"""The source of a prediction: layout and model from what is given, a run description, or Megatron's named groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from parsers.model_config import read_model
from parsers.run_description import RunDescription
from replay.core.errors import LayoutError
from replay.core.units import NS_PER_MS
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.groups import family_named
from replay.session.question import Facts
from replay.session.recorded_pipelines import recorded_stages
from replay.trace import RECORDED, CollectiveKind, Trace

GROUP_SIZES = {"tp": "tp", "cp": "cp", "pp": "pp", "ep": "ep", "etp": "etp"}  # group family → layout size
MODEL_SIZES = ("tp", "cp", "pp")
FOUND_SIZES = ("pp", "vpp", "microbatches", "schedule")  # that labels may complete
ASSUMED = "assumed: the input and --from do not state it"
LINKED = "ranks send to each other in pipelines of that length"
FOUND = "found in the structure of the step"
DERIVED_DP = "world / (tp x cp x pp)"
ASSUMED_FLAT = "assumed, though ranks send to each other: where that is a pipeline, say --from pp=N"


@dataclass(frozen=True, slots=True)
class Source:
    """Layout and model of the measured job; ``evidence`` says, per layout key, how it is known."""

    layout: Layout
    evidence: Mapping[str, str]
    model: ModelSpec
    steps_ns: tuple[int, ...] = ()  # steps that were timed beside the trace, with the profiler on

    @property
    def assumed(self) -> frozenset[str]:
        """Sizes that nothing states and that the step may show otherwise; a stated dp leaves no room for another pp."""
        free = frozenset(key for key, how in self.evidence.items() if how in (ASSUMED, ASSUMED_FLAT, LINKED))
        return free if self.evidence["dp"] == DERIVED_DP else free - {"pp"}

    def with_found(self, layout: Layout) -> Source:
        """This source with the layout that the labels of its step are for."""
        changed = [name for name in FOUND_SIZES if getattr(layout, name) != getattr(self.layout, name)]
        return replace(self, layout=layout, evidence={**self.evidence, **dict.fromkeys(changed, FOUND)})


def find_source(trace: Trace, facts: Facts, described: RunDescription) -> Source:
    """What a trace was recorded with, from the strongest statement there is.

    The model is ``--model``'s, else the run description's; ``--layers`` adds what it lacks. Layout sizes: ``--from``
    and ``--microbatches`` first, then ``run.json``, then what the job recorded of its own arguments, then groups that
    carry Megatron's names; other sizes are 1 and said to be assumed. Raises :class:`LayoutError` where they contradict
    the world size.
    """
    given = dict(facts.layout) | ({} if facts.microbatches is None else {"microbatches": facts.microbatches})
    recorded = _from_groups(trace)
    found = (
        (given, "given by --from or --microbatches"),
        (described.layout, f"stated in {described.file}"),
        (trace.layout, "recorded by the job itself"),
        (recorded, "size of the recorded process group"),
        (_from_transfers(trace, {**recorded, **described.layout, **given}), LINKED),
        (dict.fromkeys(("tp", "cp", "pp", "vpp", "ep", "etp"), 1), ASSUMED),
    )
    sizes: dict[str, Any] = {}
    evidence: dict[str, str] = {}
    for values, how in found:
        for key, value in values.items():
            if key not in sizes:
                sizes[key], evidence[key] = value, how
            elif values is recorded and sizes[key] != value:
                evidence[key] += f", though the largest recorded group of that name has {value} ranks"
    if evidence["pp"] == ASSUMED and np.isin(trace.collectives.kind, (CollectiveKind.SEND, CollectiveKind.RECV)).any():
        evidence["pp"] = ASSUMED_FLAT
    _derive(trace, sizes, evidence, given)
    model = _with_layers(read_model(facts.model) if facts.model else described.model, facts, described)
    return Source(Layout(**sizes), evidence, model, tuple(round(step * NS_PER_MS) for step in described.steps_ms))


def _with_layers(model: ModelSpec, facts: Facts, described: RunDescription) -> ModelSpec:
    """``--layers`` on top of the model. Raises :class:`LayoutError` where both say something else."""
    if facts.layers is None:
        return model
    if model.layers not in (None, facts.layers):
        where = Path(facts.model).name if facts.model else described.file
        raise LayoutError(f"--layers says {facts.layers}, but {where} says {model.layers}; correct one of them")
    return replace(model, layers=facts.layers)


def _derive(trace: Trace, sizes: dict[str, Any], evidence: dict[str, str], given: Mapping[str, Any]) -> None:
    """World size and dp, and what follows from what was given: a stale derived size is not kept."""
    if given.keys() & {*MODEL_SIZES, "world_size"} and "dp" not in given:
        sizes.pop("dp", None)
    if given.keys() - {"microbatches"} and "microbatches" not in given and {"gbs", "mbs"} <= sizes.keys():
        sizes.pop("microbatches", None)
    sizes["world_size"], evidence["world_size"] = _world(trace, sizes, evidence)
    if "dp" not in sizes:
        sizes["dp"], evidence["dp"] = _dp(sizes), DERIVED_DP
    if "microbatches" not in sizes and {"gbs", "mbs"} <= sizes.keys():
        sizes["microbatches"] = sizes["gbs"] // (sizes["mbs"] * sizes["dp"])
        evidence["microbatches"] = "gbs / (mbs x dp)"


def _from_groups(trace: Trace) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for group in trace.groups:
        key = GROUP_SIZES.get(family_named(group.description))
        size = len(group.ranks) or group.size
        if key and size > 0:
            sizes[key] = max(size, sizes.get(key, 1))
    return sizes


def _from_transfers(trace: Trace, stated: Mapping[str, Any]) -> dict[str, int]:
    """Stages, where nothing that is stated leaves no room for them: dp, or sizes that do not divide what is left."""
    stages = None if "dp" in stated else recorded_stages(trace)
    if stages is None:
        return {}
    world = max(trace.world_size, len(trace.ranks))
    inner, experts = (prod(stated.get(name, 1) for name in names) for names in (("tp", "cp"), ("ep", "etp")))
    room = world % (inner * stages) == 0 and world // stages % experts == 0
    return {"pp": stages} if room else {}


def _world(trace: Trace, sizes: Mapping[str, Any], evidence: Mapping[str, str]) -> tuple[int, str]:
    """World size and its evidence; what is stated must agree with what the trace says."""
    model = prod(sizes[key] for key in MODEL_SIZES)
    stated = sizes.get("world_size", model * sizes["dp"] if "dp" in sizes else None)
    if stated is not None:
        larger = trace.world_evidence != RECORDED and stated > trace.world_size
        if trace.world_size > 0 and stated != trace.world_size and not larger:
            raise LayoutError(f"the source layout has {stated} ranks, but the trace says {trace.world_size}")
        return stated, evidence.get("world_size", "tp x cp x pp x dp")
    if trace.world_size > 0:
        missing = -trace.world_size % model if trace.world_evidence != RECORDED else 0
        completed = f"; {missing} more make it whole groups" if missing else ""
        return trace.world_size + missing, trace.world_evidence + completed
    smallest = model * max(1, -(-sizes["ep"] * sizes["etp"] // (model // sizes["pp"])))
    return max(smallest, len(trace.ranks)), "assumed: the smallest world that holds the sizes known"


def _dp(sizes: Mapping[str, Any]) -> int:
    model = prod(sizes[key] for key in MODEL_SIZES)
    world = sizes["world_size"]
    if world % model:
        raise LayoutError(
            f"tp {sizes['tp']} x cp {sizes['cp']} x pp {sizes['pp']} = {model} does not divide the world of {world} "
            f"ranks; correct it with --from"
        )
    return int(world // model)


def held_fixed(source: Layout, target: Layout) -> tuple[str, ...]:
    """R14: every known size that the question left as it was, as words."""
    names = ("world_size", "gbs", "mbs", "seq", "tp", "pp", "vpp", "dp", "cp", "ep", "etp", "schedule", "dispatcher")
    kept = [name for name in names if getattr(source, name) == getattr(target, name)]
    words = [f"{name.replace('_', ' ')} {getattr(source, name)}" for name in kept if getattr(source, name) is not None]
    return (*words, "model")
