"""What the leading ops of a rank ask for, settled."""

from replay.program.keys import BlockKey, Part
from replay.program.transfers import settle
from replay.program.types import Phase

FORWARD = BlockKey(Part.LAYER, Phase.FORWARD, 0, 0, 0)
RANGE = BlockKey(Part.WAIT, Phase.FORWARD, 0, 0)  # inside a transfer's range, launching nothing
SEND = BlockKey(Part.SEND, Phase.FORWARD, 0, 0)
WAIT = BlockKey(Part.WAIT)


def test_ops_of_a_range_take_the_direction_of_its_launch() -> None:
    """Host work before and after the launch belongs to the send."""
    assert settle([FORWARD, RANGE, SEND, RANGE, WAIT]) == [FORWARD, SEND, SEND, SEND, WAIT]


def test_a_range_without_a_launch_asks_for_nothing() -> None:
    """A transfer's range that launched nothing leaves its ops to their neighbours."""
    assert settle([FORWARD, RANGE]) == [FORWARD, None]


def test_a_wait_needs_an_exchange_before_it() -> None:
    """The synchronisation at the end of the step waits for all streams, but ends no exchange."""
    tail = BlockKey(Part.TAIL)
    assert settle([SEND, tail, WAIT]) == [SEND, tail, None]


def test_transfers_without_a_pass_take_their_neighbours() -> None:
    """A bare send moves what the pass before it made, a bare receive what the pass after it needs."""
    later = FORWARD._replace(microbatch=1)
    bare = [FORWARD, BlockKey(Part.SEND), BlockKey(Part.RECV), later]
    assert settle(bare) == [FORWARD, SEND, SEND._replace(part=Part.RECV, microbatch=1), later]
