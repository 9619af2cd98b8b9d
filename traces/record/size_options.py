"""Options for the sizes of a job and its model, which the commands ``run`` and ``cpu`` share."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

from traces.record.job import Job, Model

_MODEL = tuple(field.name for field in fields(Model))


def add_sizes(parser: argparse.ArgumentParser, sizes: tuple[str, ...], default: Job) -> None:
    """One option each of ``sizes`` and of the model's; what is not said is as in ``default``."""
    values = {name: getattr(default, name) for name in sizes}
    values |= {name: getattr(default.model, name) for name in _MODEL}
    for name, value in values.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value, help="default %(default)s")


def sizes_of(options: argparse.Namespace, sizes: tuple[str, ...]) -> dict[str, Any]:
    """The sizes asked for and the model, as :class:`Job` takes them."""
    model = Model(**{name: getattr(options, name) for name in _MODEL})
    return {**{name: getattr(options, name) for name in sizes}, "model": model}
