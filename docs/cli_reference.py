"""Write docs/reference/cli.md from the commands themselves: ``python docs/cli_reference.py``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from replay.cli import COMMANDS, DEFAULT, main

PAGE = Path(__file__).resolve().parent / "reference" / "cli.md"

INTRODUCTION = f"""# Command line

Written by `python docs/cli_reference.py` from the commands themselves; a test fails when it is stale.

`replay INPUT...` is short for `replay {DEFAULT} INPUT...`. Results go to stdout, progress to stderr.

Exit codes: 0 done, 1 bad input, 2 usage, 3 refused (the input cannot answer the question, or the baseline is not
reproduced; the message says what is missing and how to supply it).
"""


def page() -> str:
    """The whole page."""
    context = click.Context(main)
    commands = [(name, main.get_command(context, name)) for name in COMMANDS]
    return "\n".join([INTRODUCTION, *(_section(name, command) for name, command in commands if command)])


def _section(name: str, command: click.Command) -> str:
    arguments = " ".join(p.make_metavar(click.Context(command)) for p in _of(command, click.Argument))
    lines = [f"## replay {name} {arguments}", "", inspect.cleandoc(command.help or ""), "", *_table(command)]
    return "\n".join(lines) + "\n"


def _table(command: click.Command) -> Iterator[str]:
    options = list(_of(command, click.Option))
    if options:
        yield from ("| option | meaning |", "|---|---|")
    for option in options:
        names = ", ".join(f"`{name}`" for name in option.opts)
        value = "" if option.is_flag else f" {option.metavar or option.type.name.upper()}"
        yield f"| {names}{value} | {option.help} |"


def _of(command: click.Command, kind: type[click.Parameter]) -> Iterator[click.Parameter]:
    return (parameter for parameter in command.params if isinstance(parameter, kind))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
