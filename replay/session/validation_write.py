"""Writes a validation; the suffix of the file's name says what."""

from __future__ import annotations

from pathlib import Path

import orjson

from replay.report.validation.document import document, to_csv
from replay.report.validation.types import Validation
from replay.session.write import require_bokeh, writing


def to_bytes(found: Validation) -> bytes:
    """The JSON document, indented."""
    return orjson.dumps(document(found), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def write(found: Validation, path: Path) -> None:
    """``.html``: the report; ``.csv``: a line a case; ``.json``: the document."""
    with writing(path):
        if path.name.endswith(".html"):
            require_bokeh(path)
            from replay.report.html import validation_page  # noqa: PLC0415 - an extra, and slow to import

            path.write_text(validation_page.page(found), encoding="utf-8")
        elif path.name.endswith(".csv"):
            path.write_text(to_csv(found), encoding="utf-8")
        else:
            path.write_bytes(to_bytes(found))
