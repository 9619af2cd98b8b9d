"""Statistics of Ascend's communication in sqlite: the samples that its JSON form gives."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from parsers.samples import read_samples
from replay.core.errors import TraceError
from tests.parsers.ascend import databases as db
from tests.parsers.samples.test_ascend_communication import collective, write


def test_statistics_in_sqlite_give_the_same_samples(tmp_path: Path) -> None:
    """Of sizes, links and collectives, in either form."""
    op = collective(HCCS={"2.0": [12, 1.5], "0.5": [3, 0.3]}, RDMA={"0.5": [2, 0.1]}, SDMA={"2.0": [12, 1.5]})
    for use in op["Communication Bandwidth Info"].values():
        use |= {"Transit Size(MB)": 24.0, "Transit Time(ms)": 1.5}
    op["Communication Time Info"] = {"Elapse Time(ms)": 2.0}
    text = read_samples([write(tmp_path / "communication.json", {"hcom_allReduce__1@9": op, "Total Op Info": op})])
    whole = {"step": {"collective": {"hcom_allReduce__1@9": op, "Total Op Info": op}}}
    found = read_samples([db.statistics(tmp_path / "analysis.db", whole)])
    assert sorted(found.time_ns.tolist()) == sorted(text.time_ns.tolist()) == [50_000.0, 100_000.0, 125_000.0]
    assert sorted(found.size("nbytes").tolist()) == sorted(text.size("nbytes").tolist())
    assert sorted(found.tier.to_list()) == sorted(text.tier.to_list())


def test_other_databases_hold_no_samples(tmp_path: Path) -> None:
    """They are refused like any file of an unknown kind."""
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE users (name TEXT)")
    with pytest.raises(TraceError, match="holds no measurement that is known"):
        read_samples([tmp_path / "a.db"])


def test_damaged_statistics_are_told(tmp_path: Path) -> None:
    op = collective(HCCS={"2.0": [12, 1.5]}) | {"Communication Time Info": {"Elapse Time(ms)": 2.0}}
    op["Communication Bandwidth Info"]["HCCS"] |= {"Transit Size(MB)": 24.0, "Transit Time(ms)": 1.5}
    path = db.statistics(tmp_path / "analysis.db", {"step": {"collective": {"hcom_allReduce__1@9": op}}})
    with pytest.raises(TraceError, match="CommAnalyzerBandwidth is damaged after 0 rows"):
        read_samples([db.damage(path, "CommAnalyzerBandwidth")])
