"""Writes an answer to a file; the suffix of its name says what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from replay.core.errors import OutputError, RefusedError
from replay.report import chrome, perfetto
from replay.report.result import to_json_bytes
from replay.report.slices import collect
from replay.session.types import Answer


def write(answer: Answer, path: Path) -> None:
    """``.html``: the report; ``.pftrace``, ``.trace.json``: timelines; ``.json``: the result.

    Raises :class:`RefusedError` for others, :class:`OutputError` where the file cannot be written.
    """
    with writing(path):
        _write(answer, path)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns the system's refusal to write ``path`` into an :class:`OutputError` that names it."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error}); name another file") from error


def _write(answer: Answer, path: Path) -> None:
    if path.name.endswith(".html"):
        require_bokeh(path)
        from replay.report.html import run_page  # noqa: PLC0415 - an extra, and slow to import

        path.write_text(run_page.page(answer.result, answer.runs), encoding="utf-8")
    elif path.name.endswith(".pftrace"):
        perfetto.write(collect(answer.runs), path)
    elif path.name.endswith(".trace.json"):
        chrome.write(collect(answer.runs), path)
    elif path.name.endswith(".json"):
        path.write_bytes(to_json_bytes(answer.result))
    else:
        raise RefusedError(f"{path.name}: give a name that ends in .html, .json, .pftrace or .trace.json")


def require_bokeh(path: Path) -> None:
    """Raises :class:`RefusedError` where the extra that HTML reports need is not installed."""
    if find_spec("bokeh") is None:
        raise RefusedError(f"{path.name}: HTML reports need Bokeh; install it with: pip install bokeh")
