"""Every real input is inspected, and replayed or refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from replay.cli import main

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
INPUTS = sorted(path for kind in ("kineto", "pipeline", "logs") for path in (SHARED / kind).glob("*"))

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason="needs the real inputs in ../shared/data"),
]


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name[:40])
def test_inspect_always_answers_and_run_answers_or_refuses(path: Path) -> None:
    """Inspect exits 0; run exits 0, or 3 with the reason that inspect gives."""
    inspected = CliRunner().invoke(main, ["inspect", str(path), "--json"])
    assert inspected.exit_code == 0, inspected.output
    found = json.loads(inspected.stdout)
    ran = CliRunner().invoke(main, ["run", str(path), "--json"])
    if found["nothing_to_replay"] is None:
        assert ran.exit_code == 0, ran.output
        assert json.loads(ran.stdout)["measured_step_ms"] == found["measured_step_ms"]
    else:
        assert ran.exit_code == 3
        assert found["nothing_to_replay"] in ran.stderr
