"""``--layers`` against the layers that a step shows."""

from __future__ import annotations

import numpy as np

from replay.core.errors import LayoutError
from replay.program.groups import coordinates
from replay.program.types import Labels
from replay.session.question import Facts


def check_layers(facts: Facts, labels: Labels, ranks: tuple[int, ...]) -> None:
    """Raises :class:`LayoutError` where ``--layers`` is not what the step shows, or cannot be held against anything.

    A step that lacks pipeline stages may show fewer.
    """
    if facts.layers is None:
        return
    found = len(np.unique(labels.layer[labels.layer >= 0]))
    if not found:
        raise LayoutError(f"--layers says {facts.layers}, but nothing in this step tells layers apart; leave it out")
    stages = {coordinates(labels.layout, rank)["pp"] for rank in ranks}
    if found > facts.layers or (len(stages) == labels.layout.pp and found != facts.layers):
        raise LayoutError(
            f"--layers says {facts.layers}, but this step shows {found}; correct it, or say with --from pp=N that "
            "other stages hold the rest"
        )
