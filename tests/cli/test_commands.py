"""The command line's own behaviour: exit codes, messages, help, and documentation that matches the commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from replay.cli import COMMANDS, main


def invoke(*arguments: str) -> tuple[int, str]:
    """Exit code and everything printed."""
    result = CliRunner().invoke(main, list(arguments))
    return result.exit_code, result.output


def test_help_loads_nothing_heavy() -> None:
    """`replay --help` imports neither numpy, pandas nor numba."""
    code = "import sys, replay.cli as c; c.main(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {name for name in ("numpy", "pandas", "numba", "rich") if f"'{name}'" in modules}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_a_place_in_the_reference(command: str, root: Path) -> None:
    """A command without documentation fails here."""
    code, text = invoke(command, "--help")
    assert code == 0
    assert text.startswith("Usage: main")
    assert f"## replay {command}" in (root / "docs/reference/cli.md").read_text(encoding="utf-8")


def test_the_reference_is_what_the_script_writes(root: Path) -> None:
    """docs/reference/cli.md is not stale; `python docs/cli_reference.py` writes it."""
    script = "import cli_reference, sys; sys.stdout.write(cli_reference.page())"
    page = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=root / "docs"
    ).stdout
    assert page == (root / "docs/reference/cli.md").read_text(encoding="utf-8")


def test_run_is_the_default_command(tmp_path: Path) -> None:
    """Arguments that name no command are those of run."""
    missing = str(tmp_path / "missing.json")
    assert invoke(missing) == invoke("run", missing)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run",), "Missing argument"),
        (("run", "x.json", "--ep", "0"), "--ep"),
        (("run", "x.json", "--scale", "gemm"), "'gemm' is not PATTERN=FACTOR with a factor of 0 or more"),
        (("run", "x.json", "--stall", "0=x"), "'0=x' is not RANK=MS with a time of 0 ms or more"),
        (("run", "x.json", "--scale", "gemm=-1"), "0 or more"),
        (("run", "x.json", "-o", "x.txt"), ".pftrace"),
        (("run", "x.json", "-o", "no/such/folder/x.json"), "does not exist"),
        (("run", "x.json", "-o", "folder.json"), "is a folder"),
        (("run", "x.json", "--measured-step", "nan"), "is not a time"),
        (("run", "x.json", "--from", "tp=two"), "tp must be a positive whole number"),
        (("run", "x.json", "--from", "tp=0"), "tp must be a positive whole number"),
        (("run", "x.json", "--from", "cows=2"), "is not KEY=VALUE"),
        (("profiles", "h8000"), "h800"),
    ],
)
def test_usage_errors_name_the_option_and_exit_2(
    arguments: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong words are told apart from bad input."""
    (tmp_path / "folder.json").mkdir()
    monkeypatch.chdir(tmp_path)
    code, text = invoke(*arguments)
    assert (code, says in text) == (2, True), text


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "empty"), (b"<!doctype html><html>", "HTML"), (b"\x80\x04\x95rest", "pickle"), (b"hello", "text")],
)
def test_bad_input_is_one_line_and_exit_1(content: bytes, says: str, tmp_path: Path) -> None:
    """No traceback for what a user can cause."""
    path = tmp_path / "input.json"
    path.write_bytes(content)
    code, text = invoke("run", str(path))
    assert code == 1
    assert says in text
    assert text.startswith("replay: ")
    assert text.count("\n") == 1


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the toolkit's own errors become messages."""
    from replay import api  # noqa: PLC0415 - patched here

    def broken(*_args: object, **_kwargs: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(api, "answer", broken)
    result = CliRunner().invoke(main, ["run", "x.json"])
    assert isinstance(result.exception, ZeroDivisionError)


def test_profiles_are_listed_and_shown() -> None:
    """A parameter comes with unit, grade and source."""
    assert "h800" in invoke("profiles")[1]
    assert "datasheet" in invoke("profiles", "h800")[1]
