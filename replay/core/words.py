"""Lists in messages."""

from __future__ import annotations

from collections.abc import Sequence


def listed(words: Sequence[str], limit: int = 8) -> str:
    """The first words, and how many there are."""
    return ", ".join(words) if len(words) <= limit else f"{', '.join(words[:limit])}, ... ({len(words)} in all)"
