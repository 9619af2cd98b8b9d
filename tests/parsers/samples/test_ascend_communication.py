"""communication.json of Ascend: packets by size as messages between a pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parsers.samples import read_samples
from replay.core.errors import TraceError


def collective(**sizes: dict[str, list[float]]) -> dict[str, Any]:
    """An op with size distributions by kind of link."""
    return {"Communication Bandwidth Info": {name: {"Size Distribution": found} for name, found in sizes.items()}}


def write(path: Path, ops: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"step": {"p2p": {}, "collective": ops}}, indent=1))
    return path


def test_packets_are_messages_inside_and_between_nodes(tmp_path: Path) -> None:
    """12 packets of 2 MB in 1.5 ms are 125 us each; sums over collectives are not counted again."""
    op = collective(HCCS={"2.0": [12, 1.5]}, RDMA={"0.5": [2, 0.1]}, SDMA={"2.0": [12, 1.5]})
    found = read_samples([write(tmp_path / "communication.json", {"hcom_allReduce__1@9": op, "Total Op Info": op})])
    assert found.time_ns.tolist() == [125_000.0, 50_000.0]
    assert found.size("nbytes").tolist() == [2e6, 0.5e6]
    assert found.tier.to_list() == ["intra_node", "inter_node"]
    assert found.repeats.tolist() == [12, 2]
    text = (tmp_path / "communication.json").read_text().splitlines()
    assert all('"Size Distribution"' in text[line - 1] for line in found.line)
    assert "SDMA beside HCCS" in found.notes[0]


def test_packets_without_time_are_left_out_and_damage_is_refused(tmp_path: Path) -> None:
    op = collective(HCCS={"2.0": [12, 0.0]})
    with pytest.raises(TraceError, match="no bytes, packets or time"):
        read_samples([write(tmp_path / "communication.json", {"op": op})])
    with pytest.raises(TraceError, match=r"is not an Ascend communication\.json"):
        read_samples([write(tmp_path / "communication.json", {"op": collective(HCCS={"two": [1, 1.0]})})])


def test_shared_recordings(shared_data: Path) -> None:
    """The bandwidth of one HCCS link of a 910B is 15 to 20 GB/s in both recordings."""
    found = read_samples(sorted((shared_data / "ascend").rglob("communication.json")))
    large = (found.size("nbytes") > 1e6) & found.tier.equal("intra_node")
    rates = found.size("nbytes")[large] / found.time_ns[large]
    assert large.sum() > 10
    assert rates.min() > 10
    assert rates.max() < 25


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_what_python_and_editors_write_is_read(tmp_path: Path, mark: str) -> None:
    """NaN and Infinity are no numbers of packets; a byte-order mark is none of JSON's characters."""
    op = collective(HCCS={"2.0": [12, 1.5], "1.0": [float("nan"), 1.0], "0.5": [float("inf"), 1.0], "4.0": [1, 1e400]})
    path = write(tmp_path / "communication.json", {"hcom_allReduce__1@9": op})
    path.write_text(mark + path.read_text("utf-8"), encoding="utf-8")
    found = read_samples([path])
    assert found.time_ns.tolist() == [125_000.0]
    assert any("3 rows left out, no bytes, packets or time" in note for note in found.notes)
