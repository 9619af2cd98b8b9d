"""Pipeline transfers for a source that made none, from the bandwidth that its sum of gradients reached.

An activation is s·b·h elements of two bytes, over tp·cp ranks; t = bytes / w, where the ring of n ranks that summed
B bytes in t_sum reached w = 2 (n - 1) / n · B / t_sum on each link. Latency is within the sum and left there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from replay.core.evidence import Grade
from replay.graph.types import Rule
from replay.layout import Layout
from replay.program.expert_gradients import cut_out, dense_sum
from replay.program.keys import TAIL_PARTS, BlockKey
from replay.program.parameters import ring
from replay.program.piece import Piece
from replay.program.templates import Outer, Program, structure

ACTIVATION_NBYTES = 2  # of an element (BF16, FP16)
NOTE = "the input has no pipeline transfers; their time is bytes over the bandwidth of its gradient sum"


def new_transfer(program: Program, target: Layout, key: BlockKey) -> Piece | None:
    """A send or receive made from the source's sum of gradients; ``None`` where sizes or the sum are missing."""
    nbytes = activation_nbytes(program, target)
    ranks = program.layout.dp * program.layout.cp
    if nbytes is None or ranks < 2:
        return None
    graph = program.graph
    for block in _tails(program):
        shape = structure(program, (block,))
        ends = dense_sum(program, shape)
        op = int(shape.ops[ends[1]]) if ends is not None else -1
        summed = int(graph.comms.nbytes[graph.comm[op]]) if ends is not None else 0
        if ends is None or summed <= 0 or graph.duration_ns[op] <= 0:
            continue
        bandwidth = 2 * ring(ranks) * summed / int(graph.duration_ns[op])
        after_compute = Outer(0, program.waiting_role, None, 0, program.wait_lag_ns, False, int(Rule.EVENT), False)
        shape = replace(cut_out(shape, ends), outer=(after_compute,))
        duration, nothing = np.array([0, round(nbytes / bandwidth)], np.int64), np.zeros(2, np.int64)
        scale, grade = np.full(2, nbytes / summed), np.full(2, Grade.ASSUMED, np.int8)
        return Piece(key, program.blocks.keys[block], shape, duration, nothing, nothing, scale, grade)
    return None


def _tails(program: Program) -> list[int]:
    """Blocks in which gradients may be summed."""
    return [index for index, key in enumerate(program.blocks.keys) if key.part in TAIL_PARTS]


def activation_nbytes(program: Program, target: Layout) -> float | None:
    """Bytes of one micro-batch's activation on one rank; ``None`` where a size is not known."""
    hidden, seq, mbs = program.labels.model.hidden, target.seq or program.labels.model.seq, target.mbs
    if not (hidden and seq and mbs):
        return None
    return seq * mbs * hidden * ACTIVATION_NBYTES / (target.tp * target.cp)
