"""SimuMax system files: measured efficiencies by shape, and the peak they are a share of.

A key such as ``b=1, m=4096, k=5120, n=1536, layout=TN, accumulate=False, out_dtype=bf16`` holds achieved / peak, so
time = FLOPs / (efficiency · peak). Attention counts the FLOPs of the full square for a causal kernel (efficiencies
above 1 in the files come of it), as SimuMax does.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from parsers.samples._rows import Gathered, Row
from parsers.source import SourceFile
from replay.core.dtypes import Elements, canonical, element_nbytes, matrix_elements
from replay.core.errors import TraceError
from replay.core.units import NS_PER_S
from replay.samples import Samples

FORMAT = "SimuMax system file"

_EFFICIENCY = re.compile(r'"([^"]*=[^"]*)"\s*:\s*(\d[\d.eE+-]*)')
_BACKWARD_FLOPS = 2.5  # of the forward pass of flash attention: five products for two (Dao 2022)


def sniff(head: bytes) -> bool:
    """A JSON object with an accelerator and efficiencies by shape."""
    return head.lstrip()[:1] == b"{" and b'"accelerator"' in head and b"accurate_efficient_factor" in head


def read(file: SourceFile) -> Samples:
    """Samples of every op with efficiencies by shape; ``line`` is that of the shape's key."""
    text = file.read()
    try:
        system = orjson.loads(text)
        ops: dict[str, Any] = system["accelerator"]["op"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise TraceError(f"{file.name}: is not a SimuMax system file ({error})") from None
    gathered = Gathered(file.name)
    device = str(system.get("sys_name", ""))
    lines = _lines(text.decode("utf-8", "replace"))
    try:
        for op, entry in ops.items():
            for key, efficiency in (entry.get("accurate_efficient_factor") or {}).items():
                _take(op, key, (float(efficiency), float(entry["tflops"]) * 1e12), (device, lines), gathered)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{file.name}: is not a SimuMax system file ({error})") from None
    return gathered.samples()


def _lines(text: str) -> dict[tuple[str, float], int]:
    """Line of each (key, value): the same shape occurs forward and backward."""
    found: dict[tuple[str, float], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        found |= {(match[1], float(match[2])): number for match in _EFFICIENCY.finditer(line)}
    return found


def _take(
    op: str, key: str, rate: tuple[float, float], context: tuple[str, dict[tuple[str, float], int]], gathered: Gathered
) -> None:
    """One shape: efficiency and peak in ``rate``, the device and the lines of keys in ``context``."""
    (efficiency, peak), (device, lines) = rate, context
    line = lines.get((key, efficiency), 1)
    shape = dict(part.split("=", 1) for part in key.split(", ") if "=" in part)
    reader = {"matmul": _gemm, "fp8_matmul": _gemm, "group_matmul": _grouped, "fp8_group_matmul": _grouped,
              "sdp_fwd": _attention, "sdp_bwd": _attention}.get(op)  # fmt: skip
    if reader is None or not efficiency > 0:
        gathered.leave_out(f"{op} with these keys is unknown" if reader is None else "no efficiency", line)
        return
    try:
        kind, dtype, sizes, flops = reader(op, shape)
    except (KeyError, ValueError) as error:
        gathered.leave_out(f"the shape {key!r} lacks or garbles {error}", line)
        return
    time_ns = flops / (efficiency * peak) * NS_PER_S
    gathered.rows.append(Row(kind, time_ns, line, sizes, dtype, device, "SimuMax", shape.get("layout", op)))


def _gemm(op: str, shape: dict[str, str]) -> tuple[str, str, dict[str, float], float]:
    dtype = "fp8" if op.startswith("fp8") else "bf16"
    batch, m, n, k = (float(shape[name]) for name in ("b", "m", "n", "k"))
    sizes = {"batch": batch, "m": m, "n": n, "k": k, "accumulate": float(shape.get("accumulate") == "True")}
    return "gemm", dtype, sizes | _widths(dtype, shape), 2.0 * batch * m * n * k


def _grouped(op: str, shape: dict[str, str]) -> tuple[str, str, dict[str, float], float]:
    """``M`` rows a group; the weight gradient sums over them."""
    dtype = canonical(shape.get("dtype", "fp8" if op.startswith("fp8") else "bf16"))
    groups, m, n, k = (float(shape[name]) for name in ("ng", "M", "N", "K"))
    backward = float(shape.get("stage") == "bwd_grad_w")
    sizes = {"experts": groups, "m": m, "n": n, "k": k, "backward_weight": backward}
    return "grouped_gemm", dtype, sizes | _widths(dtype, shape), 2.0 * groups * m * n * k


def _attention(op: str, shape: dict[str, str]) -> tuple[str, str, dict[str, float], float]:
    batch, seq, heads = (float(shape[name]) for name in ("batch", "seq_len", "head_num"))
    qk, v = float(shape["qk_head_dim"]), float(shape["v_head_dim"])
    backward = op == "sdp_bwd"
    sizes = {
        "batch": batch, "seq": seq, "kv_seq": seq, "heads": heads, "kv_heads": float(shape["kv_head_num"]),
        "head_dim": qk, "v_head_dim": v, "causal": 1.0, "backward": float(backward),
    }  # fmt: skip
    flops = 2.0 * batch * heads * seq * seq * (qk + v) * (_BACKWARD_FLOPS if backward else 1.0)
    return "attention", "bf16", sizes, flops


def _widths(dtype: str, shape: dict[str, str]) -> dict[str, float]:
    elements = matrix_elements(dtype) or Elements(2, 2, 2)
    output = element_nbytes(shape.get("out_dtype", "")) or elements.output
    return elements.sizes() | {"output_nbytes": float(output)}
