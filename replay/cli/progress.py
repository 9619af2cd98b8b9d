"""Progress on stderr: one line that says which stage is running, on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stages(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A function to call with the name of each stage as it begins."""
    from rich.console import Console  # noqa: PLC0415 - keeps `replay --help` fast

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _stage: None
        return
    with console.status("reading") as status:
        yield status.update
