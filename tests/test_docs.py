"""The documentation points at files that exist, and its examples use options that exist."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from replay.cli import COMMANDS, main
from replay.core.plugins import members
from replay.report.result import Inspection, RunResult

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)


def commands() -> dict[str, set[str]]:
    """Options of every command."""
    found = {}
    for name in COMMANDS:
        command = main.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        found[name] = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links name files of the checkout."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_use_options_that_exist(page: Path) -> None:
    """Every ``--option`` on a line that calls ``replay`` is one of the command's."""
    known = commands()
    for call in re.findall(r"^[^|\n]*?\breplay ([^\n`]+)", page.read_text(encoding="utf-8"), re.MULTILINE):
        command = call.split()[0] if call.split()[0] in known else "run"
        options = set(re.findall(r"(?<!\S)(--[a-z-]+)", call.split("#")[0]))
        assert options <= known[command] | {"--version"}, call


def test_readme_has_the_two_commands_that_ci_runs() -> None:
    """One installs and runs the main job, one installs and passes the tests; each is one line."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- (main-job|tests) -->\s*```sh\n(.+?)\n```", readme, re.DOTALL)
    assert [name for name, _ in blocks] == ["main-job", "tests"]
    assert ["\n" in command for _, command in blocks] == [False, False]
    assert "replay traces/moe-pp2-dp8-ep4 --ep 8 --vpp 2" in blocks[0][1]
    assert blocks[1][1].endswith("pytest")


def test_readme_shows_what_the_main_job_prints() -> None:
    """Stale output is wrong output; `python docs/readme_output.py` writes it."""
    script = (
        "import readme_output as r, sys; fresh = not r.is_stale() and r.really_took() in r.README.read_text();"
        "sys.exit(0 if fresh else 'run docs/readme_output.py')"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT / "docs", capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("result", [RunResult, Inspection])
def test_json_reference_names_every_key(result: type) -> None:
    """A field that is written is documented."""
    reference = (ROOT / "docs/reference/json.md").read_text(encoding="utf-8")
    assert [f.name for f in fields(result) if f"`{f.name}`" not in reference] == []


def test_every_dependency_says_why() -> None:
    """One line each in docs/reference/dependencies.md, development tools aside."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [name for extra in ("html", "parquet", "record") for name in project["optional-dependencies"][extra]]
    named = [re.split(r"[<>=~ ;\[]", requirement)[0] for requirement in project["dependencies"] + extras]
    reasons = (ROOT / "docs/reference/dependencies.md").read_text(encoding="utf-8")
    assert [name for name in named if not re.search(rf"\b{re.escape(name)}\b", reasons)] == []


def test_the_tutorial_runs() -> None:
    """Its Python is executed as it stands, on the sample."""
    tutorial = (ROOT / "docs/tutorial/first-replay.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.+?)```", tutorial, re.DOTALL)
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_every_format_is_described() -> None:
    """A parser without a row in docs/reference/formats.md fails here."""
    page = (ROOT / "docs/reference/formats.md").read_text(encoding="utf-8")
    formats = [module.FORMAT for module in members("parsers").values() if hasattr(module, "FORMAT")]
    assert [name for name in formats if f"| `{name}` |" not in page] == []
