"""Bytes and time by kind of link, from ``communication.json``."""

from __future__ import annotations

import pytest

from parsers.ascend.communication import link_uses
from replay.trace import LinkUse


def entry(size: object, time: object) -> dict[str, object]:
    return {"Transit Size(MB)": size, "Transit Time(ms)": time, "Bandwidth(GB/s)": 0, "Size Distribution": {}}


def test_megabytes_are_decimal_and_sums_of_links_stand_back() -> None:
    """2 MB in 0.5 ms over HCCS, and SDMA, which sums what stays inside of a node; nothing over RDMA."""
    found = link_uses({"RDMA": entry(0, 0), "HCCS": entry(2, 0.5), "SDMA": entry(2, 0.5)})
    assert found == (LinkUse("HCCS", 2_000_000, 500_000),)


def test_a_sum_alone_counts() -> None:
    """Beside RDMA, nothing else says over what the rest moved."""
    found = link_uses({"RDMA": entry("0.004", "0.01"), "SDMA": entry(1, 0.25)})
    assert found == (LinkUse("RDMA", 4000, 10_000), LinkUse("SDMA", 1_000_000, 250_000))


@pytest.mark.parametrize("bad", [None, [], "N/A", {"HCCS": None}, {"HCCS": entry("N/A", 1)}, {"HCCS": entry(1, "nan")},
                                 {"HCCS": entry(float("inf"), 1)}, {"HCCS": {}}])  # fmt: skip
def test_what_is_no_number_is_not_there(bad: object) -> None:
    assert link_uses(bad) == ()
