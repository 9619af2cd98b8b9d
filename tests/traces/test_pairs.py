"""Which recorded runs make a pair, and the options that lead from one to the other."""

from __future__ import annotations

from typing import Any

import pytest

from traces.record.job import Job, Model
from traces.record.matrix_runs import RUNS
from traces.record.pairs import SIZES, Manifest, pairs, shortest, sizes, split_of


def manifest(job: Job) -> Manifest:
    """``run.json`` of a job, as far as pairs read it."""
    stated = {"layout": job.layout(), "model": job.model_json(), "options": job.options()}
    return {"name": job.name, "device": "emulated", **stated}


def run(name: str, **habits: Any) -> Manifest:
    """The same job with some habits changed: PP 2 x DP 4, EP 2, 8 micro-batches."""
    return manifest(Job(name, **{"pp": 2, "dp": 4, "ep": 2, "gbs": 32} | habits))


def options(source: Manifest, target: Manifest) -> dict[str, Any]:
    """Options that lead from one run to another."""
    return shortest(sizes(source), sizes(target))


@pytest.mark.parametrize(
    ("habits", "asked"),
    [
        ({"ep": 4}, {"ep": 4}),
        ({"vpp": 2}, {"vpp": 2}),  # the schedule follows
        ({"pp": 4, "dp": 2}, {"pp": 4}),  # world and batch stay, dp and micro-batches follow
        ({"dp": 2, "gbs": 16}, {"dp": 2, "gbs": 16}),  # the same number of micro-batches
        ({"dp": 2}, {"dp": 2}),  # twice as many
        ({"gbs": 16}, {"gbs": 16}),
        ({"schedule": "gpipe"}, {"schedule": "gpipe"}),
        ({"tp": 2, "dp": 2}, {"tp": 2}),
    ],
)
def test_options_say_only_what_does_not_follow(habits: dict[str, Any], asked: dict[str, Any]) -> None:
    """What stays fixed is the toolkit's rule R14."""
    assert options(run("a"), run("b", **habits)) == asked


def test_runs_of_other_models_or_habits_make_no_pair() -> None:
    """Nothing leads from eight layers to four, nor to overlapped gradient sums."""
    runs = [run("a"), run("b", ep=4, model=Model(layers=4)), run("c", ep=4, overlap_grads=True)]
    assert list(pairs(runs)) == []


def test_more_than_two_changes_make_no_pair() -> None:
    """EP, chunks and batch at once are three."""
    assert list(pairs([run("a"), run("b", ep=4, vpp=2, gbs=64)])) == []


def test_both_directions_are_on_one_side() -> None:
    """So that what calibrates an interval is not what it is reported on."""
    assert split_of("a", "b") == split_of("b", "a")


def test_the_matrix_has_enough_pairs() -> None:
    """At least 90 that differ in one or two sizes, about half of them on each side, over worlds of 1 to 16 ranks."""
    jobs = [r.job for r in RUNS if not r.base]
    manifests = [manifest(job) for job in jobs]
    found = list(pairs(manifests))
    by_name = {m["name"]: sizes(m) for m in manifests}
    few = [p for p in found if sum(by_name[p.source][k] != by_name[p.target][k] for k in SIZES) <= 2]
    assert len(few) >= 90
    assert 0.4 < sum(split_of(p.source, p.target) == "report" for p in found) / len(found) < 0.6
    assert {j.world_size for j in jobs} >= {1, 2, 4, 8, 16}


def test_counterfactual_runs_repeat_a_run_that_is_recorded() -> None:
    """Same job but for name and disturbance."""
    jobs = {r.name: r.job for r in RUNS}
    for r in RUNS:
        if r.base:
            assert (r.job.layout(), r.job.model) == (jobs[r.base].layout(), jobs[r.base].model)
            assert r.job.options()["disturbance"] and r.edit
