"""What-ifs on pipeline recordings: hand arithmetic, refusals, and the real recordings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import parsers
from replay.core.errors import LayoutError, RefusedError, TraceError
from replay.pipelines import schedule
from replay.program.p2p import passes_of
from replay.program.pipeline_graph import out_of_order
from replay.program.recorded_steps import rank_orders, recorded_steps
from replay.recording import PipelineRecording
from replay.whatif.pipeline import PipelineQuestion, run
from tests.pipeline_recordings import MS, F, Item, layout_of, recording_of


def equal(item: Item) -> int:
    """Forward 10 ms, backward 20 ms."""
    return 10 if item[1] == F else 20


def recorded(p: int = 4, m: int = 8, v: int = 1) -> PipelineRecording:
    """Equal passes, free messages, 1 sequence a micro-batch."""
    return recording_of(layout_of(p, m, v, gbs=m, mbs=1), equal)


def predicted_ms(recording: PipelineRecording, **layout: int | str) -> float:
    """The step that is predicted for another layout."""
    found = run(recording, PipelineQuestion(layout=layout)).prediction
    assert found is not None
    return found.step_ns / MS


def test_nothing_asked_replays_and_predicts_nothing() -> None:
    """(8 + 3)·30 ms, no error, no prediction."""
    answer = run(recorded(), PipelineQuestion())
    assert answer.measured_step_ns == answer.replayed.step_ns == 330 * MS
    assert (answer.replay_error_pct, answer.prediction) == (0.0, None)


def test_two_chunks_a_rank_halve_the_bubble() -> None:
    """(8 + 3/2)·30 ms."""
    assert predicted_ms(recorded(), vpp=2) == pytest.approx(285)


def test_one_chunk_a_rank_doubles_it_back() -> None:
    """Two chunks of 10 + 20 ms: 60 ms a micro-batch and rank; (8 + 3)·60 ms without interleaving."""
    assert predicted_ms(recorded(v=2), vpp=1) == pytest.approx(660)


def test_twice_the_batch() -> None:
    """(16 + 3)·30 ms."""
    assert predicted_ms(recorded(), gbs=16) == pytest.approx(570)


def test_gpipe_has_the_bubble_of_1f1b() -> None:
    """Equal passes, free messages."""
    assert predicted_ms(recorded(), schedule="gpipe") == pytest.approx(330)


def test_half_the_stages_on_the_same_devices() -> None:
    """pp 4 -> 2: dp 2, 4 micro-batches each, 60 ms a micro-batch: (4 + 1)·60 ms."""
    answer = run(recorded(), PipelineQuestion(layout={"pp": 2}))
    assert answer.prediction is not None
    assert answer.prediction.step_ns / MS == pytest.approx(300)
    assert (answer.target.dp, answer.target.microbatches) == (2, 4)
    assert any("gradient synchronisation" in warning for warning in answer.warnings)


def test_asking_for_what_is_changes_nothing() -> None:
    """The source's own sizes are no question."""
    assert run(recorded(), PipelineQuestion(layout={"pp": 4, "vpp": 1, "schedule": "1f1b"})).prediction is None


def test_the_prediction_is_anchored_to_the_measured_step() -> None:
    """Twice the measured time, twice the prediction; the speed-up stays."""
    free = run(recorded(), PipelineQuestion(layout={"vpp": 2})).prediction
    anchored = run(recorded(), PipelineQuestion(layout={"vpp": 2}, measured_step_ms=660.0)).prediction
    assert free is not None
    assert anchored is not None
    assert anchored.step_ns == pytest.approx(2 * free.step_ns)
    assert anchored.speedup == pytest.approx(free.speedup)
    assert anchored.interval_ns[0] <= anchored.step_ns <= anchored.interval_ns[1]


@pytest.mark.parametrize("layout", [{"ep": 2}, {"tp": 2}, {"mbs": 2}, {"dispatcher": "deepep"}])
def test_what_a_pass_does_not_show_is_refused(layout: dict[str, int | str]) -> None:
    """By name, with what to give instead."""
    with pytest.raises(RefusedError, match=f"--{next(iter(layout))} cannot be answered"):
        run(recorded(), PipelineQuestion(layout=layout))


def test_more_replicas_by_world_size_are_refused_like_dp() -> None:
    """Eight devices for four stages are two replicas; two devices for two stages are one, as measured."""
    with pytest.raises(RefusedError, match="--world 8 means dp 2"):
        run(recorded(), PipelineQuestion(layout={"world_size": 8}))
    assert run(recorded(), PipelineQuestion(layout={"world_size": 2, "pp": 2})).target.dp == 1


def test_the_batch_needs_the_micro_batch() -> None:
    """Unknown in most recordings; one fact from the user is enough."""
    bare = recording_of(layout_of(4, 8), equal)
    with pytest.raises(RefusedError, match="--from mbs=N"):
        run(bare, PipelineQuestion(layout={"gbs": 32}))
    answer = run(bare, PipelineQuestion(layout={"gbs": 32}, given={"mbs": 2}))
    assert answer.target.microbatches == 16


def test_facts_that_contradict_the_recording_are_named() -> None:
    """Passes of 4 ranks were recorded."""
    with pytest.raises(LayoutError, match="the recording has pp 4, but 8 was given"):
        run(recorded(), PipelineQuestion(given={"pp": 8}))


def test_a_schedule_that_does_not_fit_is_refused_with_its_numbers() -> None:
    """6 micro-batches in groups of 4."""
    with pytest.raises(LayoutError, match="last group of 2"):
        run(recorded(m=6), PipelineQuestion(layout={"vpp": 2}))


def test_a_schedule_that_contradicts_the_chunks_is_refused() -> None:
    """Even when it is the source's own."""
    with pytest.raises(LayoutError, match="schedule 1f1b has one chunk a rank, but vpp is 2"):
        run(recorded(), PipelineQuestion(layout={"vpp": 2, "schedule": "1f1b"}))


def test_a_step_that_was_not_recorded_is_named() -> None:
    """Steps 0 to 3 were."""
    with pytest.raises(TraceError, match="step 9 is not among"):
        run(recorded(), PipelineQuestion(step=9))


def test_a_baseline_that_is_off_is_refused_unless_forced() -> None:
    """Half a step of delay at the end of rank 0 that no pass explains."""
    recording = recorded()
    late = (recording.stage == 0) & (recording.microbatch == 7) & (recording.kind == 1)
    broken = replace(recording, start_ns=recording.start_ns + np.where(late, 165 * MS, 0))
    with pytest.raises(RefusedError, match=r"by 33\.3 %.*in start: rank 0, passes: backward 7 -165"):
        run(broken, PipelineQuestion(layout={"vpp": 2}))
    assert run(broken, PipelineQuestion(layout={"vpp": 2}, force=True)).forced
    assert run(broken, PipelineQuestion()).replay_error_pct == pytest.approx(100 / 3)


def test_leading_slow_steps_are_warm_up() -> None:
    """The first step takes four times as long; the median is one of the others."""
    slow = recording_of(layout_of(4, 8), lambda item: 4 * equal(item), steps=1)
    rest = recording_of(layout_of(4, 8), equal)
    keys = ("dp_rank", "stage", "kind", "chunk", "microbatch", "order", "start_ns", "dur_ns")
    both = {key: np.concatenate([getattr(slow, key), getattr(rest, key)]) for key in keys}
    recording = replace(rest, step=np.concatenate([slow.step, rest.step + 1]), names=slow.names + rest.names, **both)
    steps = recorded_steps(recording)
    assert (steps.warm_up, steps.median.step_ns) == (1, 330 * MS)


class TestReal:
    """The recordings beside the checkout; figures from ../shared/formats/pipeline.md."""

    @pytest.mark.parametrize(
        ("name", "step_ms", "limit_pct"), [("megatronapp_pp4_vpp4.json.gz", 677.5, 3), ("primus_pp8", 3245, 2)]
    )
    def test_replays_without_residuals(self, shared_data: Path, name: str, step_ms: float, limit_pct: float) -> None:
        """Own durations, order and waits from the layout, exchange costs learned."""
        answer = run(_read(shared_data, name), PipelineQuestion())
        assert answer.measured_step_ns / MS == pytest.approx(step_ms, rel=0.001)
        assert answer.replayed.step_ns / MS == pytest.approx(step_ms, rel=limit_pct / 100)

    @pytest.mark.parametrize("name", ["megatronapp_pp4_vpp4.json.gz", "primus_pp8", "bytedance_ST"])
    def test_order_from_the_layout_alone_is_the_recorded_one(self, shared_data: Path, name: str) -> None:
        """Op by op, on every rank of every step."""
        recording = _read(shared_data, name)
        for step in recorded_steps(recording).steps:
            for dp_rank in set(recording.dp_rank.tolist()):
                for stage, order in enumerate(rank_orders(recording.layout)):
                    assert out_of_order(step, passes_of(order, dp_rank, stage)) == 0

    @pytest.mark.parametrize("name", ["megatronapp_pp4_vpp4.json.gz", "primus_pp8", "bytedance_ST"])
    def test_lifts_within_the_gate(self, shared_data: Path, name: str) -> None:
        """Template means in schedule order give the measured step back."""
        recording = _read(shared_data, name)
        vpp = 2 if recording.layout.vpp == 1 else 1
        answer = run(recording, PipelineQuestion(layout={"vpp": vpp}))
        assert answer.lift_error_pct is not None
        assert answer.lift_error_pct < 3

    def test_interleaving_the_primus_job_lies_between_no_gain_and_half_the_bubble(self, shared_data: Path) -> None:
        """The busiest rank alone takes 16·(66.9 + 75.2) ms; its bubble can at best halve."""
        answer = run(_read(shared_data, "primus_pp8"), PipelineQuestion(layout={"vpp": 2}))
        busy = 16 * (66.9 + 75.2)
        half = busy + (3245 - busy) / 2
        assert answer.prediction is not None
        assert half - 10 < answer.prediction.step_ns / MS < 3245
        low, high = answer.prediction.interval_ns
        assert low < answer.prediction.step_ns < high


def _read(shared_data: Path, name: str) -> PipelineRecording:
    recording = parsers.read([shared_data / "pipeline" / name])
    assert isinstance(recording, PipelineRecording)
    return recording


def test_schedules_are_found_by_name() -> None:
    """The names that ``--schedule`` takes."""
    assert {schedule(name).NAME for name in ("gpipe", "1f1b", "interleaved")} == {"gpipe", "1f1b", "interleaved"}


def test_the_other_exchange_habit_counts_where_the_recording_cannot_show_it() -> None:
    """1F1B never overlaps; an interleaved recording shows what it does."""
    from_1f1b = run(recording_of(layout_of(4, 8), equal, lag_ms=3), PipelineQuestion(layout={"vpp": 2}))
    from_interleaved = run(recorded(v=2), PipelineQuestion(layout={"vpp": 4}))
    assert from_1f1b.prediction is not None
    assert from_interleaved.prediction is not None
    assert any("exchange habit" in basis for basis in from_1f1b.prediction.interval_basis)
    assert not any("exchange habit" in basis for basis in from_interleaved.prediction.interval_basis)
