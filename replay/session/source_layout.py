"""Source layout of a trace: sizes from Megatron's named groups and from ``--from``, each with its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from replay.core.errors import LayoutError
from replay.layout import Layout
from replay.program.groups import DESCRIPTIONS
from replay.session.question import Facts
from replay.trace import Trace

GROUP_SIZES = {"tp": "tp", "cp": "cp", "pp": "pp", "ep": "ep", "etp": "etp"}  # group family → layout size
MODEL_SIZES = ("tp", "cp", "pp")


@dataclass(frozen=True, slots=True)
class SourceLayout:
    """A layout and, per key, the sentence that says how it is known."""

    layout: Layout
    evidence: Mapping[str, str]


def source_layout(trace: Trace, facts: Facts) -> SourceLayout:
    """The layout a trace was recorded with.

    ``--from`` first, then the sizes of groups that carry Megatron's names; other sizes are 1 and said to be assumed.
    Raises :class:`LayoutError` where what was given contradicts the world size of the trace.
    """
    given: dict[str, int | str] = dict(facts.layout)
    if facts.microbatches is not None:
        given["microbatches"] = facts.microbatches
    found = _from_groups(trace)
    evidence = dict.fromkeys(given, "from --from")
    sizes: dict[str, int | str] = {**found, **given}
    evidence |= {key: "size of the recorded process group" for key in found if key not in given}
    for key in ("tp", "cp", "pp", "vpp", "ep", "etp"):
        if key not in sizes:
            sizes[key] = 1
            evidence[key] = "assumed 1: neither a named group nor --from says more"
    sizes["world_size"], evidence["world_size"] = _world(trace, sizes, given)
    sizes["dp"] = _dp(sizes)
    evidence.setdefault("dp", "world / (tp x cp x pp)")
    return SourceLayout(Layout(**sizes), evidence)  # type: ignore[arg-type]


def _from_groups(trace: Trace) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for group in trace.groups:
        key = GROUP_SIZES.get(DESCRIPTIONS.get(group.description.strip().removesuffix(":"), ""))
        size = len(group.ranks) or group.size
        if key and size > 0:
            sizes[key] = max(size, sizes.get(key, 1))
    return sizes


def _world(trace: Trace, sizes: Mapping[str, int | str], given: Mapping[str, int | str]) -> tuple[int, str]:
    """World size and its evidence; ``--from`` may name it, or dp, where the file does not."""
    model = prod(int(sizes[key]) for key in MODEL_SIZES)
    recorded = trace.world_size
    if "world_size" in given or "dp" in given:
        world = int(given.get("world_size", model * int(given.get("dp", 1))))
        if recorded > 0 and world != recorded:
            raise LayoutError(f"--from gives a world of {world} ranks, but the trace says {recorded}")
        return world, "from --from"
    if recorded > 0:
        return recorded, "recorded in the trace"
    smallest = model * max(1, -(-int(sizes["ep"]) * int(sizes["etp"]) // (model // int(sizes["pp"]))))
    return max(smallest, len(trace.ranks)), "assumed: the smallest world that holds the sizes known"


def _dp(sizes: Mapping[str, int | str]) -> int:
    model = prod(int(sizes[key]) for key in MODEL_SIZES)
    world = int(sizes["world_size"])
    if world % model:
        raise LayoutError(
            f"tp {sizes['tp']} x cp {sizes['cp']} x pp {sizes['pp']} = {model} does not divide the world of {world} "
            f"ranks; correct it with --from"
        )
    return world // model


def held_fixed(source: Layout, target: Layout) -> tuple[str, ...]:
    """R14: every known size that the question left as it was, as words."""
    names = ("world_size", "gbs", "mbs", "seq", "tp", "pp", "vpp", "dp", "cp", "ep", "etp", "schedule", "dispatcher")
    kept = [name for name in names if getattr(source, name) == getattr(target, name)]
    words = [f"{name.replace('_', ' ')} {getattr(source, name)}" for name in kept if getattr(source, name) is not None]
    return (*words, "model")
