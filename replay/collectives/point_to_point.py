"""One message between two ranks; a fused send and receive moves both directions at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.collectives import chain
from replay.collectives._cost_model import cost_model
from replay.collectives._link import Link, Sizes
from replay.core.columns import Float64
from replay.trace import CollectiveKind

KINDS = (CollectiveKind.SEND, CollectiveKind.RECV, CollectiveKind.SEND_RECV)

sent_nbytes = chain.sent_nbytes


def steps(ranks: npt.ArrayLike) -> Float64:
    """1, however many ranks the group has; 0 for a lone rank."""
    return np.where(np.asarray(ranks) > 1, 1.0, 0.0)


def time_ns(nbytes: Sizes, ranks: npt.ArrayLike, link: Link) -> Float64:
    """latency + S / bandwidth."""
    return link.time_ns(sent_nbytes(nbytes, ranks), steps(ranks))


COST_MODELS = (cost_model("point_to_point", KINDS, steps, sent_nbytes),)
