"""Parquet files as tables of pyarrow, an optional library."""

from __future__ import annotations

import io
from typing import Any

from parsers.source import SourceFile
from replay.core.errors import TraceError


def read_parquet(file: SourceFile) -> Any:
    """The pyarrow table of a file; :class:`TraceError` where it is damaged, or pyarrow is not there."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an optional extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise TraceError(f"{file.name}: reading parquet needs pyarrow; install it with: pip install pyarrow") from error
    try:
        # one thread: where one of several meets damage, the others go on decoding a buffer that is gone, and crash
        return parquet.ParquetFile(io.BytesIO(file.read()), pre_buffer=False).read(use_threads=False)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{file.name}: not a readable parquet file ({error}); copy it again") from error
