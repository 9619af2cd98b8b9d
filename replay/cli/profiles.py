"""``replay profiles``: the hardware profiles that ship with the toolkit, or a file of one's own."""

from __future__ import annotations

import sys

import click


@click.command("profiles", short_help="List the shipped hardware profiles, show one, or compare two.")
@click.argument("name", required=False)
@click.option("--compare", nargs=2, metavar="A B", help="Show two profiles side by side, with the ratio B / A.")
def command(name: str | None, compare: tuple[str, str] | None) -> None:
    """List the hardware profiles, or show the parameters of one with unit, evidence grade and source.

    A name is that of a shipped profile or of a .toml file, such as `replay calibrate` writes.
    """
    from replay import api  # noqa: PLC0415 - keeps `replay --help` fast

    if name is not None and compare:
        raise click.UsageError("give a NAME or --compare A B, not both")
    if compare:
        api.compare_profiles(api.load_profile(compare[0]), api.load_profile(compare[1]), sys.stdout)
    elif name is None:
        api.render_profiles(api.profiles(), sys.stdout)
    else:
        api.render_profile(api.load_profile(name), sys.stdout)
