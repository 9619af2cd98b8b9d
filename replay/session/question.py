"""What a user asks of a measurement, and the facts they add to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from replay.core.errors import LayoutError

LAYOUT_KEYS = ("tp", "pp", "vpp", "dp", "cp", "ep", "etp", "mbs", "gbs", "seq", "world_size", "schedule", "dispatcher")


@dataclass(frozen=True, slots=True)
class Question:
    """Target sizes that differ from the source, and edits of ops, links and loads. Empty: baseline only."""

    layout: Mapping[str, int | str] = field(default_factory=dict)
    experts: str | None = None  # balanced | trace | zipf:A | FILE
    chunk_layers: str | None = None  # layers of every chunk of the model, in its order: 4,4,4,2
    scale: tuple[tuple[str, float], ...] = ()  # (op name pattern, factor)
    link: tuple[tuple[str, float], ...] = ()  # (link tier, factor)
    stall: tuple[tuple[str, float], ...] = ()  # (rank, ms)
    stragglers: str | None = None  # ideal
    hardware: str | None = None  # name or .toml of the profile of the device asked for

    @property
    def is_empty(self) -> bool:
        """Nothing asked: replay the baseline."""
        edits = (self.scale, self.link, self.stall, self.stragglers, self.hardware)
        return not (self.changes_program or any(edits))

    @property
    def changes_program(self) -> bool:
        """True when answering needs the program's structure (layers, micro-batches, phases)."""
        return bool(self.layout or self.experts or self.chunk_layers)

    def options(self) -> tuple[str, ...]:
        """The question as command-line words, for reports and messages."""
        sizes = [f"--{'world' if key == 'world_size' else key} {value}" for key, value in self.layout.items()]
        experts = [f"--experts {self.experts}"] if self.experts else []
        scales = [f"--scale {pattern}={factor:g}" for pattern, factor in self.scale]
        links = [f"--link {tier}={factor:g}" for tier, factor in self.link]
        links += [f"--stall {rank}={stall_ms:g}" for rank, stall_ms in self.stall]
        named = {"chunk-layers": self.chunk_layers, "stragglers": self.stragglers, "hardware": self.hardware}
        others = [f"--{option} {value}" for option, value in named.items() if value]
        return tuple(sizes + experts + scales + links + others)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the input does not say about itself, and how to read it."""

    layout: Mapping[str, int | str] = field(default_factory=dict)  # --from
    model: Path | None = None
    layers: int | None = None
    microbatches: int | None = None
    step: int | None = None
    step_marker: str | None = None
    measured_step_ms: float | None = None
    trace_processor: str | None = None
    source_hardware: str | None = None  # profile of the device measured, where the input does not name it
    force: bool = False


def parse_chunk_layers(text: str) -> tuple[int, ...]:
    """``4,4,4,2`` as numbers; :class:`LayoutError` names the item that is no count."""
    items = [item.strip() for item in text.split(",")]
    wrong = [item for item in items if not (item.isdecimal() and int(item) > 0)]
    if wrong:
        raise LayoutError(f"--chunk-layers: {wrong[0]!r} is not a number of layers; write one for each chunk: 4,4,4,2")
    return tuple(map(int, items))


def parse_layout(text: str) -> dict[str, int | str]:
    """``tp=2,pp=4,schedule=1f1b`` as a dict; :class:`LayoutError` names the item that is no ``key=value``."""
    known = (*LAYOUT_KEYS, "microbatches")
    sizes: dict[str, int | str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        key = "world_size" if key == "world" else key
        if not equals or not value or key not in known:
            raise LayoutError(f"--from: {item!r} is not KEY=VALUE with KEY one of {', '.join(known)}")
        if key in ("schedule", "dispatcher"):
            sizes[key] = value
        elif value.isdecimal() and int(value) > 0:
            sizes[key] = int(value)
        else:
            raise LayoutError(f"--from: {key} must be a positive whole number, got {value!r}")
    return sizes
