"""Streams of blocks, decompressed by what they begin with: gzip, xz, bzip2, or as they are."""

from __future__ import annotations

import bz2
import lzma
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from isal import isal_zlib  # twice as fast as zlib, which took a tenth of reading a trace

BLOCK_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"
_XZ = b"\xfd7zXZ\0"
_BZIP2 = b"BZh"
_HEAD_BYTES = len(_XZ)  # the longest of them


def file_blocks(descriptor: int, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Blocks of an open file from its begin."""
    at = 0
    while block := os.pread(descriptor, size, at):
        yield block
        at += len(block)


def decompress(stored: Iterable[bytes], size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Decompressed blocks of about ``size`` bytes; those of a stream that is not compressed as they are.

    Raises ``EOFError`` after all that can be had of a stream that is damaged or has no end.
    """
    blocks = iter(stored)
    first = b""
    while len(first) < _HEAD_BYTES and (block := next(blocks, b"")):
        first += block
    whole = chain([first] if first else [], blocks)
    if first.startswith(_GZIP):
        return _gunzip(whole, size)
    if first.startswith(_XZ):
        return _expand(whole, size, lzma.LZMADecompressor, _XZ)
    if first.startswith(_BZIP2):
        return _expand(whole, size, bz2.BZ2Decompressor, _BZIP2)
    return whole


def is_compressed(head: bytes) -> bool:
    """Whether a file that begins so is decompressed."""
    return head.startswith((_GZIP, _XZ, _BZIP2))


def _gunzip(stored: Iterable[bytes], size: int) -> Iterator[bytes]:
    """A gzip stream, which may have several members."""
    member = isal_zlib.decompressobj(wbits=31)
    for block in stored:
        rest = block
        while rest:
            if member.eof:
                if not rest.startswith(_GZIP):
                    return  # padding after the last member
                member = isal_zlib.decompressobj(wbits=31)
            try:
                yield member.decompress(rest, size)
            except isal_zlib.IsalError as error:  # type: ignore[misc]  # its stub types the class as an instance
                raise EOFError(str(error)) from error
            rest = member.unused_data if member.eof else member.unconsumed_tail
    if not member.eof:
        raise EOFError("the compressed stream has no end")


def _expand(
    stored: Iterable[bytes],
    size: int,
    new: Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor],
    magic: bytes,
) -> Iterator[bytes]:
    """An xz or bzip2 stream, which may have several members."""
    member = new()
    for block in stored:
        rest = block
        while rest or not (member.eof or member.needs_input):
            if member.eof:
                if not rest.startswith(magic):
                    return  # padding after the last member
                member = new()
            try:
                yield member.decompress(rest, size)
            except (lzma.LZMAError, OSError) as error:
                raise EOFError(str(error)) from error
            rest = member.unused_data if member.eof else b""
    if not member.eof:
        raise EOFError("the compressed stream has no end")
