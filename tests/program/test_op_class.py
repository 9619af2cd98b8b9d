"""What limits an op on a device."""

from __future__ import annotations

import pytest

from replay.graph.types import OpKind
from replay.program.op_class import OpClass, op_classes
from tests.synthetic import Op, graph_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Memcpy HtoD (Pageable -> Device)", OpClass.HOST_COPY),
        ("Memcpy DtoD (Device -> Device)", OpClass.MEMORY),
        ("MEMCPY_ASYNC (PCIE_DMA_SQE)", OpClass.HOST_COPY),
        ("MEMCPY_ASYNC (SDMA_SQE)", OpClass.MEMORY),
    ],
)
def test_copies_over_the_bus_of_the_host_are_not_the_devices_memory(name: str, expected: OpClass) -> None:
    """As CUDA and CANN write them."""
    assert op_classes(graph_of([Op(name, 10, kind=OpKind.MEMCPY)])).tolist() == [expected]
