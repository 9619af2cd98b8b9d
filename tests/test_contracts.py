"""Contract tests over every member of the extension folders: a new file is checked without a new test."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

import numpy as np
import pytest

import hwprofiles
from replay.collectives._link import Link
from replay.core.errors import LayoutError
from replay.core.plugins import members
from replay.recording import PassKind

PARSERS = {name: module for name, module in members("parsers").items() if hasattr(module, "sniff")}
SCHEDULES = members("replay.pipelines")
WHATIFS = {name: module for name, module in members("replay.whatif").items() if hasattr(module, "OPTION")}
COLLECTIVES = members("replay.collectives")

NOT_TRACES = (b"", b"\x00\x01\x02", b"hello\n", b"<!doctype html>", b"\x80\x04\x95", b"a,b\n1,2\n", b"{}", b"[]")
SIZES = ((1, 1, 1), (2, 4, 1), (4, 8, 1), (4, 8, 2), (2, 6, 3))  # p, m, v


@pytest.mark.parametrize("name", PARSERS)
class TestParsers:
    """``FORMAT``, ``sniff`` and ``read``."""

    def test_offers_the_contract(self, name: str) -> None:
        """The format has a name of its own."""
        assert PARSERS[name].FORMAT
        assert [module.FORMAT for module in PARSERS.values()].count(PARSERS[name].FORMAT) == 1
        assert callable(PARSERS[name].read)

    @pytest.mark.parametrize("head", NOT_TRACES)
    def test_sniff_says_no_without_raising(self, name: str, head: bytes) -> None:
        """Whatever the bytes."""
        assert PARSERS[name].sniff(head, Path("input.bin")) is False


def accepted() -> list[tuple[str, int, int, int]]:
    """Every schedule with the sizes it says it can run."""
    cases = []
    for (name, schedule), (p, m, v) in itertools.product(SCHEDULES.items(), SIZES):
        with contextlib.suppress(LayoutError):
            schedule.check(p, m, v, p)
            cases.append((name, p, m, v))
    return cases


def test_every_schedule_runs_some_sizes() -> None:
    """A schedule that refuses everything would pass the next test unseen."""
    assert {name for name, *_ in accepted()} == set(SCHEDULES)


@pytest.mark.parametrize(("name", "p", "m", "v"), accepted())
def test_schedule_runs_every_pass_once_and_forward_first(name: str, p: int, m: int, v: int) -> None:
    """On every rank, each (micro-batch, chunk) has one forward and, after it, one backward."""
    for rank in range(p):
        order = SCHEDULES[name].order(p, rank, m, v, p)
        passes = zip(order.phase, order.microbatch, order.chunk, strict=True)
        position = {key: i for i, key in enumerate(passes)}
        assert len(position) == len(order) == 2 * m * v
        for mb, ck in itertools.product(range(m), range(v)):
            assert position[PassKind.FORWARD, mb, ck] < position[PassKind.BACKWARD, mb, ck]


@pytest.mark.parametrize("name", COLLECTIVES)
class TestCollectives:
    """``KINDS`` and ``time_ns``."""

    LINK = Link(1_000, 10e9)

    def test_time_grows_with_size_and_costs_nothing_alone(self, name: str) -> None:
        """More bytes never take less; one rank has nobody to talk to."""
        assert COLLECTIVES[name].KINDS
        times = COLLECTIVES[name].time_ns(np.array([1e3, 1e6, 1e9]), 8, self.LINK)
        assert (np.diff(times) >= 0).all()
        assert (COLLECTIVES[name].time_ns(np.array([1e6]), 1, self.LINK) == 0).all()


@pytest.mark.parametrize("name", WHATIFS)
def test_whatif_says_what_it_is_asked_by(name: str) -> None:
    """``OPTION`` is a command-line option of run; ``LEVEL`` one of the ways through the middle."""
    from replay.cli.run import command  # noqa: PLC0415 - click only

    known = {option for parameter in command.params for option in parameter.opts}
    assert WHATIFS[name].OPTION in known
    assert WHATIFS[name].LEVEL in ("graph", "program", "pipeline")


@pytest.mark.parametrize("name", hwprofiles.names())
def test_profile_loads_under_its_own_name(name: str) -> None:
    """Schema, units and grades are checked by the loader."""
    profile = hwprofiles.load(name)
    assert profile.name == name
    assert profile.parameters
