"""Case files: what is said is taken, what is wrong is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.core.errors import TraceError
from replay.session.validation_cases import Case, read_cases


def cases(tmp_path: Path, text: str, name: str = "c.toml") -> tuple[Case, ...]:
    """Cases of a file beside a source called ``run``."""
    (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / name).write_text(text, encoding="utf-8")
    return read_cases(tmp_path / name).cases


TOML = """
schema = 1
[[run]]
name = "not read"
[[case]]
name = "a"
source = ["run"]
ep = 8
target = {vpp = 2}
edit = "--link pp=2"
measured_step_ms = 12.5
unprofiled_step_ms = 12
spread_pct = 0
device = "emulated"
split = "report"
"""


def test_toml(tmp_path: Path) -> None:
    """Sizes may stand in the case, in ``target``, or in ``edit``."""
    (case,) = cases(tmp_path, TOML)
    assert case.sources == (tmp_path / "run",)
    assert case.question.layout == {"ep": 8, "vpp": 2}
    assert case.question.link == (("pp", 2.0),)
    assert (case.measured_step_ms, case.unprofiled_step_ms, case.spread_pct) == (12.5, 12.0, 0.0)
    assert (case.kind, case.device, case.split, case.problem) == ("ep+vpp+link", "emulated", "report", "")


def test_csv_says_the_same(tmp_path: Path) -> None:
    """Empty cells say nothing; spreadsheets write whole numbers as 8.0."""
    text = "name,source,ep,target,edit,measured_step_ms,spread_pct,kind\na,run,8.0,vpp=2,--link pp=2,12.5,0,\n"
    (row,) = cases(tmp_path, text, "c.csv")
    (table,) = cases(tmp_path, TOML)
    assert (row.question, row.kind, row.measured_step_ms) == (table.question, table.kind, table.measured_step_ms)


def test_a_case_without_source_or_measurement_is_kept_with_its_place(tmp_path: Path) -> None:
    """Nothing is dropped in silence."""
    text = "name,source,ep,measured_step_ms\na,,8,1\na,run,8,\nb,Some Paper 2024,8,1\n"
    found = [case.problem for case in cases(tmp_path, text, "c.csv")]
    assert found[0].startswith("c.csv, line 2 (a): names no source")
    assert found[1].startswith("c.csv, line 3 (a): states no measured step")
    assert found[2].startswith("c.csv, line 4 (b): source 'Some Paper 2024' is no file or folder")


def test_cases_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """By their place."""
    found = cases(tmp_path, "name,source,measured_step_ms\na,run,1\na,run,2\nb,run,3\n", "c.csv")
    assert [case.name for case in found] == ["a (line 2)", "a (line 3)", "b"]


def test_columns_of_published_tables(tmp_path: Path) -> None:
    """Seconds are seconds there; what says nothing here is listed."""
    (tmp_path / "c.csv").write_text("case_id,step_time_s,num_devices,notes\nx,1.5,8,fast\n", encoding="utf-8")
    found = read_cases(tmp_path / "c.csv")
    assert (found.cases[0].measured_step_ms, found.cases[0].question.layout) == (1500.0, {"world_size": 8})
    assert found.warnings == ("c.csv: columns that are not used: notes",)


CASE = '[[case]]\nname = "a"\nsource = "run"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "give a .toml file with a [[case]] for each, or a .csv file"),
        (CASE + "mesured_step_ms = 1", "case 1 (a): unknown key 'mesured_step_ms'; did you mean 'measured_step_ms'?"),
        (CASE + 'measured_step_ms = "x"', "case 1 (a): measured_step_ms must be a number above 0"),
        (CASE + "measured_step_ms = -1", "measured_step_ms must be a number above 0"),
        (CASE + 'edit = "ep 8"', "case 1 (a): edit: 'ep' is no option"),
        ('[[case]]\nname = "a"\nsource = 7', "source must be a path or a list of paths, got 7"),
        (CASE + "edit = 3", "edit: 3 is no text"),
        (CASE + f"gbs = {'9' * 5000}", "c.toml: "),
        ("[[cases]]\nname = 1", "unknown table 'cases'; did you mean [[case]]?"),
        ("case = 1", "write every case as a table [[case]]"),
        ("schema = 1", "holds no case"),
        ("[[case", "c.toml: "),
    ],
)
def test_what_is_wrong_is_named(text: str, says: str, tmp_path: Path) -> None:
    """File, case, key, and the nearest key."""
    with pytest.raises(TraceError) as caught:
        cases(tmp_path, text)
    assert says in str(caught.value)


def test_a_misspelt_column_and_a_file_that_is_none(tmp_path: Path) -> None:
    """A column near to a key that is missing is no remark."""
    with pytest.raises(TraceError, match="unknown column 'mesured_step_ms'; did you mean 'measured_step_ms'"):
        cases(tmp_path, "name,source,mesured_step_ms\na,run,1\n", "c.csv")
    with pytest.raises(TraceError, match=r"none\.toml: cannot be read"):
        read_cases(tmp_path / "none.toml")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_tables_of_spreadsheets_in_any_language(delimiter: str, tmp_path: Path) -> None:
    """Where the comma is the decimal sign, cells are separated by semicolons."""
    lines = ("name,source,ep,measured_step_ms", "a,run,8,12.5")
    (case,) = cases(tmp_path, "\n".join(lines).replace(",", delimiter), "c.csv")
    assert (case.question.layout, case.measured_step_ms) == ({"ep": 8}, 12.5)


@pytest.mark.parametrize(
    ("text", "says"),
    [("name,ep,ep\na,8,4\n", "'ep' is there twice"), ("name,ep\na,8,4\n", "line 2: more cells than columns")],
)
def test_cells_without_a_column_of_their_own(text: str, says: str, tmp_path: Path) -> None:
    """Neither is guessed."""
    with pytest.raises(TraceError, match=says):
        cases(tmp_path, text, "c.csv")
