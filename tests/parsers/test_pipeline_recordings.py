"""Pipeline recordings: labels, layouts, and odd inputs with the sentence or the count that each must give."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

import parsers
from replay.core.errors import TraceError
from replay.recording import PassKind, PipelineRecording

Events = list[dict[str, Any]]


def read(*paths: Path) -> PipelineRecording:
    """Through the dispatcher, as a user would."""
    found = parsers.read(paths)
    assert isinstance(found, PipelineRecording)
    return found


class TestMegatronApp:
    """Chrome B/E spans with labels on the E event."""

    @staticmethod
    def span(name: str, rank: int, start: int, microbatch: int, chunk: int = 0, iteration: int = 0) -> Events:
        """A pass of 10 us."""
        common = {"name": name, "pid": rank, "tid": 0}
        labels = {"iteration": iteration, "microbatch": microbatch, "model_chunk": chunk, "pp_rank": rank}
        return [
            {**common, "ph": "B", "ts": start, "args": {"iteration": iteration}},
            {**common, "ph": "E", "ts": start + 10, "args": labels},
        ]

    def iteration(self, number: int = 0) -> Events:
        """2 ranks, 2 micro-batches."""
        at = number * 1000
        order = [("forward", 0), ("forward", 1), ("backward", 0), ("backward", 1)]
        return [
            event
            for rank in (0, 1)
            for place, (name, microbatch) in enumerate(order)
            for event in self.span(name, rank, at + 10 * place + 50 * rank, microbatch, iteration=number)
        ]

    @staticmethod
    def file(folder: Path, events: object) -> Path:
        """Written as JSON; a string is written as it is."""
        path = folder / "trace.json"
        path.write_text(events if isinstance(events, str) else json.dumps(events), encoding="utf-8")
        return path

    def test_labels_come_from_the_end_event(self, tmp_path: Path) -> None:
        """Times are us, durations whole ns, sizes from the labels."""
        found = read(self.file(tmp_path, self.iteration()))
        assert (found.layout.pp, found.layout.vpp, found.layout.microbatches) == (2, 1, 2)
        assert set(found.dur_ns.tolist()) == {10_000}
        assert (found.stage[-1], found.kind[-1], found.microbatch[-1]) == (1, PassKind.BACKWARD, 1)

    def test_instants_are_counted_not_read(self, tmp_path: Path) -> None:
        """``iteration begin`` and alike."""
        instant = {"name": "iteration begin", "ph": "i", "ts": 0, "pid": 0, "tid": 0, "args": {"iteration": 0}}
        found = read(self.file(tmp_path, [instant, *self.iteration()]))
        assert found.health.skipped == {"events that are not passes": 1}

    def test_an_iteration_that_lacks_an_end_is_left_out(self, tmp_path: Path) -> None:
        """Counted, with the rank and its numbers."""
        found = read(self.file(tmp_path, self.iteration(0) + self.iteration(1)[:-1]))
        assert set(found.step.tolist()) == {0}
        assert found.health.dropped == {"begin events without an end": 1, "iterations with passes missing": 1}
        assert "pipeline rank 1 has 2 forward and 1 backward passes, expected 2 each" in found.health.warnings[0]

    @pytest.mark.parametrize(
        ("spoil", "reason"),
        [
            (lambda event: event.pop("args"), "passes whose end event lacks a label"),
            (lambda event: event["args"].update(microbatch="two"), "passes whose end event lacks a label"),
            (lambda event: event.update(ts=float("nan")), "passes without times"),
            (lambda event: event.update(ts=0), "passes that end before they start"),
        ],
    )
    def test_a_spoilt_end_event_costs_its_iteration_only(
        self, tmp_path: Path, spoil: Callable[[dict[str, Any]], object], reason: str
    ) -> None:
        """Whatever is wrong with it has its own count."""
        events = self.iteration(0) + self.iteration(1)
        spoil(events[-1])
        found = read(self.file(tmp_path, events))
        assert found.health.dropped[reason] == 1
        assert set(found.step.tolist()) == {0}

    def test_an_end_without_a_begin_is_counted(self, tmp_path: Path) -> None:
        """A recording that was switched on inside a pass."""
        stray = self.span("forward", 0, 0, 0, iteration=0)[1]
        found = read(self.file(tmp_path, [stray, *self.iteration(1)]))
        assert found.health.dropped["end events without a begin"] == 1

    def test_a_missing_rank_is_named(self, tmp_path: Path) -> None:
        """Rank 0 of 2."""
        events = [event for event in self.iteration() if event["pid"] == 1]
        with pytest.raises(TraceError, match="pipeline ranks 0 of 2 are missing"):
            read(self.file(tmp_path, events))

    def test_no_complete_iteration_is_an_error_with_its_numbers(self, tmp_path: Path) -> None:
        """Not an empty answer."""
        with pytest.raises(TraceError, match="no complete iteration: pipeline rank 1 has 2 forward and 1 backward"):
            read(self.file(tmp_path, self.iteration()[:-1]))

    def test_a_cut_file_is_an_error(self, tmp_path: Path) -> None:
        """Half a JSON list."""
        with pytest.raises(TraceError, match="not valid JSON"):
            read(self.file(tmp_path, json.dumps(self.iteration())[:-20]))

    def test_the_group_size_is_read_from_the_order(self, tmp_path: Path) -> None:
        """4 forwards of chunk 0 before the first of chunk 1, on 2 ranks: groups of 4."""
        order = [("forward", i, c) for c in (0, 1) for i in range(4)]
        order += [("backward", i, c) for c in (1, 0) for i in range(4)]
        events = [
            event
            for rank in (0, 1)
            for place, (name, microbatch, chunk) in enumerate(order)
            for event in self.span(name, rank, 10 * place, microbatch, chunk)
        ]
        layout = read(self.file(tmp_path, events)).layout
        assert (layout.vpp, layout.group_size, layout.schedule) == (2, 4, "interleaved")

    def test_real(self, shared_data: Path) -> None:
        """20 iterations of 4 ranks, 4 chunks, 8 micro-batches, forward and backward."""
        found = read(shared_data / "pipeline" / "megatronapp_pp4_vpp4.json.gz")
        layout = found.layout
        assert (layout.pp, layout.vpp, layout.microbatches, layout.group_size) == (4, 4, 8, 4)
        assert len(found) == 20 * 4 * 4 * 8 * 2


class TestPrimus:
    """One dump a pipeline rank, one config."""

    CONFIG: ClassVar = {
        "world_size": 2,
        "dp_size": 1,
        "tp_size": 1,
        "ep_size": 1,
        "pp_size": 2,
        "vp_size": 1,
        "num_mbs": 2,
    }

    @staticmethod
    def record(rank: int = 0) -> dict[str, Any]:
        """Two micro-batches; ms."""
        return {
            "total": 45.0 - rank, "memory": 1.5,
            "fwd_start": [0.0, 10.0], "fwd_end": [10.0, 20.0], "bwd_start": [20.0, 30.0], "bwd_end": [30.0, 40.25],
        }  # fmt: skip

    def job(self, folder: Path, ranks: int = 2, name: str = "job_layer8_gbs4", **config: object) -> Path:
        """Two iterations of every rank."""
        for rank in range(ranks):
            self.dump(folder, rank, {"1": self.record(rank), "2": self.record(rank)}, name)
        (folder / f"{name}_config.json").write_text(json.dumps({**self.CONFIG, **config}), encoding="utf-8")
        return folder

    @staticmethod
    def dump(folder: Path, rank: int, iterations: object, name: str = "job_layer8_gbs4") -> None:
        """One rank's file."""
        (folder / f"{name}_pp_rank_{rank}.json").write_text(json.dumps(iterations), encoding="utf-8")

    def test_order_labels_the_microbatches(self, tmp_path: Path) -> None:
        """Position k is micro-batch k; ms become whole ns; the name tells layers and batch."""
        found = read(self.job(tmp_path))
        last = found.to_frame().iloc[-1]
        assert (last.stage, last.kind, last.microbatch, last.dur_ns) == (1, "backward", 1, 10_250_000)
        assert (found.layers, found.layout.gbs, found.layout.mbs) == (8, 4, 2)
        assert found.steps_total_ns == {1: 45_000_000, 2: 45_000_000}

    def test_missing_ranks_are_named(self, tmp_path: Path) -> None:
        """The config says 4."""
        with pytest.raises(TraceError, match="pipeline ranks 2, 3 of 4 are missing"):
            read(self.job(tmp_path, pp_size=4, world_size=4))

    def test_a_config_alone_is_no_recording(self, tmp_path: Path) -> None:
        """It says what to give."""
        with pytest.raises(TraceError, match="give the folder that holds every rank's dump"):
            read(self.job(tmp_path, ranks=0))

    def test_two_jobs_in_a_folder_are_told_apart(self, tmp_path: Path) -> None:
        """Their names are in the message."""
        self.job(tmp_path, ranks=1, name="a")
        self.dump(tmp_path, 1, {"1": self.record(7)}, "a")
        with pytest.raises(TraceError, match="dumps of 2 jobs: a, b"):
            read(self.job(tmp_path, name="b"))

    def test_without_config_one_chunk_is_assumed_and_said(self, tmp_path: Path) -> None:
        """Sizes come from the files."""
        (self.job(tmp_path) / "job_layer8_gbs4_config.json").unlink()
        found = read(tmp_path)
        assert (found.layout.pp, found.layout.vpp, found.layout.microbatches) == (2, 1, 2)
        assert any("no *_config.json" in warning for warning in found.health.warnings)

    @pytest.mark.parametrize(
        ("spoil", "reason"),
        [
            ({"fwd_end": [10.0, float("nan")]}, "passes whose times are not finite"),
            ({"fwd_end": [10.0, 1e25]}, "passes whose times are centuries away"),
            ({"bwd_end": [30.0, 25.0]}, "passes that end before they start"),
            ({"bwd_start": [20.0]}, "starts without an end, or ends without a start"),
            ({"bwd_start": [], "bwd_end": []}, "iterations with passes missing"),
        ],
    )
    def test_a_spoilt_iteration_is_left_out_and_counted(
        self, tmp_path: Path, spoil: dict[str, list[float]], reason: str
    ) -> None:
        """The other iteration stays."""
        self.dump(self.job(tmp_path), 1, {"1": self.record(), "2": {**self.record(), **spoil}})
        found = read(tmp_path)
        assert set(found.step.tolist()) == {1}
        assert found.health.dropped[reason] == 1

    def test_an_empty_iteration_is_left_out(self, tmp_path: Path) -> None:
        """No lists at all."""
        self.dump(self.job(tmp_path), 0, {"1": self.record(), "2": {}})
        found = read(tmp_path)
        assert found.health.skipped["iterations without passes on a rank"] == 1
        assert set(found.step.tolist()) == {1}

    def test_unequal_counts_everywhere_are_an_error(self, tmp_path: Path) -> None:
        """With the counts."""
        with pytest.raises(TraceError, match="has 2 forward and 2 backward passes, expected 3 each"):
            read(self.job(tmp_path, num_mbs=3))

    @pytest.mark.parametrize(("key", "value"), [("pp_size", 0), ("num_mbs", "many"), ("vp_size", -1)])
    def test_a_size_that_is_no_size_is_named(self, tmp_path: Path, key: str, value: object) -> None:
        """Before anything divides by it."""
        with pytest.raises(TraceError, match=f"{key} must be a positive whole number"):
            read(self.job(tmp_path, **{key: value}))

    def test_a_key_that_is_no_iteration_is_named(self, tmp_path: Path) -> None:
        """Another tool's JSON under the same name."""
        self.dump(self.job(tmp_path), 0, {"fwd_start": [1.0]})
        with pytest.raises(TraceError, match="'fwd_start' is not an iteration number"):
            read(tmp_path)

    def test_chunks_are_left_to_the_schedule(self, tmp_path: Path) -> None:
        """With 2 chunks a rank the position does not tell the micro-batch."""
        found = read(self.job(tmp_path, vp_size=2, num_mbs=1))
        assert set(found.chunk.tolist()) == set(found.microbatch.tolist()) == {-1}
        assert found.order.max() == 1

    def test_real(self, shared_data: Path) -> None:
        """20 iterations of 8 ranks, 16 micro-batches; 64 layers by the job's name."""
        found = read(shared_data / "pipeline" / "primus_pp8")
        assert (found.layout.pp, found.layout.microbatches, found.layers) == (8, 16, 64)
        assert len(found) == 20 * 8 * 16 * 2
        assert found.steps_total_ns[1] == pytest.approx(7_557e6, rel=1e-3)


class TestStragglerAnalysis:
    """Parquet and YAML."""

    META = "trial_name: X\nrun_id: 0\ndp_size: 1\ndsp_size: 1\npp_size: 2\ntp_size: 4\nvpp_size: 1\nworld_size: 8\n"

    @staticmethod
    def columns() -> dict[str, list[Any]]:
        """Two stages, one micro-batch, an optimizer each; seconds."""
        ops = [("forward-compute", 0.0, 0), ("backward-compute", 0.5, 0), ("optimizer", 1.0, -1)]
        rows = [(stage, name, start + 0.1 * stage, chunk) for stage in (0, 1) for name, start, chunk in ops]
        return {
            "dp_rank": [0] * 6, "stage": [row[0] for row in rows], "rank": [0] * 6, "step": [7] * 6,
            "optype": [row[1] for row in rows], "start_ts": [row[2] for row in rows], "duration": [0.25] * 6,
            "seq_id": [0] * 6, "mc": [row[3] for row in rows], "mb_id": [row[3] for row in rows], "gmc": [-1] * 6,
        }  # fmt: skip

    def job(self, folder: Path, columns: dict[str, list[Any]] | None = None, meta: str | None = META) -> Path:
        """A folder as the tool leaves it."""
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet  # noqa: PLC0415

        table = pa.table(columns or self.columns())
        for name in ("start_ts", "duration"):
            if name in table.column_names:
                at = table.column_names.index(name)
                table = table.set_column(at, name, table[name].cast(pa.float32()))
        parquet.write_table(table, folder / "trace-X.parquet")
        if meta is not None:
            (folder / "meta-X.yaml").write_text(meta, encoding="utf-8")
        return folder

    def test_rows_become_ops_in_whole_ns(self, tmp_path: Path) -> None:
        """Seconds as float32: their spacing at 1.1 s is the resolution."""
        found = read(self.job(tmp_path))
        assert len(found) == 6
        assert set(found.dur_ns.tolist()) <= {250_000_000}
        assert found.resolution_ns == 119  # 2^-23 s
        assert (found.layout.tp, found.layout.pp, found.layout.world_size) == (4, 2, 8)
        assert found.names[2] == "optimizer"

    def test_sequence_parallel_ranks_divide_the_sequence(self, tmp_path: Path) -> None:
        """dsp 2: the world is twice tp·pp·dp."""
        meta = self.META.replace("dsp_size: 1", "dsp_size: 2").replace("world_size: 8", "world_size: 16")
        assert read(self.job(tmp_path, meta=meta)).layout.cp == 2

    def test_other_exports_of_the_job_are_left_out(self, tmp_path: Path) -> None:
        """A timeline and the results lie beside it."""
        self.job(tmp_path)
        event = '[{"ph": "X", "name": "forward", "ts": 1, "dur": 1, "pid": 0, "tid": 0}]'
        (tmp_path / "timeline-X.json").write_text(event, encoding="utf-8")
        (tmp_path / "result-X.json").write_text('{"job_meta": {}}', encoding="utf-8")
        found = read(tmp_path)
        assert found.format == "straggler-analysis"
        assert any("timeline-X.json" in warning for warning in found.health.warnings)

    def test_without_description_sizes_come_from_the_rows(self, tmp_path: Path) -> None:
        """And that is said."""
        found = read(self.job(tmp_path, meta=None))
        assert (found.layout.pp, found.layout.tp) == (2, 1)
        assert any("no meta-*.yaml" in warning for warning in found.health.warnings)

    def test_a_description_of_another_job_is_an_error(self, tmp_path: Path) -> None:
        """4 stages against 2."""
        meta = self.META.replace("pp_size: 2", "pp_size: 4").replace("world_size: 8", "world_size: 16")
        with pytest.raises(TraceError, match=r"says pp_size 4, but trace-X\.parquet holds 2"):
            read(self.job(tmp_path, meta=meta))

    @pytest.mark.parametrize("value", ["two", "0", "-1"])
    def test_a_size_that_is_no_size_is_an_error(self, tmp_path: Path, value: str) -> None:
        """Named with its value."""
        with pytest.raises(TraceError, match="sizes must be positive whole numbers"):
            read(self.job(tmp_path, meta=self.META.replace("tp_size: 4", f"tp_size: {value}")))

    def test_missing_columns_are_named(self, tmp_path: Path) -> None:
        """With those that were found."""
        columns = self.columns()
        del columns["mb_id"]
        with pytest.raises(TraceError, match="columns mb_id are missing"):
            read(self.job(tmp_path, columns))

    @pytest.mark.parametrize(
        ("column", "value", "reason"),
        [
            ("duration", -0.1, "passes that end before they start"),
            ("start_ts", float("nan"), "passes whose times are not finite"),
            ("duration", 1e12, "passes whose times are centuries away"),
        ],
    )
    def test_times_that_are_none_are_counted(self, tmp_path: Path, column: str, value: float, reason: str) -> None:
        """An optimizer less; the passes are complete."""
        columns = self.columns()
        columns[column][5] = value
        found = read(self.job(tmp_path, columns))
        assert found.health.dropped == {reason: 1}
        assert len(found) == 5

    def test_a_gap_below_the_resolution_is_rounding(self, tmp_path: Path) -> None:
        """A duration of minus 50 ns at 1 s is 0."""
        columns = self.columns()
        columns["duration"][5] = -5e-8
        found = read(self.job(tmp_path, columns))
        assert sum(found.health.clipped.values()) == 1
        assert found.dur_ns.min() == 0

    def test_a_cut_file_is_an_error(self, tmp_path: Path) -> None:
        """The schema is at its end, so only the name can be told from it."""
        path = self.job(tmp_path) / "trace-X.parquet"
        path.write_bytes(path.read_bytes()[:200])
        with pytest.raises(TraceError, match=r"trace-X\.parquet"):
            read(tmp_path)

    def test_without_pyarrow_one_sentence_says_how_to_get_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The extra is optional."""
        self.job(tmp_path)
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(TraceError, match="pip install pyarrow"):
            read(tmp_path)

    def test_real(self, shared_data: Path) -> None:
        """32 steps of 2 x 4 workers."""
        found = read(shared_data / "pipeline" / "bytedance_ST")
        assert (found.layout.dp, found.layout.pp, found.layout.microbatches) == (2, 4, 4)
        assert len(found) == 6784
        assert len(set(found.step.tolist())) == 32
