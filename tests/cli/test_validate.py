"""``replay validate`` from the command line."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from replay.cli import main
from tests.cli.test_diff import recording


def run(*arguments: str | Path) -> Result:
    """Whatever comes of it."""
    return CliRunner().invoke(main, ["validate", *map(str, arguments)])


def case_file(folder: Path, *cases: str) -> Path:
    """A file of cases beside a step whose second kernel takes 200 µs and ends at 320 µs."""
    recording(folder, "a.json", 200)
    path = folder / "cases.toml"
    path.write_text("\n".join(f"[[case]]\n{case}" for case in cases), encoding="utf-8")
    return path


SLOWER = 'name = "slower"\nsource = "a.json"\nedit = "--scale attention=2"\ndevice = "a100"\nmeasured_step_ms = 0.52'
REFUSED = 'name = "layers"\nsource = "a.json"\nep = 2\ndevice = "a100"\nmeasured_step_ms = 1'
MISSING = 'name = "missing"\nsource = "b.json"\nep = 2\nmeasured_step_ms = 1'


def test_json_of_cases_and_their_summary(tmp_path: Path) -> None:
    """The kernel takes 200 µs longer, so the step of about 0.32 ms becomes 0.52 ms."""
    result = run(case_file(tmp_path, SLOWER, REFUSED), "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    slower, refused = document["cases"]
    assert slower["predicted_step_ms"] == pytest.approx(0.52, rel=0.02)
    assert slower["error_pct"] == pytest.approx(100 * (slower["predicted_step_ms"] / 0.52 - 1))
    assert slower["in_interval"] is True
    assert (refused["refused"], refused["predicted_step_ms"]) == (True, None)
    summary = document["summary"]["a100"]
    assert (summary["pairs"], summary["refused"]) == (2, 1)
    assert summary["mean_abs_pct"] == pytest.approx((abs(slower["error_pct"]) + 100) / 2)


def test_the_number_is_that_of_replay_run(tmp_path: Path) -> None:
    """One way to an answer."""
    document = json.loads(run(case_file(tmp_path, SLOWER), "--json").stdout)
    asked = CliRunner().invoke(main, [str(tmp_path / "a.json"), "--scale", "attention=2", "--json"])
    answer = json.loads(asked.stdout)
    assert document["cases"][0]["predicted_step_ms"] == answer["predicted_step_ms"]
    assert document["cases"][0]["predicted_interval_ms"] == answer["predicted_interval_ms"]


def test_several_sources_at_once(tmp_path: Path) -> None:
    """The rows are the same, in the file's order."""
    cases = case_file(tmp_path, MISSING, SLOWER, REFUSED)
    assert json.loads(run(cases, "--json", "--jobs", "2").stdout) == json.loads(run(cases, "--json").stdout)


def test_a_source_inside_of_an_archive(tmp_path: Path) -> None:
    """Relative to the file of cases."""
    recording(tmp_path, "a.json", 200)
    with tarfile.open(tmp_path / "runs.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "a.json", "one/a.json")
    cases = case_file(tmp_path, SLOWER.replace("a.json", "runs.tar.xz/one"))
    assert json.loads(run(cases, "--json").stdout)["cases"][0]["refused"] is False


def test_reports(tmp_path: Path) -> None:
    """Terminal, HTML with its plot, CSV and JSON."""
    files = [tmp_path / f"out{suffix}" for suffix in (".html", ".csv", ".json")]
    result = run(case_file(tmp_path, SLOWER, REFUSED), *(word for file in files for word in ("-o", str(file))))
    assert result.exit_code == 0, result.output
    assert "cases.toml: 2 cases: mean |error|" in result.stdout
    assert "change of scale" in result.stdout
    page = files[0].read_text(encoding="utf-8")
    assert "predicted step, ms" in page
    assert files[1].read_text(encoding="utf-8").startswith("name,device,change,")
    assert json.loads(files[2].read_bytes())["schema"] == 1


def test_exit_codes(tmp_path: Path) -> None:
    """3 where nothing was answered, 1 above the limit or for bad input, 2 for usage."""
    refused = run(case_file(tmp_path, REFUSED, MISSING), "--json")
    assert refused.exit_code == 3
    assert len(json.loads(refused.stdout)["cases"]) == 2
    assert "every one of 2 cases was refused" in refused.stderr
    some = case_file(tmp_path, SLOWER, MISSING)
    assert run(some, "-q").exit_code == 0
    above = run(some, "--fail-above", "5")
    assert (above.exit_code, "mean |error| is above 5 %: unknown 100.00 %" in above.stderr) == (1, True)
    assert run(tmp_path / "none.toml").exit_code == 1
    assert run(some, "-o", "x.pftrace").exit_code == 2
    assert [run(some, "--fail-above", limit).exit_code for limit in ("nan", "inf", "-1", "x")] == [2, 2, 2, 2]


@pytest.mark.shared
@pytest.mark.parametrize("name", ["megatron_ci.csv", "single_node_a100.csv", "training_cases.csv"])
def test_published_configurations_have_no_trace_to_predict_from(name: str, shared_data: Path) -> None:
    """Every line says so."""
    path = shared_data / "cases" / name
    result = run(path, "--json")
    assert result.exit_code == 3
    document = json.loads(result.stdout)
    assert all(f"{name}, line " in case["reason"] for case in document["cases"])
