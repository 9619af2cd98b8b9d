"""Tensors of a row in Ascend's kernel tables as matrices, whatever format they are stored in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from replay.core.dtypes import canonical

_DIM = re.compile(r"^\s*\d+\s*$")
_INT4_PER_INT32 = 8  # packed weights of WeightQuantBatchMatmul and GroupedMatmul


@dataclass(frozen=True, slots=True)
class Extent:
    """Length of an axis; ``blocks``: it was filled up to whole blocks of fewer than this many elements, 0 not."""

    size: int
    blocks: int = 0

    def times(self, count: int) -> Extent:
        """The same axis ``count`` times over."""
        return Extent(self.size * count, self.blocks and self.blocks * count)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A batch of matrices ``height`` x ``width``; ``lead`` are the sizes of the axes before these two."""

    lead: tuple[int, ...]
    height: Extent
    width: Extent
    dtype: str = ""
    layout: str = ""

    @property
    def batch(self) -> int:
        """How many matrices."""
        return prod(self.lead)

    def rows(self) -> Extent:
        """Rows of all matrices together."""
        return self.height.times(self.batch)

    def views(self) -> Iterator[tuple[Extent, Extent, bool]]:
        """(rows, columns, transposed) of a matrix, as stored and transposed."""
        yield self.height, self.width, False
        yield self.width, self.height, True

    def swapped(self) -> Tensor:
        """With the first axis of three in the second place (inputs of TransposeBatchMatMul)."""
        if len(self.lead) != 1:
            return self
        return Tensor((self.height.size,), Extent(self.lead[0]), self.width, self.dtype, self.layout)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a product as :class:`parsers.ascend.matmul.Product` has them."""

    m: int
    n: int
    k: int
    batch: int
    experts: int
    over_inner: bool = False
    left_transposed: bool | None = None
    right_transposed: bool | None = None
    right_dtype: str = ""

    def counts(self) -> tuple[int, int, int, int, int]:
        """The numbers alone."""
        return self.m, self.n, self.k, self.batch, self.experts


def matching(one: Extent, other: Extent) -> bool:
    """Equal, or as far apart as filling up to blocks explains."""
    gap = one.size - other.size
    return gap == 0 or 0 < gap < one.blocks or 0 < -gap < other.blocks


def true_size(one: Extent, other: Extent) -> int:
    """Of two lengths of the same axis the one that is not filled up."""
    return min(one.size, other.size)


def tensors(shapes: str, dtypes: str, formats: str) -> list[Tensor] | None:
    """The matrices among a cell's tensors, in order; ``None`` where one has a size that is dynamic or zero.

    Scalars and vectors (biases, scales) are passed over. A cell lists tensors between ``;``, sizes between ``,``.
    """
    words, layouts = dtypes.split(";"), formats.split(";")
    found = []
    for at, text in enumerate(shapes.split(";") if shapes.strip() else []):
        pieces = text.split(",") if text.strip() else []
        if not all(_DIM.match(piece) for piece in pieces):
            return None
        dims = tuple(map(int, pieces))
        if 0 in dims:
            return None
        if len(dims) > 1:
            found.append(_tensor(dims, _at(words, at), _at(layouts, at)))
    return found


def _tensor(dims: tuple[int, ...], dtype: str, layout: str) -> Tensor:
    word, form = canonical(dtype.strip()) if dtype.strip() else "", layout.strip().upper().removeprefix("FORMAT_")
    if "NZ" in form and len(dims) >= 4:
        columns, rows, height, width = dims[-4:]
        return Tensor(dims[:-4], Extent(rows * height, height), Extent(columns * width, width), word, form)
    if form == "FRACTAL_Z" and len(dims) == 4:
        rows, columns, width, height = dims
        return Tensor((), Extent(rows * height, height), Extent(columns * width, width), word, form)
    if word == "int32":
        return Tensor(dims[:-2], Extent(dims[-2]), Extent(dims[-1] * _INT4_PER_INT32), "int4", form)
    return Tensor(dims[:-2], Extent(dims[-2]), Extent(dims[-1]), word, form)


def _at(words: list[str], index: int) -> str:
    return words[index] if index < len(words) else ""
