"""Cost models, found by scanning the folders of cost functions and collective algorithms."""

from __future__ import annotations

from replay.core.plugins import members
from replay.cost_model import CostModel

PACKAGES = ("replay.costs", "replay.collectives")


def cost_models() -> tuple[CostModel, ...]:
    """All cost models, in alphabetical order of their files."""
    return tuple(
        model
        for package in PACKAGES
        for module in members(package).values()
        for model in getattr(module, "COST_MODELS", ())
    )
