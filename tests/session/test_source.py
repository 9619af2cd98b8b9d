"""Where the source layout comes from: the strongest statement wins, and each size says how it is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from parsers.run_description import RunDescription
from replay.core.errors import LayoutError
from replay.layout import Layout
from replay.model import ModelSpec
from replay.session.question import Facts
from replay.session.source import Source, find_source, held_fixed
from replay.trace import CollectiveKind, Group, Trace
from tests.program.events import no_collectives, span, trace_of
from tests.session.test_recorded_pipelines import recorded as sends

TP, EP = "TENSOR_MODEL_PARALLEL_GROUP", "EXPERT_MODEL_PARALLEL_GROUP"


def trace(world: int = -1, groups: tuple[Group, ...] = ()) -> Trace:
    """A trace that says no more than this."""
    return replace(trace_of([span("step", 0, 0, 10)]), world_size=world, groups=groups)


def source(
    recorded: Trace, given: dict[str, int] | None = None, described: RunDescription | None = None, **facts: int
) -> Source:
    """The source of a trace with facts."""
    return find_source(recorded, Facts(layout=given or {}, **facts), described or RunDescription())  # type: ignore[arg-type]


def test_named_groups_tell_sizes() -> None:
    """16 ranks, tp 2, ep 4: dp follows."""
    found = source(trace(16, (Group("1", TP, (0, 1)), Group("2", EP, (0, 2, 4, 6)))))
    assert (found.layout.tp, found.layout.ep, found.layout.dp) == (2, 4, 8)
    assert found.evidence["tp"] == "size of the recorded process group"
    assert found.evidence["pp"].startswith("assumed")


def test_given_sizes_win_over_described_and_recorded_ones() -> None:
    """--from, then run.json, then the groups; dp is derived anew."""
    described = RunDescription({"tp": 4, "pp": 2, "dp": 2, "world_size": 16}, ModelSpec(), file="run.json")
    found = source(trace(16, (Group("1", TP, (0, 1)),)), {"tp": 8}, described)
    assert (found.layout.tp, found.layout.pp, found.layout.dp) == (8, 2, 1)
    assert found.evidence["pp"] == "stated in run.json"
    assert found.evidence["tp"].endswith("though the largest recorded group of that name has 2 ranks")


def test_a_world_that_is_not_said_is_the_smallest_that_holds_the_sizes() -> None:
    """One rank of an ep 64 job."""
    found = source(trace(), {"ep": 64})
    assert found.layout.world_size == 64
    assert found.evidence["world_size"].startswith("assumed")


@pytest.mark.parametrize(("given", "says"), [({"tp": 3}, "does not divide"), ({"world_size": 8}, "the trace says 16")])
def test_contradictions_name_the_numbers(given: dict[str, int], says: str) -> None:
    """A layout that cannot be is a usage error."""
    with pytest.raises(LayoutError, match=says):
        source(trace(16), given)


def test_micro_batches_follow_from_the_batch() -> None:
    """64 sequences, 1 a micro-batch, dp 8."""
    found = source(trace(16), {"pp": 2, "gbs": 64, "mbs": 1})
    assert found.layout.microbatches == 8


def test_transfers_between_ranks_are_named_where_no_pipeline_is_stated() -> None:
    """A flat layout is assumed, but point-to-point traffic makes that doubtful."""
    recorded = replace(trace(2), collectives=replace(no_collectives(), kind=np.array([CollectiveKind.SEND], np.int8)))
    assert "--from pp=N" in source(recorded).evidence["pp"]
    assert source(recorded, {"pp": 2}).evidence["pp"].startswith("given")


def test_layers_stand_on_top_of_the_model() -> None:
    """--layers without --model keeps the rest of what is described."""
    described = RunDescription({}, ModelSpec(hidden=64), file="run.json")
    assert source(trace(), described=described, layers=16).model == ModelSpec(layers=16, hidden=64)


def test_layers_that_contradict_the_model_are_an_error() -> None:
    """Both numbers are named."""
    described = RunDescription({}, ModelSpec(layers=8), file="run.json")
    with pytest.raises(LayoutError, match=r"--layers says 16, but run\.json says 8"):
        source(trace(), described=described, layers=16)


def test_held_fixed_is_what_both_layouts_share() -> None:
    """Unknown sizes are not claimed."""
    words = held_fixed(Layout(ep=4, dp=8, world_size=8), Layout(ep=8, dp=8, world_size=8))
    assert "world size 8" in words
    assert not any(word.startswith(("ep", "gbs")) for word in words)


def test_what_is_assumed_may_be_found_in_the_step() -> None:
    """A stated dp leaves no room for other stages; what was found says so."""
    assert {"pp", "vpp"} <= source(trace(4)).assumed
    assert "pp" not in source(trace(4), {"dp": 4}).assumed
    found = source(trace(4), {"pp": 2}).with_found(Layout(pp=2, vpp=2, dp=2, world_size=4, microbatches=8))
    assert found.evidence["vpp"] == found.evidence["microbatches"] == "found in the structure of the step"
    assert found.evidence["pp"].startswith("given")


def test_transfers_tell_stages_where_other_sizes_leave_room_for_them() -> None:
    """Two ranks that send to each other are two stages, unless they are one group of experts."""
    ways = [(0, 1), (1, 0)]
    found = source(sends(2, ways))
    assert (found.layout.pp, found.evidence["pp"]) == (2, "ranks send to each other in pipelines of that length")
    experts = source(replace(sends(2, ways), groups=(Group("1", EP, (0, 1)),)))
    assert (experts.layout.pp, experts.layout.ep) == (1, 2)
    assert source(sends(2, ways), {"dp": 2}).layout.pp == 1
