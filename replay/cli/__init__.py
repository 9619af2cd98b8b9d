"""The ``replay`` command: a thin skin over :mod:`replay.api`.

Importing this package loads click and nothing else: a command's module is imported when it is asked for, and imports
the library when it runs.
"""

from __future__ import annotations

import importlib
from typing import Any

import click

from replay.core.errors import ReplayError

COMMANDS = ("run", "inspect", "diff", "validate", "calibrate", "profiles")
DEFAULT = "run"

EPILOG = """\b
Examples:
  replay trace.json.gz                          replay a measured step, show where its time goes
  replay traces/moe-pp2-dp8-ep4 --ep 8 --vpp 2  the same step with 8-way expert parallelism and 2 chunks a rank
  replay trace.json.gz --scale '@gemm=0.8'      GEMM kernels 20 % shorter
  replay profile/ --link hccs=2                 an Ascend profile, links of twice the bandwidth
  replay inspect traces/moe-pp2-dp8-ep4         what is in it, and what can be asked of it
  replay diff before.json.gz after.json.gz      where two steps differ, and which ops make the difference
  replay validate cases.toml                    predictions against measured steps, and their intervals

`replay TRACE...` is short for `replay run TRACE...`; its options: `replay run --help`.
Exit codes: 0 done, 1 bad input, 2 usage, 3 refused (the message says what is missing)."""


class Commands(click.Group):
    """Loads a command when it is named; arguments that name no command are those of ``run``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command from the module of its name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"{__name__}.{cmd_name}").command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command in front where none is named."""
        if args and args[0] not in (*COMMANDS, "--help", "--version"):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run, and turn the toolkit's own errors into a message and an exit code."""
        try:
            return super().invoke(ctx)
        except ReplayError as error:
            click.echo(f"replay: {error}", err=True)
            ctx.exit(error.exit_code)


@click.group(cls=Commands, epilog=EPILOG, context_settings={"max_content_width": 120})
@click.version_option(package_name="trace-replay")
def main() -> None:
    """Replay a measured training step and predict it under another layout."""
