"""Pieces: the measured blocks that stand for a block of the target, as structure with mean durations."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from replay.core.columns import Float64, Int8, Int64
from replay.core.evidence import Grade
from replay.graph.types import Graph
from replay.layout import Layout
from replay.program.assumed_link import AssumedLink, of_device
from replay.program.choice import Choice, Chooser
from replay.program.comm_times import Bytes, CommTimes
from replay.program.keys import BlockKey
from replay.program.links import Links, learn_links
from replay.program.parameters import Partition, tail_scale
from replay.program.templates import Program, Structure, mean_ns, structure


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations to lay out, one row per op of the source graph: measured, or re-timed for the target.

    ``load`` is what an op that the source did not need (of a group of one rank) carries beside the mean, ``assumed``
    the link of ranks of which ``links`` know none.
    """

    duration_ns: Int64
    grade: Int8
    links: Links
    load: Float64
    assumed: AssumedLink = field(default_factory=of_device)

    @staticmethod
    def measured(graph: Graph) -> Timing:
        """The durations of the graph itself."""
        return Timing(graph.duration_ns, graph.grade, learn_links(graph), np.ones(len(graph)))


@dataclass(frozen=True, slots=True)
class Piece:
    """One block to put down: whose structure, with which durations, under which name in the target."""

    key: BlockKey
    origin: BlockKey  # key of the block whose structure this is
    structure: Structure
    duration_ns: Int64
    residual_ns: Int64
    lateness_ns: Int64  # of unseen peers, per transfer
    nbytes_scale: Float64  # what the target moves, over what the source moved
    grade: Int8
    lane_of: dict[str, str] = field(default_factory=dict)  # lane role in the structure → in the target, if it differs


class Pieces:
    """Makes pieces for one target; equal blocks share structure and means."""

    def __init__(self, program: Program, target: Layout, timing: Timing, layers: Partition) -> None:
        self._program = program
        self._target = target
        self._timing = timing
        self._layers = layers
        self._chooser = Chooser(program, target)
        self._comms = CommTimes(program, target, timing.links, timing.load, timing.assumed, self.note)
        self._structures: dict[tuple[int, ...], Structure] = {}
        self._means: dict[tuple[int, ...], tuple[Int64, Int64, Int64]] = {}
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What had to be assumed, one sentence each."""
        return tuple(self._notes)

    def note(self, text: str) -> None:
        """Add a sentence to the notes."""
        self._notes[text] = None

    def make(self, key: BlockKey, rank: int) -> Piece | None:
        """The piece for ``key`` on ``rank``, ``None`` where the source does nothing there."""
        choice = self._chooser.choose(key, rank)
        if choice is None:
            return None
        exemplar = choice.blocks[0]
        if choice.blocks not in self._structures:
            self._structures[choice.blocks] = structure(self._program, choice.blocks)
        shape = self._structures[choice.blocks]
        duration, residual, lateness = self._mean(choice)
        grade = self._timing.grade[shape.ops]
        if choice.assumed:
            self.note(choice.assumed)
            grade = weakest(grade, Grade.ASSUMED)
        scale = tail_scale(self._program, exemplar, self._target, self._layers, (key, rank))
        if scale is not None:
            duration = np.rint(duration * scale.duration).astype(np.int64)
            grade = np.where(scale.duration != 1, weakest(grade, Grade.SCALED), grade)
        one = np.ones(len(shape.ops))
        size = Bytes(scale.nbytes, scale.chunk) if scale is not None else Bytes(one, one)
        if self._comms.changes or scale is not None:
            owner = int(self._program.blocks.rank[exemplar])
            factor, added, known = self._comms.of_block(shape.ops, size, (key, rank), owner)
            duration = np.rint(duration * factor).astype(np.int64) + added
            grade = np.maximum(grade, known)
        return Piece(key, self._program.blocks.keys[exemplar], shape, duration, residual, lateness, size.nbytes, grade)

    def _mean(self, choice: Choice) -> tuple[Int64, Int64, Int64]:
        if choice.blocks not in self._means:
            columns = (self._timing.duration_ns, self._program.graph.residual_ns, self._program.lateness_ns)
            duration, residual, lateness = (mean_ns(self._program, choice.blocks, column) for column in columns)
            self._means[choice.blocks] = (duration, residual, lateness)
        return self._means[choice.blocks]


def weakest(grade: Int8, floor: Grade) -> Int8:
    """Grades, none better than ``floor``."""
    return np.maximum(grade, np.int8(floor))
