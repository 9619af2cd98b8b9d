"""Which measured blocks stand for a block of the target layout.

Nearest first: the same layer and phase, from the rank with the same tp, cp and dp index, on the corresponding stage and
chunk, at the same position (first, steady, last micro-batch). What the input never saw falls back to the next nearest
and is marked as assumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from replay.core.errors import RefusedError
from replay.layout import Layout
from replay.program.groups import coordinates
from replay.program.keys import P2P_PARTS, BlockKey, Part
from replay.program.templates import Program, coordinate_key
from replay.program.types import Phase
from replay.trace import CollectiveKind

_BY_STAGE = (Part.PROLOGUE, Part.TAIL, Part.WAIT)  # differ between stages, not chunks
_BY_CHUNK = (Part.BEGIN, Part.END, Part.GRAD_SYNC)
_OPPOSITE = {Phase.FORWARD: Phase.BACKWARD, Phase.BACKWARD: Phase.FORWARD}
_OPTIONAL = (Part.PROLOGUE, Part.BEGIN, Part.END, Part.WAIT, Part.GRAD_SYNC, Part.TAIL)


@dataclass(frozen=True, slots=True)
class Choice:
    """Blocks of the source (of one signature) whose means stand for a target block; the first gives the structure."""

    blocks: tuple[int, ...]
    assumed: str = ""  # why this is not what the source would have done, "" if it is


def corresponding(index: int, target: int, source: int) -> int:
    """Place among ``source`` that corresponds to ``index`` among ``target``: first, last, or spread between."""
    if target == source or index == 0:
        return min(index, source - 1)
    if index == target - 1:
        return source - 1
    if source < 3:
        return source - 1  # a middle place receives its input, as the last one does
    return 1 + (index - 1) * (source - 2) // (target - 2)


def position_class(microbatch: int, count: int, phase: Phase = Phase.FORWARD) -> int:
    """0 first, 1 steady, 2 last micro-batch (R7: weight casts, gathers and gradient syncs sit at the ends).

    The only one of a step is the first going forward, and the last going backward.
    """
    if microbatch == 0 and (count > 1 or phase is Phase.FORWARD):
        return 0
    return 2 if microbatch == count - 1 else 1


class Chooser:
    """Chooses among the blocks of one program for one target layout."""

    def __init__(self, program: Program, target: Layout) -> None:
        self._program = program
        self._target = target
        source = program.layout
        self._stage = {rank: coordinates(source, rank)["pp"] for rank in program.ranks}
        self._place = {rank: coordinate_key(source, rank) for rank in program.ranks}
        self._found: dict[tuple[BlockKey, int], Choice | None] = {}

    def choose(self, key: BlockKey, rank: int) -> Choice | None:
        """Blocks that stand for ``key`` on ``rank``; ``None`` where the source does nothing there.

        Raises RefusedError where the source must have done it but did not record it.
        """
        count = self._target.microbatches or 1
        place = position_class(key.microbatch, count, key.phase) if key.microbatch >= 0 else -1
        kind = key._replace(microbatch=place)
        kind = kind._replace(ordinal=-1)
        if (kind, rank) not in self._found:
            self._found[kind, rank] = self._search(kind, rank)
        return self._found[kind, rank]

    def _search(self, kind: BlockKey, rank: int) -> Choice | None:
        program = self._program
        pool, assumed = self._pool(kind)
        if not pool:
            return None
        keys, ranks = program.blocks.keys, program.blocks.rank
        tp, cp, dp = coordinate_key(self._target, rank)
        place = (tp, cp, dp % program.layout.dp)
        if kind.part in _BY_STAGE:
            index = coordinates(self._target, rank)["pp"]
            stage = corresponding(index, self._target.pp, program.layout.pp)
            pool = _prefer(pool, lambda block: self._stage[int(ranks[block])] == stage)
        if kind.part in _BY_CHUNK:
            places = (self._target.pp * self._target.vpp, program.layout.pp * program.layout.vpp)
            chunk = corresponding(kind.chunk, *places)
            pool = _prefer(pool, lambda block: keys[block].chunk == chunk)
        pool = _prefer(pool, lambda block: self._place[int(ranks[block])] == place)
        if kind.microbatch >= 0:
            count = program.layout.microbatches or 1 + max(keys[block].microbatch for block in pool)
            place_of = {block: position_class(keys[block].microbatch, count, kind.phase) for block in pool}
            nearest = next(c for c in _nearest_classes(kind) if c in place_of.values())
            pool = [block for block in pool if place_of[block] == nearest]
        signature, _ = Counter(program.signatures[block] for block in pool).most_common(1)[0]
        return Choice(tuple(block for block in pool if program.signatures[block] == signature), assumed)

    def _pool(self, kind: BlockKey) -> tuple[list[int], str]:
        """All blocks that could stand for ``kind``, and why they are only assumed to."""
        instances = self._program.instances
        exact = instances.get((kind.part, int(kind.phase), kind.layer), [])
        if exact or kind.part in _OPTIONAL:
            return exact, ""
        if kind.part is Part.LAYER:
            seen = sorted({layer for part, phase, layer in instances if (part, phase) == (kind.part, int(kind.phase))})
            if seen:
                nearest = min(seen, key=lambda layer: abs(layer - kind.layer))
                why = f"layer {kind.layer} is on no rank of the input; layer {nearest} stands for it"
                return instances[kind.part, int(kind.phase), nearest], why
        opposite = instances.get((kind.part, int(_OPPOSITE[kind.phase]), -1), []) if kind.part in P2P_PARTS else []
        if opposite:
            return opposite, "pipeline transfers of one direction stand for those of the other"
        if kind.part in P2P_PARTS and (self._program.graph.comms.kind == CollectiveKind.SEND_RECV).any():
            raise RefusedError(
                "the input's pipeline exchanges are fused send/receive kernels, which do not tell one transfer's cost; "
                "record without batched exchanges (Megatron: overlap_p2p_comm), or keep --pp, --vpp and the schedule"
            )
        raise RefusedError(_missing(kind))


def _nearest_classes(kind: BlockKey) -> tuple[int, ...]:
    """Position classes that can stand for that of ``kind``, best first.

    What makes the first micro-batch special is in its forward (weight casts, gathers), and in the backward of the last
    (gradient syncs); the other pass of each is like a steady one.
    """
    if kind.microbatch == 1:
        return (1, 2, 0) if kind.phase is Phase.FORWARD else (1, 0, 2)
    return (kind.microbatch, 1, 2 - kind.microbatch)


def _prefer(pool: Iterable[int], wanted: Callable[[int], bool]) -> list[int]:
    """The wanted blocks of a pool, or all of it when none is."""
    every = list(pool)
    return [block for block in every if wanted(block)] or every


def _missing(kind: BlockKey) -> str:
    name = kind.part.name.lower()
    phase = kind.phase.name.lower()
    if kind.part in (Part.SEND, Part.RECV):
        return (
            f"the input has no {phase} {name} between pipeline stages to learn its cost from; "
            "record a rank that sends and receives, or keep --pp"
        )
    return (
        f"the {phase} pass of the {name} cannot be told apart in the input; "
        f"record a stage that holds it, with a range named '{name}' around it"
    )
