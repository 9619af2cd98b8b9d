"""``replay profiles``: the hardware profiles that ship with the toolkit."""

from __future__ import annotations

import sys

import click


@click.command("profiles", short_help="List the shipped hardware profiles, or show one.")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the hardware profiles, or show the parameters of one with unit, evidence grade and source."""
    from replay import api  # noqa: PLC0415 - keeps `replay --help` fast

    if name is None:
        api.render_profiles(api.profiles(), sys.stdout)
    else:
        api.render_profile(api.load_profile(name), sys.stdout)
