"""Ordered pairs of recorded runs of which a what-if leads from one to the other, and the options that say so.

A pair counts where at most two options lead from source to target, or at most two sizes differ. Options follow the
toolkit's rule of what stays fixed: world size, global batch and every size not named; ``dp`` and the number of
micro-batches follow, and the schedule follows the number of chunks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

SIZES = ("tp", "pp", "vpp", "ep", "dp", "microbatches", "experts", "schedule")
OPTIONS = ("tp", "pp", "vpp", "ep", "dp", "gbs", "experts", "schedule")
MOST_CHANGES = 2
_ONE_CHUNK, _CHUNKS = "1f1b", "interleaved"

Sizes = Mapping[str, Any]
Manifest = Mapping[str, Any]  # contents of a run.json


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs by name, and the options that lead from the first to the second."""

    source: str
    target: str
    options: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """What is changed, joined by ``+``."""
        return "+".join(self.options)


def pairs(runs: Sequence[Manifest]) -> Iterator[Pair]:
    """All pairs, by source and then target in the order given."""
    for source in runs:
        for target in runs:
            if source is not target and _habits(source) == _habits(target):
                options = shortest(sizes(source), sizes(target))
                if options and min(len(options), _differing(source, target)) <= MOST_CHANGES:
                    yield Pair(source["name"], target["name"], options)


def sizes(run: Manifest) -> dict[str, Any]:
    """What an option may change, and the global batch and world that follow or are held."""
    layout = run["layout"]
    return {key: layout[key] for key in (*SIZES, "gbs", "mbs", "world_size") if key in layout} | {
        "experts": run["options"]["experts"]
    }


def shortest(source: Sizes, target: Sizes) -> dict[str, Any]:
    """The fewest options that turn one into the other, in the order of OPTIONS; none where no options do."""
    for count in range(1, len(OPTIONS) + 1):
        for names in combinations(OPTIONS, count):
            asked = {name: target[name] for name in names}
            if all(source[name] != value for name, value in asked.items()) and _changed(source, asked) == target:
                return asked
    return {}


def split_of(first: str, second: str) -> str:
    """``calibrate`` or ``report``, about half each; the two directions of a pair are on one side."""
    digest = hashlib.sha256("|".join(sorted((first, second))).encode()).digest()
    return ("calibrate", "report")[digest[0] % 2]


def _changed(source: Sizes, options: Sizes) -> dict[str, Any]:
    """Sizes after the options; an impossible one when they do not divide."""
    new = {**source, **options}
    model_ranks = new["tp"] * new["pp"]
    if "dp" in options:
        new["world_size"] = model_ranks * new["dp"]
    elif new["world_size"] % model_ranks == 0:
        new["dp"] = new["world_size"] // model_ranks
    if new["gbs"] % (new["dp"] * new["mbs"]) or model_ranks * new["dp"] != new["world_size"]:
        return {}
    new["microbatches"] = new["gbs"] // (new["dp"] * new["mbs"])
    if "schedule" not in options and new["schedule"] in (_ONE_CHUNK, _CHUNKS):
        new["schedule"] = _CHUNKS if new["vpp"] > 1 else _ONE_CHUNK
    return new


def _differing(source: Manifest, target: Manifest) -> int:
    """How many sizes differ; a schedule that follows from the number of chunks is no size of its own."""
    a, b = sizes(source), sizes(target)
    follows = {a["schedule"], b["schedule"]} == {_ONE_CHUNK, _CHUNKS} and a["vpp"] != b["vpp"]
    return sum(a[name] != b[name] for name in SIZES if not (name == "schedule" and follows))


def _habits(run: Manifest) -> tuple[Any, ...]:
    """What both runs of a pair must share."""
    options, layout = run["options"], run["layout"]
    even = len({layers for chunk in options["chunk_layers"] for layers in chunk}) == 1
    blocking = layout["vpp"] > 1 and not layout["overlap_p2p"]
    keys = ("scale", "overlap_grads", "ranges")
    return (
        run["device"], repr(run["model"]), layout["mbs"], layout["seq"], even, blocking,
        repr(options.get("disturbance", {})), *(options.get(key) for key in keys),
    )  # fmt: skip
