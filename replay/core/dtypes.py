"""Data types: one word for each, whatever a tool calls it, and the bytes of its elements."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ALIASES = {
    "bf16": ("bfloat16", "bfp16", "ncclbfloat16"),
    "fp16": ("float16", "half", "f16"),
    "fp32": ("float32", "float", "f32", "single"),
    "tf32": ("hf32", "tensorfloat32"),
    "fp64": ("float64", "double", "f64"),
    "fp8": ("fp8_e4m3", "f8e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3", "e4m3", "fp8_e5m2", "f8e5m2",
            "float8_e5m2", "float8_e5m2fnuz"),
    "fp8_block": ("fp8_blockwise", "fp8_per_block"),
    "int8": ("char", "i8", "signed char"),
    "int16": ("i16", "short", "short int"),
    "int32": ("int", "i32"),
    "int64": ("i64", "long", "long int"),
    "uint8": ("u8", "unsigned char", "byte"),
    "uint16": ("u16",),
    "uint32": ("u32",),
    "uint64": ("u64",),
    "int8_sq": ("sq", "smoothquant", "w8a8"),
    "int8_wo": ("w8a16",),
    "int4_wo": ("w4a16", "int4"),
    "nvfp4": ("fp4", "mxfp4"),
}  # fmt: skip
_NAMESPACE = re.compile(r"torch\.|c10::|at::|dt_")
_WORDS = {alias: word for word, aliases in _ALIASES.items() for alias in (word, *aliases)}


@dataclass(frozen=True, slots=True)
class Elements:
    """Bytes per element of the two inputs and the output of a matrix multiplication of a data type.

    ``left`` are activations, ``right`` weights (one number each for plain types; weight-only schemes differ).
    ``scale_block``: elements a side that share one scale, 0 where a tensor or row has one.
    """

    left: float
    right: float
    output: float
    scale_block: float = 0.0

    def sizes(self) -> dict[str, float]:
        """As sizes of a sample (:mod:`replay.samples`)."""
        return {
            "left_nbytes": self.left,
            "right_nbytes": self.right,
            "output_nbytes": self.output,
            "scale_block": self.scale_block,
        }


_ELEMENTS = {
    "bf16": Elements(2, 2, 2), "fp16": Elements(2, 2, 2), "fp32": Elements(4, 4, 4), "tf32": Elements(4, 4, 4),
    "fp64": Elements(8, 8, 8),
    "fp8": Elements(1, 1, 2), "fp8_block": Elements(1, 1, 2, 128), "int8": Elements(1, 1, 2),
    "int8_sq": Elements(1, 1, 2), "int8_wo": Elements(2, 1, 2), "int4_wo": Elements(2, 0.5, 2),
    "nvfp4": Elements(0.5, 0.5, 2),
}  # fmt: skip
_PLAIN = {
    "bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8, "fp8": 1, "fp8_block": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8,
    "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1, "float8_e8m0fnu": 1, "complexhalf": 4,
    "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip


def canonical(name: str) -> str:
    """The toolkit's word for a data type; a name it does not know stays as it is, in lower case."""
    lower = name.strip().lower()
    word = lower[found.end() :] if (found := _NAMESPACE.match(lower)) else lower
    return _WORDS.get(word, word)


def first_of(types: str) -> str:
    """The word for the first data type of an operator's, as traces list them (``["c10::Half", "int"]``)."""
    return canonical(re.split('[";]', types.strip('[]"'))[0])


def element_nbytes(name: str) -> int | None:
    """Bytes of one element as it crosses a link, ``None`` for an unknown type or a scheme without one width."""
    return _PLAIN.get(canonical(name))


def matrix_elements(name: str) -> Elements | None:
    """Bytes per element of a matrix multiplication's operands, ``None`` for an unknown type."""
    return _ELEMENTS.get(canonical(name))


def rate_parameter(name: str) -> str:
    """Name of the profile parameter that holds the dense peak of a data type.

    Weight-only schemes multiply in BF16, whatever the weights are stored in.
    """
    word = canonical(name)
    if word in ("bf16", "fp16", "int8_wo", "int4_wo"):
        return "bf16_flop_per_s"
    if word in ("fp8", "fp8_block"):
        return "fp8_flop_per_s"
    return "int8_op_per_s" if word in ("int8", "int8_sq") else f"{word}_flop_per_s"
