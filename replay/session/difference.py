"""``diff``: two steps from files, compared, and written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson

from replay.core.errors import RefusedError
from replay.report import chrome, perfetto
from replay.report.diff.compare import compare
from replay.report.diff.document import document
from replay.report.diff.types import Difference
from replay.report.slices import Run, collect
from replay.session.question import Facts
from replay.session.sides import load
from replay.session.types import Progress, no_progress
from replay.session.write import require_bokeh, writing


def diff(
    a: str | Path,
    b: str | Path,
    facts: Facts | None = None,
    steps: tuple[int | None, int | None] = (None, None),
    progress: Progress = no_progress,
) -> Difference:
    """Step ``b`` against step ``a``; ``steps`` picks one of either input. Raises what reading raises."""
    sides = [
        load(Path(path), replace(facts or Facts(), step=step), label, progress)
        for path, step, label in ((a, steps[0], "a"), (b, steps[1], "b"))
    ]
    progress("comparing")
    return compare(*sides)


def to_bytes(found: Difference) -> bytes:
    """The JSON document, indented."""
    return orjson.dumps(document(found), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def write(found: Difference, path: Path) -> None:
    """``.html``: the report; ``.json``: the document; ``.pftrace``, ``.trace.json``: both timelines from one zero."""
    with writing(path):
        _write(found, path)


def _write(found: Difference, path: Path) -> None:
    if path.name.endswith(".html"):
        require_bokeh(path)
        from replay.report.html import difference_page  # noqa: PLC0415 - an extra, and slow to import

        path.write_text(difference_page.page(found), encoding="utf-8")
    elif path.name.endswith((".pftrace", ".trace.json")):
        writer = perfetto if path.name.endswith(".pftrace") else chrome
        writer.write(collect(_runs(found, path)), path)
    else:
        path.write_bytes(to_bytes(found))


def _runs(found: Difference, path: Path) -> list[Run]:
    runs = [side.execution.run for side in (found.a, found.b) if side.execution]
    if not runs:
        raise RefusedError(f"{path.name}: neither side knows its ops, so there is no timeline to write")
    return runs
