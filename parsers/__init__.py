"""Parsers: one file per input format. Each offers ``sniff(source) -> bool`` and ``read(sources, options)``."""
