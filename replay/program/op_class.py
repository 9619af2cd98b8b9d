"""Classes of ops by what limits them on a device: arithmetic, memory, links, or the host."""

from __future__ import annotations

import re
from enum import IntEnum

import numpy as np

from replay.core.columns import Int8
from replay.graph.staging import BY_DMA
from replay.graph.types import Graph, OpKind
from replay.program.expert_ops import GEMM
from replay.program.kernel_words import kernel_words


class OpClass(IntEnum):
    """What an op is to hardware."""

    HOST = 0
    GEMM = 1
    ATTENTION = 2
    CONVOLUTION = 3
    MEMORY = 4  # element-wise work, norms, reductions, copies on the device, sets
    HOST_COPY = 5  # between host and device
    COLLECTIVE = 6

    @property
    def label(self) -> str:
        """Lower-case word used in reports and JSON."""
        return self.name.lower().replace("_", " ")


ATTENTION = re.compile(r"flash|fmha|attn|attention|sdpa|mha_|\bmla\b", re.IGNORECASE)
"""Kernels that compute attention in one piece (FlashAttention, cuDNN, Transformer Engine, xFormers, CK)."""

CONVOLUTION = re.compile(r"conv(?!ert)|winograd|wgrad2d|dgrad2d|implicit_gemm", re.IGNORECASE)
"""Kernels of convolutions, implicit GEMMs among them."""

HOST_COPY = re.compile(rf"HtoD|DtoH|Host|Pageable|Pinned|{BY_DMA}", re.IGNORECASE)
"""Copies that cross the host's bus; other copies stay on the device."""


def op_classes(graph: Graph) -> Int8:
    """Class of every op; kernels whose name says nothing else are limited by memory."""
    by_name = np.array([class_of_kernel(word) for word in kernel_words(graph)] or [OpClass.MEMORY], dtype=np.int8)
    crossing = np.array([bool(HOST_COPY.search(name)) for name in graph.names] or [False], dtype=np.bool_)
    classes = np.full(len(graph), OpClass.HOST, dtype=np.int8)
    compute, copies = graph.kind == OpKind.COMPUTE, graph.kind == OpKind.MEMCPY
    classes[compute] = by_name[graph.name[compute]]
    classes[copies] = np.where(crossing[graph.name[copies]], OpClass.HOST_COPY, OpClass.MEMORY)
    classes[graph.kind == OpKind.MEMSET] = OpClass.MEMORY
    classes[np.isin(graph.kind, (OpKind.TRANSFER, OpKind.ARRIVAL))] = OpClass.COLLECTIVE
    return classes


def class_of_kernel(word: str) -> OpClass:
    """Class of a kernel by what tells what it is; see :mod:`replay.program.kernel_words`."""
    if ATTENTION.search(word):
        return OpClass.ATTENTION
    if CONVOLUTION.search(word):
        return OpClass.CONVOLUTION
    return OpClass.GEMM if GEMM.search(word) else OpClass.MEMORY
