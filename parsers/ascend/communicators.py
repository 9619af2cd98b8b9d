"""The two names of a communicator: HCCL's own, and the number that CANN's statistics print for it.

Metadata and databases give the name (``10.0.0.1%eth0_55000_0_1738895506630464``); ``communication.json`` and the names
of operators give the number (``6960437680420871035``, an operator its last three digits).
"""

from __future__ import annotations

_UINT32 = 0xFFFFFFFF
_HIGH, _LOW = 29, 131  # multipliers of the two halves


def communicator_id(name: str) -> str:
    """The number of a communicator as text; a number stays what it is, and nothing stays nothing.

    Two polynomial hashes of 32 bits over the characters, the first in the upper half: h ← h·29 + c and h ← h·131 + c.
    Checked against pairs of both names that msprof-analyze wrote side by side.
    """
    if not name or name.isdigit():
        return name
    high = low = 0
    for byte in name.encode():
        high = (high * _HIGH + byte) & _UINT32
        low = (low * _LOW + byte) & _UINT32
    return str(high << 32 | low)
