"""Chunk costs before and after a what-if."""

from replay.layout import Layout
from replay.program.chunk_costs import measured_chunk_costs, target_chunk_costs
from replay.program.synthesis import synthesise
from replay.program.templates import lift
from tests.program.recorded import Costs, pipeline_step

LAYOUT = Layout(pp=2, world_size=2, mbs=1, gbs=2, microbatches=2, schedule="1f1b", group_size=2)


def test_embedding_and_head_belong_to_the_ends() -> None:
    """Two layers of 5 and 10 ns a stage; 3 ns of embedding on the first, 7 of head on the last, each way."""
    program = lift(*pipeline_step(LAYOUT, 4, Costs(5, 10, embedding=3, head=7, transfer=2)))
    rows = [(c.stage, c.chunk, c.phase, c.mean_ns, c.spread_ns, c.count) for c in measured_chunk_costs(program)]
    assert rows == [
        (0, 0, "backward", 23, 0, 2),
        (0, 0, "forward", 13, 0, 2),
        (1, 0, "backward", 27, 0, 2),
        (1, 0, "forward", 17, 0, 2),
    ]


def test_chunks_of_the_target() -> None:
    """With two chunks a stage each holds one layer."""
    program = lift(*pipeline_step(LAYOUT, 4, Costs(5, 10, embedding=3, head=7)))
    target = LAYOUT.change(vpp=2)
    costs = {(c.stage, c.chunk, c.phase): c.mean_ns for c in target_chunk_costs(synthesise(program, target), target)}
    assert costs[0, 0, "forward"] == 5 + 3
    assert costs[1, 0, "forward"] == costs[0, 1, "forward"] == 5
    assert costs[1, 1, "forward"] == 5 + 7
