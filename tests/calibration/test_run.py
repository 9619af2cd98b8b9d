"""From samples to a profile: groups, contradictions, start values, round trips, the command."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hwprofiles
from calibration.disagreement import disagreements
from calibration.fit import FitOptions, fit
from calibration.groups import groups
from calibration.profile import Target, as_fitted, profile_of, start_values
from hwprofiles.schema import profile_from
from hwprofiles.write import to_toml
from replay.cli import main
from replay.core.evidence import Grade
from replay.cost_model import CostModel, ParameterSpec
from replay.samples import concatenate
from tests.calibration.fakes import BYTES_PER_S, link_model, link_ns, powers_of_two, samples

RANK = "#  Rank {} Group 0 Pid 1 on node device {} [0x07] Made-up device"


def nccl_log(latency_us: float = 20.0, ranks: int = 4) -> str:
    """An all_reduce of 1 KiB to 8 GiB: 20 us and 100 GB/s of busbw, with 1 % of noise."""
    rng = np.random.default_rng(ranks)
    lines = [
        "# Collective test starting: all_reduce_perf",
        "# nThread 1 nGpus 1 warmup iters: 5 iters: 20 agg iters: 1",
    ]
    lines += [RANK.format(i, i) for i in range(ranks)]
    lines.append("#  size  count  type  redop  root  time  algbw  busbw  #wrong")
    for size in powers_of_two():
        factor = 2 * (ranks - 1) / ranks
        time = (latency_us + size * factor / 100e3) * np.exp(0.01 * rng.normal())
        algbw = size / time / 1e3
        lines.append(f"{size:.0f} {size / 4:.0f} float sum -1 {time:.3f} {algbw:.3f} {algbw * factor:.3f} 0")
    return "\n".join(lines) + "\n"


def test_groups_are_fitted_apart() -> None:
    parts = [samples([1e3] * 3, np.full(3, 1e3), dtype=dtype) for dtype in ("bf16", "fp8", "bf16")]
    model = CostModel("m", (), ("nbytes",), link_model().parameters, link_ns, by=("op", "dtype"))
    found = {key["dtype"]: len(rows) for key, rows in groups(model, concatenate(parts))}
    assert found == {"bf16": 6, "fp8": 3}


def test_runs_of_two_fabrics_in_one_fit_are_named() -> None:
    nbytes = powers_of_two()
    times = 2e4 + nbytes * 1e9 / BYTES_PER_S
    both = concatenate([samples(nbytes, times, source="fast.log"), samples(nbytes, 3 * times, source="slow.log")])
    runs = disagreements(both, fit(link_model(), both), FitOptions())
    assert [run.name for run in runs] == ["slow.log", "fast.log"]
    assert runs[0].alone_pct < 1 < runs[0].together_pct


def test_runs_that_agree_are_not() -> None:
    nbytes = powers_of_two()
    times = 2e4 + nbytes * 1e9 / BYTES_PER_S
    both = concatenate([samples(nbytes, times, source="a.log"), samples(nbytes, 1.05 * times, source="b.log")])
    assert disagreements(both, fit(link_model(), both), FitOptions()) == ()


def test_start_values_come_from_the_base_profile() -> None:
    spec = ParameterSpec("peak", "FLOP/s", 1e12, 1e9, 1e16, profile="{dtype}_flop_per_s")
    model = CostModel("m", (), (), (spec,), link_ns)
    h100 = hwprofiles.load("h100-sxm")
    assert start_values(model, h100, "fp8_block") == {"peak": h100.value("fp8_flop_per_s")}
    assert start_values(model, h100, "fp16") == {"peak": h100.value("bf16_flop_per_s")}
    assert start_values(model, None, "bf16") == {}


def test_a_profile_with_fits_survives_a_round_trip_bit_by_bit() -> None:
    nbytes = powers_of_two()
    data = samples(nbytes, 2e4 + nbytes * 1e9 / BYTES_PER_S, source='odd "name"\\.log')
    result = fit(link_model(), data)
    fitted = as_fitted({"op": "all_reduce"}, data, result, {"fit": result.score}, None)
    profile = profile_of(Target("mine", "Title", ("Device",), hwprofiles.load("h100-sxm")), [fitted])
    text = to_toml(profile)
    again = profile_from(tomllib.loads(text), "mine.toml")
    assert again == profile
    assert to_toml(again) == text


def test_a_prediction_outside_the_calibrated_range_is_extrapolated() -> None:
    nbytes = powers_of_two()
    data = samples(nbytes, 2e4 + nbytes * 1e9 / BYTES_PER_S)
    fitted = as_fitted({"op": "all_reduce"}, data, fit(link_model(), data), {}, None)
    assert fitted.calibrated == {"nbytes": (2.0**10, 2.0**33)}
    grades = fitted.grades({"nbytes": np.array([2.0**9, 2.0**20, 2.0**34])})
    assert list(grades) == [Grade.EXTRAPOLATED, Grade.FITTED, Grade.EXTRAPOLATED]


def test_a_refit_replaces_the_fit_of_the_same_key() -> None:
    nbytes = powers_of_two()
    data = samples(nbytes, 2e4 + nbytes * 1e9 / BYTES_PER_S)
    fitted = as_fitted({"op": "all_reduce"}, data, fit(link_model(), data), {}, None)
    once = profile_of(Target("a", "a"), [fitted])
    assert profile_of(Target("a", "a", (), once), [fitted]).fitted == once.fitted


class TestCommand:
    """``replay calibrate`` and ``replay profiles``."""

    def test_a_log_becomes_a_profile_and_twice_the_same(self, tmp_path: Path) -> None:
        log = tmp_path / "run.log"
        log.write_text(nccl_log())
        texts = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            done = CliRunner().invoke(main, ["calibrate", str(log), "-o", str(tmp_path / name / "mine.toml"), "--json"])
            assert done.exit_code == 0, done.output
            texts.append((tmp_path / name / "mine.toml").read_bytes())
        assert texts[0] == texts[1]
        document = json.loads(done.stdout)
        ring = next(fit for fit in document["fits"] if fit["model"] == "ring_all_reduce")
        value, stderr = (ring["parameters"]["bytes_per_s"][name] for name in ("value", "stderr"))
        assert value == pytest.approx(100e9, rel=0.03)
        assert 0 < stderr < 0.03 * value
        kept = {fit.model for fit in hwprofiles.load(str(tmp_path / "one" / "mine.toml")).fitted}
        best = next(fit["model"] for fit in document["fits"] if fit["best"])
        assert kept == {"ring_all_reduce", best}  # the usual algorithm and the best, of four
        shown = CliRunner().invoke(main, ["profiles", str(tmp_path / "one" / "mine.toml")])
        assert "ring_all_reduce all_reduce intra_node: 24 samples of run.log" in shown.stdout

    def test_the_report_is_one_html_file(self, tmp_path: Path) -> None:
        log = tmp_path / "run.log"
        log.write_text(nccl_log())
        arguments = ["calibrate", str(log), "-o", str(tmp_path / "a.toml"), "--report", str(tmp_path / "a.html")]
        assert CliRunner().invoke(main, arguments).exit_code == 0
        page = (tmp_path / "a.html").read_text()
        assert "measured / model - 1, %" in page
        assert "http://" not in page.split("</head>")[1].split("<script")[0]

    def test_a_log_is_predicted_from_the_profile_of_another(self, tmp_path: Path) -> None:
        """Latency grows with 2(n - 1) steps: 8 ranks at 10 us a step are predicted from 2 and 4; the page says so."""
        for ranks in (2, 4, 8):
            (tmp_path / f"{ranks}.log").write_text(nccl_log(20.0 * (ranks - 1), ranks))
        sources = [str(tmp_path / "2.log"), str(tmp_path / "4.log"), "--score", str(tmp_path / "8.log")]
        sources += ["--report", str(tmp_path / "a.html")]
        done = CliRunner().invoke(main, ["calibrate", *sources, "-o", str(tmp_path / "a.toml"), "--json"])
        assert done.exit_code == 0, done.output
        (found,) = json.loads(done.stdout)["predicted"]
        assert (found["name"], found["source"]) == ("all_reduce 1 x 8 ranks", "8.log")
        assert found["grades"] == {"extrapolated": 24}
        assert found["score"]["median_pct"] < 3
        assert "all_reduce 1 x 8 ranks" in (tmp_path / "a.html").read_text()

    def test_one_size_is_refused_with_exit_code_3(self, tmp_path: Path) -> None:
        log = tmp_path / "run.log"
        lines = nccl_log().splitlines()
        log.write_text("\n".join([*lines[:8], *lines[7:8] * 4]))
        done = CliRunner().invoke(main, ["calibrate", str(log), "-o", str(tmp_path / "a.toml")])
        assert done.exit_code == 3
        assert "distinct size" in done.stderr
        assert not (tmp_path / "a.toml").exists()

    def test_samples_of_two_devices_need_a_choice(self, tmp_path: Path) -> None:
        for name in ("one", "other"):
            (tmp_path / f"{name}.log").write_text(nccl_log().replace("Made-up", name))
        sources = [str(tmp_path / "one.log"), str(tmp_path / "other.log"), "-o", str(tmp_path / "a.toml")]
        done = CliRunner().invoke(main, ["calibrate", *sources])
        assert done.exit_code == 3
        assert "one device, other device" in done.stderr
        assert CliRunner().invoke(main, ["calibrate", *sources, "--device", "OTHER"]).exit_code == 0

    def test_two_profiles_side_by_side(self) -> None:
        done = CliRunner().invoke(main, ["profiles", "--compare", "h100-sxm", "h800"])
        assert done.exit_code == 0
        assert "intra_node_bytes_per_s" in done.stdout
