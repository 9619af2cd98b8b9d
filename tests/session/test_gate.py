"""R6: nothing is predicted from a baseline that is not reproduced."""

from __future__ import annotations

import pytest

from replay.core.errors import RefusedError
from replay.session.gate import require


def test_five_percent_passes_and_more_is_refused() -> None:
    """The message carries the number, the reason and the way out."""
    assert require("replayed", 5.0, "", force=False) is False
    with pytest.raises(RefusedError, match=r"-5\.1 %.*kernel x.*--force"):
        require("replayed", -5.1, "kernel x", force=False)


def test_force_overrides_and_says_so() -> None:
    """The caller learns that the gate was overridden."""
    assert require("replayed", 50.0, "", force=True) is True
    assert require("replayed", 1.0, "", force=True) is False
