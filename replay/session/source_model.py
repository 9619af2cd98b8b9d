"""The source model: what ``--model`` says, and ``--layers`` on top of it."""

from __future__ import annotations

from dataclasses import replace

from parsers.model_config import read_model
from replay.model import ModelSpec
from replay.session.question import Facts


def source_model(facts: Facts) -> ModelSpec:
    """ModelSpec from the facts given; all unknown without any."""
    model = read_model(facts.model) if facts.model else ModelSpec()
    return model if facts.layers is None else replace(model, layers=facts.layers)
