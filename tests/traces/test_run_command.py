"""Options of the command ``run``."""

from __future__ import annotations

import argparse

from traces.record.disturbance import Disturbance
from traces.record.job import Job, Model
from traces.record.loads import BALANCED
from traces.record.run_command import add_options, job_of


def job(*words: str) -> Job:
    """The job that these words ask for."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    return job_of(parser.parse_args(["--out", "folder/name", *words]))


def test_nothing_said_is_the_shipped_sample() -> None:
    """But for the name, which is the folder's."""
    assert job() == Job("name")


def test_sizes_and_habits_reach_the_job() -> None:
    """Four stages of two chunks with blocking exchanges, half of the layers dense, no ranges."""
    words = "--pp 4 --vpp 2 --dp 2 --ep 2 --gbs 16 --dense-layers 4 --blocking-p2p --overlap-grads --ranges off"
    asked = job(*words.split())
    assert (asked.pp, asked.vpp, asked.schedule, asked.overlap_p2p) == (4, 2, "interleaved", False)
    assert (asked.model, asked.overlap_grads, asked.ranges, asked.load) == (
        Model(dense_layers=4),
        True,
        False,
        BALANCED,
    )


def test_disturbances_are_pairs_of_what_and_how_much() -> None:
    """A kernel twice as slow and a stall on one rank."""
    asked = job("--slow-kernel", "flash_attention", "2", "--stall", "40", "--stall-rank", "1")
    assert asked.disturbance == Disturbance("flash_attention", 2.0, stall_rank=1, stall_ms=40.0)
