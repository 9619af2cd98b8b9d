"""What the leading ops of a rank ask for, settled."""

from replay.program.keys import BlockKey, Part
from replay.program.transfers import settle
from replay.program.types import Phase

FORWARD = BlockKey(Part.LAYER, Phase.FORWARD, 0, 0, 0)
RANGE = BlockKey(Part.WAIT, Phase.FORWARD, 0, 0)  # inside a transfer's range, launching nothing
SEND = BlockKey(Part.SEND, Phase.FORWARD, 0, 0)
WAIT = BlockKey(Part.WAIT)


def settled(wanted: list[BlockKey | None]) -> list[BlockKey | None]:
    """Everything on one thread."""
    return settle(wanted, [0] * len(wanted))


def test_other_threads_may_work_between_an_exchange_and_the_wait_for_it() -> None:
    """The autograd engine runs a backward while the main thread waits; so may ops named for nothing but their pass."""
    backward, begin = FORWARD._replace(phase=Phase.BACKWARD), BlockKey(Part.BEGIN, Phase.FORWARD, 0, 0)
    assert settle([SEND, begin, backward, WAIT], [0, 0, 1, 0]) == [SEND, begin, backward, WAIT]
    assert settle([SEND, begin, backward, WAIT], [0, 0, 0, 0]) == [SEND, begin, backward, None]


def test_ops_of_a_range_take_the_direction_of_its_launch() -> None:
    """Host work before and after the launch belongs to the send."""
    assert settled([FORWARD, RANGE, SEND, RANGE, WAIT]) == [FORWARD, SEND, SEND, SEND, WAIT]


def test_a_range_without_a_launch_asks_for_nothing() -> None:
    """A transfer's range that launched nothing leaves its ops to their neighbours."""
    assert settled([FORWARD, RANGE]) == [FORWARD, None]


def test_a_wait_needs_an_exchange_before_it() -> None:
    """The synchronisation at the end of the step waits for all streams, but ends no exchange."""
    tail = BlockKey(Part.TAIL)
    assert settled([SEND, tail, WAIT]) == [SEND, tail, None]


def test_transfers_without_a_pass_take_their_neighbours() -> None:
    """A bare send moves what the pass before it made, a bare receive what the pass after it needs."""
    later = FORWARD._replace(microbatch=1)
    bare = [FORWARD, BlockKey(Part.SEND), BlockKey(Part.RECV), later]
    assert settled(bare) == [FORWARD, SEND, SEND._replace(part=Part.RECV, microbatch=1), later]
