"""Fixtures shared by all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("no_deadline", deadline=None)  # a loaded machine is no failure
settings.load_profile("no_deadline")

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real inputs beside the checkout; tests that need it are skipped on machines without it."""
    if not SHARED.is_dir():
        pytest.skip("needs the real inputs in ../shared/data, which this machine does not have")
    return SHARED


@pytest.fixture(scope="session")
def sample(root: Path) -> Path:
    """The recording that ships with the project."""
    return root / "traces" / "moe-pp2-dp8-ep4"
