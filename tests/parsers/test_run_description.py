"""``run.json``: what is stated is taken, what is not stays unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parsers.run_description import find
from replay.core.errors import TraceError


def write(folder: Path, document: object) -> Path:
    """A folder with that run.json."""
    (folder / "run.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def test_layout_model_and_timed_steps_are_read(tmp_path: Path) -> None:
    """Keys that are not known here are left alone, null stays unknown."""
    folder = write(
        tmp_path,
        {
            "layout": {"tp": 2, "gbs": None, "colour": "red"},
            "model": {"layers": 8},
            "profiled_step_ms": {"values": [1.5, 2.5]},
            "unprofiled_step_ms": {"values": [1.25]},
        },
    )
    found = find([folder])
    assert found.layout == {"tp": 2}
    assert found.model.layers == 8
    assert found.model.hidden is None
    assert found.steps_ms == (1.5, 2.5)
    assert found.unprofiled_steps_ms == (1.25,)


def test_it_lies_beside_a_file_that_is_given(tmp_path: Path) -> None:
    """One trace of a folder is enough to find it."""
    write(tmp_path, {"layout": {"ep": 4}})
    assert find([tmp_path / "rank0.json"]).layout == {"ep": 4}


def test_without_one_nothing_is_known(tmp_path: Path) -> None:
    """No file, no statement."""
    assert find([tmp_path]).layout == {}
    assert find([tmp_path]).file == ""


@pytest.mark.parametrize("text", ["", "[1]", '{"layout": 3}', '{"layout": {"tp": "2"}}', "{"])
def test_a_damaged_one_is_an_error_that_names_it(text: str, tmp_path: Path) -> None:
    """It is not silently left out: the layout would be another one."""
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(TraceError, match=r"run\.json"):
        find([tmp_path])
